// By which way of execution each operator was seen, and of what was never called what the run knows
// about why. The counts of coverage.h are in the manifests; this reads the calls of all passes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::coordinator {

enum class Way : uint8_t {
  kEager,     // by a hook, the dispatcher or a tap; a compiled part of an eager model, from outside
  kCompiled,  // handed over by what torch.compile, torch.export or TorchScript made
  kGraphed,   // while a CUDA graph was captured: the call, without values; replays are not seen
};
std::string_view ToString(Way way);  // "eager"

// Steps in ascending order, as ranges from first to last.
class StepRanges {
 public:
  void Add(uint64_t step);  // not before one that is there
  const std::vector<std::pair<uint64_t, uint64_t>>& ranges() const { return ranges_; }
  StepRanges Without(const StepRanges& others) const;
  bool empty() const { return ranges_.empty(); }
  std::string Text() const;  // "step 0", "steps 1-3,5", "steps 0,2,4 and more up to 98"

 private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;
};

struct SeenBy {
  uint64_t calls = 0;  // on all ranks
  StepRanges steps;
};

struct OperatorWays {
  std::string name;            // PlainName
  std::map<Way, SeenBy> seen;  // empty: never called, or its passes cannot be read
  StepRanges not_seen;         // steps in which it was not, and the compiled module around it was
  std::string why;             // of either; else ""
  bool called = false;
};

// Of what the rules select, in the order of the index; without containers that are only gone
// through. A pass that cannot be read adds nothing: --verify names it.
std::vector<OperatorWays> FindWays(const io::PassStore& store, const io::RunIndex& index);

// How many operators were seen in each way or mixture of ways, most usual first: "eager" -> 12,
// "eager and compiled" -> 1, "eager in part" -> 1 (not_seen), "never" -> 2, "passes not there"
// -> 1. Without those that are 0.
std::vector<std::pair<std::string, uint64_t>> CountWays(const std::vector<OperatorWays>& operators);

// Lines: one that sums up, then those of one way together with their names and reasons, at most
// `most` names in each. "" without operators.
std::string WaysText(const std::vector<OperatorWays>& operators, size_t most);

// Classes of roots, which no rule has to ask for: by PlainName, from the first pass.
std::map<std::string, std::string> RootClasses(const io::PassStore& store,
                                               const io::RunIndex& index);

}  // namespace tdump::coordinator
