// Reports: a DiffReport as terminal text, as one JSON document, and its rows as JSON lines.
// README.md shows one.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "compare/diff.h"
#include "compare/text.h"

namespace tdump::compare {

// `required_bits`: --require bitwise. Ends with a newline.
std::string RenderText(const DiffReport& report, const SideInfo& a, const SideInfo& b,
                       bool required_bits, const Style& style);
// One line: the verdict.
std::string RenderVerdict(const DiffReport& report, bool required_bits);

// Document: {"tool", "version", "a", "b", "verdict", "required", "counts",
// "parameters", "inputs", "origin", ...}.
std::string RenderJson(const DiffReport& report, const SideInfo& a, const SideInfo& b,
                       bool required_bits);
// The same piece by piece: a step of many ranks has millions of outputs, of each of which "growth"
// says something.
void WriteJson(const DiffReport& report, const SideInfo& a, const SideInfo& b, bool required_bits,
               const std::function<void(std::string_view piece)>& write);
// One object without a newline. Numbers that are not finite are the strings "nan", "inf", "-inf".
std::string RowToJson(const Row& row);
std::string UnpairedToJson(const Unpaired& unpaired);

}  // namespace tdump::compare
