// Small pieces of the reports' text, beyond those of core/text.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace tdump::compare {

// Terminal colours, or nothing.
class Style {
 public:
  explicit Style(bool colour) : colour_(colour) {}
  std::string Bold(std::string_view text) const { return Wrap("1", text); }
  std::string Red(std::string_view text) const { return Wrap("1;31", text); }
  std::string Green(std::string_view text) const { return Wrap("1;32", text); }
  std::string Dim(std::string_view text) const { return Wrap("2", text); }

 private:
  std::string Wrap(std::string_view code, std::string_view text) const;
  bool colour_;
};

std::string ShapeText(const std::vector<uint64_t>& shape);  // "[4, 128, 384]"
// A number for people: 4 digits, "0" for zero.
std::string Short(double value);

// A module path up to its first number: "model.layers.17" of "model.layers.17.mlp.down"; without a
// number its first two parts, "model.norm".
std::string LayerName(std::string_view path);

// A regex that this text matches, with its dots as they are: "h\\(0\\)" of "h(0)".
std::string RegexOf(std::string_view text);

inline constexpr size_t kReportWidth = 100;  // columns of a terminal that reports fit

// Each at most `width` characters; those that would look the same are cut where they are equal, or
// left whole.
std::vector<std::string> ShortenApart(const std::vector<std::string>& texts, size_t width);

// At most `width` characters: "model.lay….mlp.down_proj". Precondition: well-formed UTF-8.
std::string Shorten(std::string_view text, size_t width);
// Broken at spaces into lines of at most kReportWidth characters, those after the first indented by
// `hang`; a longer word stays whole. So do a text in single quotes, an option with its argument,
// and a command line of tdump-*, which are there to be copied.
std::string Wrap(std::string_view line, size_t hang);

// Columns padded to the widest cell; the first row is the head. Numbers are right-aligned when
// `right` says so. Cells of the column `flexible` are shortened where the lines would be longer
// than kReportWidth.
std::string Table(std::vector<std::vector<std::string>> rows, const std::vector<bool>& right,
                  size_t flexible, std::string_view indent, const Style& style);

}  // namespace tdump::compare
