// Merge: the manifests of all processes of a run seen as one. Works at any time: while the job
// runs, after a kill, with ranks or manifests missing.
//
//   1. A process belongs to the generation of its job key: the smallest number that any process
//      with that key claims (rank directories joined from several places may count differently).
//   2. Ranks are those of the largest world that any process names. A rank without a process never
//      started under tdump; a rank is closed when every process of it is.
//   3. A pass goes under the agreed number of its step (StepMapSection). Where the map does not
//      reach, the offset of the last mapped step before it is used and the pass is unagreed.
//   4. Operators, rules, reasons, notes and damage are summed over the processes, in order of rank.
//   5. What is missing becomes a list of sentences (RunIndex::holes).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::coordinator {

struct MergeOptions {
  // Whether a process without a closing record still runs; nothing: cannot be told (another host).
  std::function<std::optional<bool>(const io::IdentitySection&)> is_running;
  // How many steps such a process had ended, so that the next one had begun; nothing: its manifest
  // is all there is.
  std::function<std::optional<uint64_t>(const io::PassStore&, const io::ProcessEntry&)> steps_ended;
  // Whether such a process had come to its end in order, and could only not write that record.
  std::function<bool(const io::PassStore&, const io::ProcessEntry&)> has_ended;
  // Whose holes are listed; empty: those of all ranks.
  std::function<bool(int32_t rank)> holes_of;
};

// The generations that have a process, ascending.
std::vector<uint32_t> Generations(const io::PassStore& store);

// The generation `identity` belongs to, see 1.
uint32_t GenerationOf(const io::PassStore& store, const io::IdentitySection& identity);

// One rank's directory or one pass file, opened alone, is its rank of an unknown run: the other
// ranks' absence is one hole that says so. Indices in the result are into store.processes(), which
// must not change. A generation nobody wrote gives an index without passes whose only hole says so.
io::RunIndex BuildRunIndex(const io::PassStore& store, uint32_t generation,
                           const MergeOptions& options = {});

// All of them, ascending.
std::vector<io::RunIndex> BuildRunIndexes(const io::PassStore& store,
                                          const MergeOptions& options = {});

}  // namespace tdump::coordinator
