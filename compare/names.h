// Names of modules, classes and operators, taken apart: "model.layers.17.mlp".
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tdump::compare {

// What stands between the dots; "" has one component, which is empty.
std::vector<std::string_view> ComponentsOf(std::string_view dotted);
std::string_view LastComponent(std::string_view dotted);
// Digits and nothing else.
bool IsDigits(std::string_view component);

// Whether the text begins so; then without it.
bool TakePrefix(std::string_view* text, std::string_view prefix);

std::string LowerCase(std::string_view text);  // of ASCII letters
bool ContainsAny(std::string_view text, std::span<const char* const> words);
inline bool ContainsAny(std::string_view text, std::initializer_list<const char*> words) {
  return ContainsAny(text, std::span(words.begin(), words.size()));
}

}  // namespace tdump::compare
