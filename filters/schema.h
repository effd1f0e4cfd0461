// The keys of tdump's YAML, each once: name, type, default, documentation, and how it is read and
// printed. docs/config.md is generated from here (filters/config_reference.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "filters/config.h"
#include "filters/reader.h"

namespace tdump::filters {

// One key. `read` == nullptr: a key of a later version; it is accepted with its default only.
template <class T>
struct KeySpec {
  std::string_view path;          // "output.dir"; of a rule: "role"
  std::string_view type;          // as the reference shows it
  std::string_view value;         // default, as YAML
  std::string_view doc;           // Markdown
  std::string_view example = "";  // a value other than the default, as YAML in flow style
  void (*read)(Reader&, const Setting&, T*) = nullptr;
  std::string (*print)(const T&) = nullptr;  // the value as YAML in flow style
};

// In the order of the reference; sections are the common prefixes.
std::span<const KeySpec<Config>> ConfigKeys();
std::span<const KeySpec<Rule>> RuleKeys();

// Reads a list of rules into `out` (capture, one set of it, or one of `filters`).
void ReadRules(Reader& reader, const Setting& s, std::vector<Rule>* out);
void ReadCapture(Reader& reader, const Setting& s, std::vector<FilterSet>* out);

// Values as YAML in flow style.
std::string PrintRule(const Rule& rule);  // with the keys that differ from their defaults
std::string PrintSpec(const Spec& spec);
std::string PrintLevel(Parts level);
std::string PrintTexts(const std::vector<std::string>& texts);

}  // namespace tdump::filters
