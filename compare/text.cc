#include "compare/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/utf8.h"

namespace tdump::compare {

std::string Style::Wrap(std::string_view code, std::string_view text) const {
  return colour_ ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string Short(double value) { return value == 0 ? "0" : fmt::format("{:.4g}", value); }

std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right,
                  std::string_view indent, const Style& style) {
  std::vector<size_t> widths(right.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], CharactersIn(row[i]));
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line(indent);
    for (size_t i = 0; i < rows[r].size() && i < widths.size(); ++i) {
      const std::string pad(widths[i] - CharactersIn(rows[r][i]), ' ');
      line += right[i] ? pad + rows[r][i] : rows[r][i] + pad;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (r == 0 ? style.Dim(line) : line) + "\n";
  }
  return text;
}

}  // namespace tdump::compare
