#include "compare/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tdump::compare {
namespace {

// Columns a UTF-8 text takes, one per character.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c >> 6) != 2; }));
}

}  // namespace

std::string Style::Wrap(std::string_view code, std::string_view text) const {
  return colour_ ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

std::string Ranges(std::vector<int64_t> numbers) {
  if (numbers.empty()) return "none";
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text +=
        last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string BytesText(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string Plural(uint64_t count, std::string_view noun) {
  const bool es = noun.ends_with("pass");
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : es ? "es" : "s");
}

std::string Short(double value) { return value == 0 ? "0" : fmt::format("{:.4g}", value); }

std::string Printable(std::string_view text) {
  std::string printable;
  for (unsigned char c : text) {
    if (c < 0x20 || c == 0x7F)
      printable += fmt::format("\\x{:02x}", c);
    else
      printable += static_cast<char>(c);
  }
  return printable;
}

std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right,
                  std::string_view indent, const Style& style) {
  std::vector<size_t> widths(right.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line(indent);
    for (size_t i = 0; i < rows[r].size() && i < widths.size(); ++i) {
      const std::string pad(widths[i] - Width(rows[r][i]), ' ');
      line += right[i] ? pad + rows[r][i] : rows[r][i] + pad;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (r == 0 ? style.Dim(line) : line) + "\n";
  }
  return text;
}

}  // namespace tdump::compare
