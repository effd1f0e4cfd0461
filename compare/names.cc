#include "compare/names.h"

#include <algorithm>

namespace tdump::compare {

std::vector<std::string_view> ComponentsOf(std::string_view dotted) {
  std::vector<std::string_view> components;
  for (size_t begin = 0; begin <= dotted.size();) {
    const size_t end = std::min(dotted.find('.', begin), dotted.size());
    components.push_back(dotted.substr(begin, end - begin));
    begin = end + 1;
  }
  return components;
}

std::string_view LastComponent(std::string_view dotted) {
  return dotted.substr(dotted.rfind('.') + 1);  // npos + 1 is 0
}

bool IsDigits(std::string_view component) {
  return !component.empty() && std::all_of(component.begin(), component.end(),
                                           [](char c) { return c >= '0' && c <= '9'; });
}

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return lower;
}

bool ContainsAny(std::string_view text, std::span<const char* const> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace tdump::compare
