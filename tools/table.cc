#include "tools/table.h"

#include <algorithm>

namespace tdump::tools {
namespace {

// Columns a UTF-8 text takes, one per character.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c >> 6) != 2; }));
}

}  // namespace

void Table::Add(std::vector<std::string> cells) {
  cells.resize(widths_.size());
  for (size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], Width(cells[i]));
  rows_.push_back(std::move(cells));
}

std::string Table::Take(std::string_view indent) {
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths_[i] - Width(row[i]), ' ');
      line += (right_[i] ? pad + row[i] : row[i] + pad) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  rows_.clear();
  return text;
}

}  // namespace tdump::tools
