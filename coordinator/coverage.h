// Coverage: what of a run is there and what is not, as the text that the end of the job and
// tdump-view both print. Computed from the run directory at any time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::coordinator {

enum class Verdict : uint8_t {
  kComplete,    // a closing record of every rank of the world, and nothing missing
  kRunning,     // ranks of the job still run
  kIncomplete,  // see RunIndex::holes
};
Verdict VerdictOf(const io::RunIndex& index);
std::string_view ToString(Verdict verdict);  // "COMPLETE"

// What one rank wrote, over its processes.
struct RankCoverage {
  std::set<uint64_t> whole;        // steps with a finished pass that were not extra
  std::set<uint64_t> overwritten;  // of these: by the ring, not there any more
  std::set<uint64_t> torn;         // steps with an unfinished or failed pass, or that may be cut
  std::set<uint64_t> extra;        // steps that the others did not run
  std::set<uint64_t> agreed;       // steps on whose number all ranks agreed, written or not
  uint64_t passes = 0, records = 0, calls = 0, bytes = 0, not_kept = 0, blocked_ns = 0;
};
// One entry a rank of the index.
std::vector<RankCoverage> CoverRanks(const io::PassStore& store, const io::RunIndex& index);

// Of a container of modules (ModuleList and the like), which is only ever gone through: it was not
// called, and nothing is missing.
bool IsIdleContainer(const io::OperatorCoverage& coverage);

// On how many of the ranks that record each step is whole, of the steps that any of them wrote or
// began to.
struct StepCoverage {
  size_t ranks = 0;                              // that record
  std::set<uint64_t> everywhere;                 // whole on all of them
  std::map<size_t, std::set<uint64_t>> in_part;  // whole on so many, fewer than all
  std::set<uint64_t> all() const;
};
StepCoverage CoverSteps(const std::vector<RankCoverage>& covered, const io::RunIndex& index);

// How many operators were asked for, were called, and are whole on every rank that has them.
struct OperatorSummary {
  uint64_t selected = 0, seen = 0;
  uint64_t complete = 0;  // in every step
  uint64_t but_for_steps =
      0;  // not in `complete`: a rank that has them misses a step, or part of it
  std::vector<std::string> never_called;  // names
};
OperatorSummary SummariseOperators(const io::PassStore& store, const io::RunIndex& index);

struct CoverageOptions {
  std::string shown;    // how the user names the run: "latest", "runs/a"; empty: as in the index
  bool colour = false;  // ANSI colours on the verdict
  size_t most = 4;      // entries of a list before "and N more"
};

// Lines, each with a newline: "tdump: COMPLETE  RUN ...", then indented facts, then what to do
// next. Four lines when all is well. Safe for a terminal.
std::string CoverageText(const io::PassStore& store, const io::RunIndex& index,
                         const CoverageOptions& options);

}  // namespace tdump::coordinator
