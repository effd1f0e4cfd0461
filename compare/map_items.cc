#include "compare/map_items.h"

#include <algorithm>
#include <utility>

#include "compare/map_data.h"
#include "core/parse_number.h"

namespace tdump::compare {
namespace {

using settings::Printable;
using settings::Regex;
using settings::YamlEntry;
using settings::YamlNode;

constexpr size_t kMaxEntries = 2000;  // of a list

}  // namespace

std::string Describe(const YamlNode& node) {
  if (node.is_map()) return node.entries.empty() ? "an empty map" : "a map";
  if (node.is_sequence()) return node.items.empty() ? "an empty list" : "a list";
  return node.is_text() ? "'" + Printable(node.text) + "'" : "no value";
}

std::string OneOf(const std::vector<std::string>& words) {
  std::string text = "one of ";
  for (const std::string& word : words) text += (&word == &words.front() ? "" : ", ") + word;
  return text;
}

void MapItems::Bad(const Item& item, std::string_view what, std::string_view expected,
                   std::string_view near) {
  mistakes_->Add(item.node.at, item.key + ": " + std::string(what), expected, near);
}

void MapItems::ReadKeys(const Item& map, std::initializer_list<Known> known) {
  if (!map.node.is_map()) return Bad(map, Describe(map.node), "a map of keys");
  for (const YamlEntry& entry : map.node.entries) {
    const std::string shown = map.key.empty() ? entry.key : map.key + "." + entry.key;
    const auto* found = std::find_if(known.begin(), known.end(),
                                     [&](const Known& key) { return key.key == entry.key; });
    if (found != known.end()) {
      if (entry.value->kind == YamlNode::Kind::kNull && entry.value->text.empty())
        Bad({shown, *entry.value}, "no value", "a value, or no such key");
      else
        found->read({shown, *entry.value});
      continue;
    }
    std::vector<std::string> words;
    for (const Known& key : known) words.emplace_back(key.key);
    mistakes_->Add(entry.at, "unknown key '" + Printable(shown) + "'", OneOf(words),
                   settings::Nearest(entry.key, words));
  }
}

void MapItems::ReadList(const Item& item, const std::function<void(const Item&)>& read) {
  if (!item.node.is_sequence()) return Bad(item, Describe(item.node), "a list");
  if (item.node.items.size() > kMaxEntries) {
    return Bad(item, std::to_string(item.node.items.size()) + " entries",
               "at most " + std::to_string(kMaxEntries));
  }
  for (size_t i = 0; i < item.node.items.size(); ++i)
    read({item.key + "[" + std::to_string(i) + "]", *item.node.items[i]});
}

bool MapItems::ReadText(const Item& item, std::string* out) {
  if (item.node.is_text())
    *out = item.node.text;
  else
    Bad(item, Describe(item.node), "text");
  return item.node.is_text();
}

void MapItems::ReadTexts(const Item& item, std::vector<std::string>* out) {
  if (item.node.is_text()) return out->push_back(item.node.text);
  if (!item.node.is_sequence()) return Bad(item, Describe(item.node), "text or a list of texts");
  for (const auto& node : item.node.items) {
    std::string text;
    if (ReadText({item.key, *node}, &text)) out->push_back(std::move(text));
  }
}

bool MapItems::ReadNumber(const Item& item, int64_t least, int64_t* out) {
  const std::string& text = item.node.text;
  const auto number = ParseNumber<int64_t>(text);
  const bool good = item.node.is_text() && number && *number >= least && *number <= 1'000'000;
  if (good)
    *out = *number;
  else
    Bad(item, Describe(item.node), "a whole number from " + std::to_string(least) + " to 1000000");
  return good;
}

void MapItems::ReadCount(const Item& item, uint64_t* out) {
  int64_t number = 0;
  if (ReadNumber(item, 1, &number)) *out = static_cast<uint64_t>(number);
}

void MapItems::ReadFlag(const Item& item, bool* out) {
  if (item.node.is_text() && (item.node.text == "true" || item.node.text == "false"))
    *out = item.node.text == "true";
  else
    Bad(item, Describe(item.node), "true | false");
}

bool MapItems::TakeRegex(const Item& item, Result<Regex> regex, std::optional<Regex>* out) {
  if (!regex.ok()) {
    Bad(item, regex.status().message());
    return false;
  }
  *out = std::move(*regex);
  return true;
}

bool MapItems::ReadSearch(const Item& item, std::optional<Regex>* out) {
  std::string text;
  return ReadText(item, &text) && TakeRegex(item, Regex::Compile(text), out);
}

bool MapItems::ReadComponents(const Item& item, std::optional<Regex>* out) {
  std::string text;
  return ReadText(item, &text) && TakeRegex(item, CompileComponents(text), out);
}

void MapItems::ReadSearches(const Item& item, std::vector<Regex>* out) {
  const auto one = [&](const YamlNode& node) {
    std::optional<Regex> regex;
    if (ReadSearch({item.key, node}, &regex)) out->push_back(std::move(*regex));
  };
  if (!item.node.is_sequence()) return one(item.node);
  for (const auto& node : item.node.items) one(*node);
}

}  // namespace tdump::compare
