// Small pieces of the reports' text, beyond those of core/text.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compare/shorten.h"
#include "core/text.h"

namespace tdump::compare {

inline constexpr size_t kReportWidth = 100;  // columns of a terminal that reports fit

// Terminal colours, or none, and how many columns there are. Prose never takes more than
// kReportWidth of them, tables do.
class Style {
 public:
  explicit Style(bool colour, size_t columns = kReportWidth) : colour_(colour), columns_(columns) {}
  size_t columns() const { return columns_; }
  size_t prose_columns() const { return columns_ < kReportWidth ? columns_ : kReportWidth; }
  std::string Bold(std::string_view text) const { return Wrap("1", text); }
  std::string Red(std::string_view text) const { return Wrap("1;31", text); }
  std::string Green(std::string_view text) const { return Wrap("1;32", text); }
  std::string Dim(std::string_view text) const { return Wrap("2", text); }

 private:
  std::string Wrap(std::string_view code, std::string_view text) const;
  bool colour_;
  size_t columns_;
};

std::string ShapeText(const std::vector<uint64_t>& shape);  // "[4, 128, 384]"
// A number for people: 4 digits, "0" for zero.
std::string Short(double value);

// "rank 2", "ranks 0-1,3": a noun and its numbers, sorted.
std::string NumbersText(std::string_view noun, const std::vector<uint64_t>& numbers);
std::string RanksText(const std::vector<int32_t>& ranks);
inline std::string StepsText(const std::vector<uint64_t>& steps) {
  return NumbersText("step", steps);
}

// A module path up to its first number: "model.layers.17" of "model.layers.17.mlp.down"; without a
// number its first two parts, "model.norm".
std::string LayerName(std::string_view path);

// A regex that this text matches, with its dots as they are: "h\\(0\\)" of "h(0)".
std::string RegexOf(std::string_view text);

// Broken at spaces into lines of at most `width` characters, those after the first indented by
// `hang`; a longer word stays whole. So do a text in single quotes, an option with its argument,
// and a command line of tdump-*, which are there to be copied.
std::string Wrap(std::string_view line, size_t hang, size_t width = kReportWidth);

// Columns padded to the widest cell; the first row is the head. Numbers are right-aligned when
// `right` says so. `names` are the cells of the column `flexible`, without its head: where lines
// would be longer than the style's columns they are cut apart (compare/shorten.h), and one that has
// to be longer stands on a line of its own above the rest of its row.
std::string Table(std::vector<std::vector<std::string>> rows, const std::vector<bool>& right,
                  size_t flexible, const std::vector<NamedCell>& names, std::string_view indent,
                  const Style& style);

}  // namespace tdump::compare
