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
// Columns padded to the widest cell; the first row is the head. Numbers are
// right-aligned when `right` says so.
std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right,
                  std::string_view indent, const Style& style);

}  // namespace tdump::compare
