// Coverage: what of a run is there and what is not, in numbers. Computed from the run directory at
// any time. coverage_text.h says it to people.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
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
  std::set<uint64_t> left_out;     // steps that were to be recorded and have no pass at all
  std::set<uint64_t> extra;        // steps that the others did not run
  std::set<uint64_t> agreed;       // steps on whose number all ranks agreed, written or not
  uint64_t passes = 0, records = 0, calls = 0, bytes = 0, not_kept = 0, blocked_ns = 0;
};
// What is counted of a pass that a kill cut: the manifest does not have its records.
enum class OfCutPasses : uint8_t {
  kNothing,
  kWhatCanBeRead,  // opens each of them
};
// One entry a rank of the index.
std::vector<RankCoverage> CoverRanks(const io::PassStore& store, const io::RunIndex& index,
                                     OfCutPasses cut = OfCutPasses::kNothing);

// Steps of a process, under the numbers of its step map, that were to be recorded and have no pass:
// the disk had failed, or a limit was reached. A process that still runs may be about to write it.
std::set<uint64_t> StepsLeftOut(const io::ProcessEntry& process);

struct CutPass {
  uint64_t records = 0, calls = 0;
};
// What can be read of a pass that is no file to its end.
CutPass CountCut(const io::PassStore& store, const io::ProcessEntry& process,
                 const io::PassEntry& pass);

// By rank: whether it records. One that never started is taken to, where all that did start do.
std::vector<bool> RecordingRanks(const io::RunIndex& index);

// Of a container of modules (ModuleList and the like), which is only ever gone through: it was not
// called, and nothing is missing.
bool IsIdleContainer(const io::OperatorCoverage& coverage);

// Whether the ring (output.at_limit) overwrote records of any operator.
bool HasOverwritten(const io::RunIndex& index);

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
  // Names of what some ranks called and others, which ended whole, did not: by the former ranks and
  // the number of all that the rules select it on.
  std::map<std::pair<std::vector<uint64_t>, uint64_t>, std::vector<std::string>> on_some_ranks;
};
OperatorSummary SummariseOperators(const io::PassStore& store, const io::RunIndex& index);

}  // namespace tdump::coordinator
