// Numbers written out in text.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace tdump {

// The whole text as a decimal number, without a plus sign or blanks; none: it is no number, or one
// that does not fit in T.
template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last) return std::nullopt;
  return number;
}

// Takes a number off the front of the text. False, and nothing is taken: there is none, or it does
// not fit in T.
template <class T>
bool TakeNumber(std::string_view* text, T* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

}  // namespace tdump
