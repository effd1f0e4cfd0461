// Typed values out of a YAML tree, with mistakes that name their place. Private to compare's maps.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/mistakes.h"
#include "settings/regex.h"
#include "settings/yaml_tree.h"

namespace tdump::compare {

// A value, and the key it stands under as messages name it.
struct Item {
  std::string key;
  const settings::YamlNode& node;
};

// "a map", "'text'": what a node is, for messages.
std::string Describe(const settings::YamlNode& node);
std::string OneOf(const std::vector<std::string>& words);

// Every function either sets `*out` or adds a mistake and leaves it alone.
class MapItems {
 public:
  explicit MapItems(settings::Mistakes* mistakes) : mistakes_(mistakes) {}

  // "key: what; expected ...; did you mean ...?" at the node.
  void Bad(const Item& item, std::string_view what, std::string_view expected = "",
           std::string_view near = "");

  struct Known {
    const char* key;
    std::function<void(const Item&)> read;
  };
  // The entries of a map, in their order. Others than those known are mistakes.
  void ReadKeys(const Item& map, std::initializer_list<Known> known);
  void ReadList(const Item& item, const std::function<void(const Item&)>& read);

  bool ReadText(const Item& item, std::string* out);
  void ReadTexts(const Item& item, std::vector<std::string>* out);  // one, or a list
  bool ReadNumber(const Item& item, int64_t least, int64_t* out);   // at most a million
  void ReadCount(const Item& item, uint64_t* out);                  // 1 or more
  void ReadFlag(const Item& item, bool* out);
  // A regex as it is; of whole components (compare/map_data.h); one or a list.
  bool ReadSearch(const Item& item, std::optional<settings::Regex>* out);
  bool ReadComponents(const Item& item, std::optional<settings::Regex>* out);
  void ReadSearches(const Item& item, std::vector<settings::Regex>* out);

 private:
  bool TakeRegex(const Item& item, Result<settings::Regex> regex,
                 std::optional<settings::Regex>* out);

  settings::Mistakes* mistakes_;
};

}  // namespace tdump::compare
