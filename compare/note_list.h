// NoteList: what is said of pairs in words, each once with how often, and what would explain many
// of those that fail.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compare/diff.h"
#include "compare/mean_hint.h"
#include "compare/nan_note.h"
#include "compare/pass_diff.h"
#include "compare/precision_hint.h"
#include "compare/recomputed.h"
#include "compare/state_hints.h"
#include "compare/update_hints.h"

namespace tdump::compare {

// Not thread-safe. Both outlive it.
class NoteList {
 public:
  NoteList(const DiffOptions* options, DiffReport* report) : options_(options), report_(report) {}

  // Of ranks that are put together.
  void HintAtMeans(MeanHints hints) { mean_hints_ = std::move(hints); }
  void AddPass(const PassDiff& pass);
  void Add(const PassDiff& pass, const PassPair& pair, const Outcome& outcome);
  // Into the report, once the origin is there.
  void Finish();

 private:
  void AddNan(const PassDiff& pass, const PassPair& pair, const Outcome& outcome);
  void Count(const std::string& note);
  void AddUnresolved(const std::string& note);
  void AddUpdateHint();

  const DiffOptions* options_;
  DiffReport* report_;
  std::set<std::string> told_;  // of passes
  RecomputedNotes recomputed_;
  struct Counted {
    uint64_t pairs = 0;
    std::string first;  // the rest of the note, where that names who was paired with whom
  };
  std::map<std::string, Counted> counted_;  // by the head of the note
  std::vector<std::string> unresolved_;     // the first ones
  uint64_t unresolved_left_ = 0;            // pairs with others
  NanRecords nan_;                          // of pairs whose values were read
  PrecisionHints precision_hints_;
  MeanHints mean_hints_;
  StateHints state_hints_;
  UpdateHints update_hints_;
  std::optional<uint64_t> first_failing_;  // step of B
};

}  // namespace tdump::compare
