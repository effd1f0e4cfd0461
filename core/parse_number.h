// Numbers written out in text.
#pragma once

#include <charconv>
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

}  // namespace tdump
