#include "core/text.h"

#include <algorithm>
#include <cstdio>

namespace tdump {
namespace {

// Length of the UTF-8 character at the front of `text`; 0 when there is none. Sets its code point.
size_t DecodeUtf8(std::string_view text, uint32_t* code) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    *code = lead;
    return 1;
  }
  const size_t length = lead >= 0xF0 && lead < 0xF5   ? 4
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  *code = lead & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) >> 6) != 2) return 0;
    *code = *code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && *code < 0x800) || (length == 4 && *code < 0x10000);
  const bool surrogate = *code >= 0xD800 && *code < 0xE000;
  return overlong || surrogate || *code > 0x10FFFF ? 0 : length;
}

bool IsHarmless(uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  const bool bidi = code == 0x061C || code == 0x200E || code == 0x200F ||
                    (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !bidi && code != 0xFEFF;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t length = DecodeUtf8(text, &code);
    const std::string_view bytes = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(bytes.size());
    if (length != 0 && IsHarmless(code)) {
      printable += bytes;
      continue;
    }
    for (const unsigned char byte : bytes) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", byte);
      printable += hex;
    }
  }
  return printable;
}

std::string RangesText(std::vector<uint64_t> numbers) {
  if (numbers.empty()) return "none";
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last != i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string CountText(uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Plural(uint64_t count, std::string_view noun) {
  std::string text = CountText(count) + " " + std::string(noun);
  if (count == 1) return text;
  if (noun.ends_with("y")) return text.substr(0, text.size() - 1) + "ies";
  return text + (noun.ends_with("s") ? "es" : "s");
}

std::string BytesText(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1023.5 && unit < 6) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 9.95 ? "%.0f %s" : "%.1f %s", value,
                kUnits[unit]);
  return text;
}

}  // namespace tdump
