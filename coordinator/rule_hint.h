// What is said of rules in a manifest: their label, whether they keep nothing, and the notes that a
// rank leaves about a rule that matched nothing there. Another rank may have what it matches, and
// then the merge drops the note.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/parse_number.h"

namespace tdump::coordinator {

// "rule 2 'mlp.fc1'"; the text of the rule where no pattern is given.
inline std::string RuleLabel(uint32_t rule, const std::string& text, const std::string& pattern) {
  return "rule " + std::to_string(rule) + " '" + (pattern.empty() ? text : pattern) + "'";
}

// Of a rule's text, "{name: drop, level: off}": whether it keeps nothing, and so loses nothing.
inline bool IsOff(std::string_view text) {
  constexpr std::string_view kOff = "level: off";
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quote != 0) {
      quote = text[i] == quote ? 0 : quote;
    } else if ((text[i] == '\'' || text[i] == '"') && i != 0 &&
               (text[i - 1] == ' ' || text[i - 1] == '[')) {
      quote = text[i];
    } else if ((text[i] == '{' || text[i] == ' ') && text.substr(i + 1).starts_with(kOff)) {
      const std::string_view behind = text.substr(i + 1 + kOff.size());
      if (behind.empty() || behind[0] == ',' || behind[0] == '}') return true;
    }
  }
  return false;
}

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
