#include "tools/table.h"

#include <algorithm>

#include "core/utf8.h"

namespace tdump::tools {

void Table::Add(std::vector<std::string> cells) {
  cells.resize(widths_.size());
  for (size_t i = 0; i < cells.size(); ++i)
    widths_[i] = std::max(widths_[i], CharactersIn(cells[i]));
  rows_.push_back(std::move(cells));
}

std::string Table::Take(std::string_view indent) {
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths_[i] - CharactersIn(row[i]), ' ');
      line += (right_[i] ? pad + row[i] : row[i] + pad) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  rows_.clear();
  return text;
}

}  // namespace tdump::tools
