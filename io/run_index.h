// RunIndex: a whole run seen at once; what tdump-merge writes, and what view and diff build in
// memory when it is not there. Built by coordinator/merge.h from the manifests, at any time: while
// the job runs, after a kill.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/pass_store.h"

namespace tdump::io {

// One pass under its agreed number. `process` and `pass` index PassStore::processes() and
// ProcessEntry::passes.
struct IndexedPass {
  size_t process = 0;
  size_t pass = 0;
  uint64_t local_step = 0;
  uint64_t global_step = 0;
  bool agreed = false;
  bool extra = false;  // the rank ran one step that the others did not
};

struct RankState {
  int32_t rank = 0;
  // Into PassStore::processes(); empty: the rank never started under tdump.
  std::vector<size_t> processes;
  bool selected = false;
  bool closed = false;  // a closing record is there
  bool lost = false;    // fell silent, or was killed
  // It left no closing record, and runs no more as far as can be seen. Not in a merged manifest:
  // what is told of such a rank may change without a byte of the run.
  bool killed = false;
  uint64_t last_step = 0;  // global: the last one that it is known to have begun
  std::string how;         // what became of it, as coordinator/closing.h has it
};

struct OperatorCoverage {
  std::string name;  // PlainName
  std::string cls;
  OperatorKind kind = OperatorKind::kModule;
  uint64_t ranks_expected = 0;
  uint64_t ranks_called = 0;
  uint64_t calls = 0;
  uint64_t records = 0;
  uint64_t not_kept = 0;
  uint64_t overwritten = 0;  // of the records: by the ring, not there any more
};

struct RuleCoverage {
  RuleSection rule;                     // `matched` is the largest of all ranks
  std::vector<std::string> near_names;  // closest operator names when it matched nothing
};

// One generation of a run.
struct RunIndex {
  std::string run;
  uint32_t generation = 0;
  std::string job_key, job_label;
  int32_t world = 1;
  std::vector<RankState> ranks;     // `world` entries
  std::vector<IndexedPass> passes;  // by (global step, rank, process, ordinal)
  std::vector<OperatorCoverage> operators;
  std::vector<RuleCoverage> rules;
  std::vector<std::pair<std::string, uint64_t>> not_kept;  // "memory limit (rank 12)" -> records
  std::vector<std::string> notes;  // "rank 2: torch.compile region not captured ..."
  std::vector<Damage> damage;
  std::string boundary, transport, rank_source;
  uint32_t max_lag = 0;
  uint64_t steps_seen = 0;
  uint64_t bytes = 0, files = 0;
  std::vector<std::string> holes;  // human sentences; empty = COMPLETE
  bool complete() const { return holes.empty(); }
};

}  // namespace tdump::io
