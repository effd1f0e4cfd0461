// Columns of text for terminals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tdump::tools {

// Rows of one width. The first row added is the head. Cells are what Printable gave.
class Table {
 public:
  // `right`: which columns hold numbers.
  explicit Table(std::vector<bool> right) : right_(std::move(right)), widths_(right_.size(), 0) {}

  void Add(std::vector<std::string> cells);
  size_t rows() const { return rows_.size(); }
  // Lines with a newline each, columns padded to the widest cell so far; forgets the rows but not
  // the widths, so that a long table can be printed in pieces.
  std::string Take(std::string_view indent = "");

 private:
  std::vector<bool> right_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tdump::tools
