#include "filters/units.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace tdump::filters {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// Splits "10 GB" into its number and the factor of its unit.
bool SplitAmount(std::string_view text, const Unit* units, size_t count, double* number,
                 double* factor) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error != std::errc() || !std::isfinite(*number) || *number < 0) return false;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (size_t i = 0; i < count; ++i) {
    if (units[i].name != unit) continue;
    *factor = units[i].factor;
    return true;
  }
  return false;
}

constexpr double kK = 1024.0;
constexpr Unit kBytes[] = {{"", 1},
                           {"B", 1},
                           {"KiB", kK},
                           {"MiB", kK* kK},
                           {"GiB", kK* kK* kK},
                           {"TiB", kK* kK* kK* kK},
                           {"kB", 1e3},
                           {"KB", 1e3},
                           {"MB", 1e6},
                           {"GB", 1e9},
                           {"TB", 1e12}};
constexpr Unit kSeconds[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}};

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  double number = 0, factor = 0;
  const bool fits =
      SplitAmount(text, kBytes, std::size(kBytes), &number, &factor) && number * factor < 9e18;
  if (!fits) return InvalidArgument("not an amount of bytes such as 512MiB, 10GB or 4096");
  return static_cast<uint64_t>(number * factor);
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::pair<std::string_view, int> kShifts[] = {
      {"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}};
  for (const auto& [name, shift] : kShifts) {
    const uint64_t unit = uint64_t{1} << shift;
    if (bytes != 0 && bytes % unit == 0) return std::to_string(bytes / unit) + std::string(name);
  }
  return std::to_string(bytes);
}

Result<double> ParseSeconds(std::string_view text) {
  double number = 0, factor = 0;
  const bool fits =
      SplitAmount(text, kSeconds, std::size(kSeconds), &number, &factor) && number * factor <= 1e9;
  if (!fits) return InvalidArgument("not a time such as 30s, 500ms or 2m");
  return number * factor;
}

std::string FormatSeconds(double seconds) {
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text, seconds);
  return std::string(text, end) + "s";
}

}  // namespace tdump::filters
