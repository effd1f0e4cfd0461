// Reader: YAML nodes into typed values. Every function either sets `*out`, or
// adds a mistake and leaves it alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/spec.h"
#include "filters/config.h"
#include "filters/settings.h"

namespace tdump::filters {

// One setting: a value and the key it stands under, as messages name it.
struct Setting {
  std::string key;
  const YamlNode& node;
};

class Reader {
 public:
  explicit Reader(Mistakes* mistakes) : mistakes_(mistakes) {}
  Mistakes& mistakes() { return *mistakes_; }

  // "key: what; expected ...; did you mean ...?" at the node.
  void Bad(const Setting& s, std::string_view what, std::string_view expected = "",
           std::string_view near = "");
  // "key: value is not in this version".
  void Later(const Setting& s, std::string_view expected = "");

  bool Text(const Setting& s, std::string* out);
  void Bool(const Setting& s, bool* out);      // true | false
  void OnOff(const Setting& s, bool* out);     // on | off, also true | false
  void AutoOnOff(const Setting& s, Tri* out);  // auto | on | off
  // Index of the word in `now`; -1 with a mistake for a word of `later` or an unknown one.
  int Word(const Setting& s, std::initializer_list<std::string_view> now,
           std::initializer_list<std::string_view> later = {});
  bool Count(const Setting& s, uint64_t* out);  // a whole number, not negative
  bool Bytes(const Setting& s, uint64_t* out);
  bool Seconds(const Setting& s, double* out);
  // SPEC as text, number, or a list of them. `from_end`: negative numbers are allowed.
  void Specification(const Setting& s, bool from_end, Spec* out);
  void Texts(const Setting& s, std::vector<std::string>* out);    // one text or a list of texts
  void Regexes(const Setting& s, std::vector<std::string>* out);  // the same, each a valid regex

 private:
  Mistakes* mistakes_;
};

// What a node is, for messages: "a list", "a map", "'text'".
std::string Describe(const YamlNode& node);

}  // namespace tdump::filters
