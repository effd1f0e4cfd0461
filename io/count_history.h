// CountHistory: what a manifest tells of its operators' counts, pass by pass. Behind the entry of a
// pass its writer repeats the counts that the pass changed: the difference to an operator's word
// before is what the pass had of it. Where a pass had what the one before it had, as most steps do,
// its writer says just that. Memory and time are in proportion to the manifest, forged or not.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/status.h"
#include "io/sections.h"

namespace tdump::io {

// Behind the entry of a pass, in place of its counts: they grew as in an earlier pass, the last one
// that has counts of its own.
struct SameCountsSection {
  static constexpr uint32_t kId = 0x2303;
  uint64_t ordinal = 0;  // of the pass
  uint64_t as = 0;       // of the earlier one
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ordinal, as);
  }
};

class CountHistory {
 public:
  // Counts that are added from now on are those of this pass.
  void EndPass(uint64_t ordinal);
  void Add(OperatorCountSection&& counts);
  // kCorrupt where `same.as` is not the last pass with counts of its own.
  Status Repeat(const SameCountsSection& same);

  // The last word of each operator, by (root, path, op).
  std::vector<OperatorCountSection> LastWords() const;
  // Records of these passes, one number for each of LastWords().
  std::vector<uint64_t> RecordsOf(const std::set<uint64_t>& ordinals) const;

 private:
  struct Growth {
    size_t place;  // in operators_
    uint64_t calls, records, not_kept;
  };
  // What a pass had, and how many later ones had as well.
  struct Growths {
    uint64_t ordinal;
    uint64_t repeats = 0;
    std::vector<Growth> of;
  };
  struct Operator {
    OperatorCountSection word;  // without repeats
    std::optional<Growth> growth;
    size_t growths = 0;  // whose repeats add `growth` to the word
  };

  OperatorCountSection WordOf(const Operator& op) const;
  std::vector<size_t> ByName() const;  // places in operators_

  std::optional<uint64_t> ordinal_;                 // none: no pass has ended
  bool counted_ = false;                            // the pass has an entry in growths_
  std::vector<Operator> operators_;                 // in the order of their first words
  std::unordered_map<std::string, size_t> places_;  // by root, path and op, each behind its length
  std::vector<Growths> growths_;
  std::vector<std::pair<uint64_t, size_t>> passes_;  // ordinal, place in growths_
  std::string key_;                                  // reused
};

}  // namespace tdump::io
