// Notes that a rank leaves about a rule that matched nothing there. Another rank may have what it
// matches, and then the merge drops the note.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/parse_number.h"

namespace tdump::coordinator {

// "rule 2 of set 1: HINT"; the first set goes without saying.
inline std::string RuleHint(uint32_t filter_set, uint32_t rule, std::string_view hint) {
  std::string text = "rule " + std::to_string(rule);
  if (filter_set != 0) text += " of set " + std::to_string(filter_set);
  return text.append(": ").append(hint);
}

// Set and rule that a note is about, if it is such a one.
inline std::optional<std::pair<uint32_t, uint32_t>> RuleOfHint(std::string_view note) {
  constexpr std::string_view kRule = "rule ", kSet = " of set ";
  uint32_t rule = 0, filter_set = 0;
  if (!note.starts_with(kRule)) return std::nullopt;
  note.remove_prefix(kRule.size());
  if (!TakeNumber(&note, &rule)) return std::nullopt;
  if (note.starts_with(kSet)) {
    note.remove_prefix(kSet.size());
    if (!TakeNumber(&note, &filter_set)) return std::nullopt;
  }
  if (!note.starts_with(": ")) return std::nullopt;
  return std::pair{filter_set, rule};
}

}  // namespace tdump::coordinator
