// CountHistory: what a manifest tells of its operators' counts, pass by pass. Behind the entry of a
// pass its writer repeats the counts that the pass changed: the difference to an operator's word
// before is what the pass had of it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/sections.h"

namespace tdump::io {

class CountHistory {
 public:
  // Counts that are added from now on are those of this pass.
  void EndPass(uint64_t ordinal) { ordinal_ = ordinal; }
  void Add(OperatorCountSection&& counts);

  // The last word of each operator, by (root, path, op).
  std::vector<OperatorCountSection> LastWords() const;
  // Records of these passes, one number for each of LastWords().
  std::vector<uint64_t> RecordsOf(const std::set<uint64_t>& ordinals) const;

 private:
  struct Growth {
    uint64_t ordinal;
    size_t place;  // in last_
    uint64_t records;
  };

  std::vector<size_t> ByName() const;  // places in last_

  std::optional<uint64_t> ordinal_;                 // none: no pass has ended
  std::vector<OperatorCountSection> last_;          // in the order of their first words
  std::unordered_map<std::string, size_t> places_;  // by root, path and op, each behind its length
  std::vector<Growth> growth_;
  std::string key_;  // reused
};

}  // namespace tdump::io
