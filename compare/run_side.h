// RunSide: one side of a comparison: which passes it has, and how to open what they hold.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/operator_uses.h"
#include "compare/step_view.h"
#include "core/status.h"
#include "io/pass_digest.h"
#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::compare {

// A unit of comparison under its numbers: one pass of one process, or (rank kAllRanks) a step of
// all ranks put together. Two processes of one rank, or two passes of one step, are told apart by
// `nth`.
inline constexpr int32_t kAllRanks = -1;

struct PassRef {
  int32_t rank = 0;
  uint32_t process = 0;
  uint64_t step = 0;
  bool agreed = false;
  bool extra = false;
  uint32_t nth = 0;               // of those with the numbers above
  bool part = false;              // unfinished
  std::optional<int32_t> behind;  // whose pass it is, where that is not `rank`
  size_t index = 0;               // for the side that gave it

  int32_t captured_rank() const { return behind.value_or(rank); }
};

// Of a rank that left no closing record, and runs no more as far as can be seen.
struct KilledState {
  std::string how;              // "killed or left by _exit"
  std::optional<PassRef> last;  // its last pass; none: it wrote none
};

// What the head of a report says of a side.
struct SideInfo {
  std::string label;  // "runs/ref@0"
  std::string run;
  uint32_t generation = 0;
  int32_t world = 1;
  std::string job;
  std::vector<std::string> holes;  // of its coverage; empty: complete
  bool is_ours = true;             // false: a dump of another tool, which tdump-view does not open
};

// What a run's processes say of how it was made; "" where they do not.
struct RunFacts {
  std::string program;      // argv[0] and arguments
  std::string versions;     // "tdump 0.1.0, torch 2.15.0"
  std::string config_hash;  // of the capture's configuration
  std::string boundary;     // the rule that ends a step
};

// Outlives the views it opened. Thread-safe.
class RunSide {
 public:
  virtual ~RunSide() = default;

  virtual SideInfo Describe() const = 0;
  virtual RunFacts Facts() const { return {}; }
  virtual const std::string& label() const = 0;  // as the user wrote it
  virtual int32_t world() const = 0;
  // The only rank that takes part, where the user named one.
  virtual std::optional<int32_t> rank() const { return std::nullopt; }
  // The only step that takes part, where an address names it; and whether that names single records
  // of it.
  virtual std::optional<uint64_t> step() const { return std::nullopt; }
  virtual bool is_of_named_records() const { return false; }

  // Everything that can be opened, by (step, rank, process, ordinal); `nth` is set.
  virtual const std::vector<PassRef>& passes() const = 0;
  virtual Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const = 0;

  // Of all it holds; an error where that is not told by hashes alone.
  virtual Result<io::PassDigest> DigestOf(const PassRef& /*pass*/) const {
    return Unsupported("no digest");
  }

  // Of the operator of `key`, in the process whose pass it is.
  virtual OperatorUse UseOf(const PassRef& /*pass*/, const Key& /*key*/) const { return {}; }
  // Whether the rank ended, or fell silent, before it wrote a pass.
  virtual bool IsLost(int32_t /*rank*/) const { return false; }
  // None: it ended in order, runs, or was never there.
  virtual std::optional<KilledState> KilledStateOf(int32_t /*rank*/) const { return std::nullopt; }

  // Of what tells which passes there are (manifests); kAllRanks: of all.
  virtual std::vector<io::Damage> DamageOf(int32_t rank) const = 0;
  // Of a rank, as its capture has it: "dp=3 tp=1 pp=2"; "" where it does not say.
  virtual std::string CoordinatesOf(int32_t /*rank*/) const { return ""; }
  // What is known of a rank of which a whole step is not there: "rank 2: killed, last step 1".
  virtual std::string WhyMissing(int32_t rank) const = 0;
};

// A run captured by tdump. `store` and `index` outlive it.
class CapturedRun : public RunSide {
 public:
  CapturedRun(const io::PassStore* store, const io::RunIndex* index, std::optional<int32_t> rank,
              std::string label);

  SideInfo Describe() const override;
  RunFacts Facts() const override;
  const std::string& label() const override { return label_; }
  int32_t world() const override { return index_->world; }
  std::optional<int32_t> rank() const override { return rank_; }
  const std::vector<PassRef>& passes() const override { return passes_; }
  Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const override;
  Result<io::PassDigest> DigestOf(const PassRef& pass) const override;
  OperatorUse UseOf(const PassRef& pass, const Key& key) const override;
  bool IsLost(int32_t rank) const override;
  std::optional<KilledState> KilledStateOf(int32_t rank) const override;
  std::vector<io::Damage> DamageOf(int32_t rank) const override;
  std::string CoordinatesOf(int32_t rank) const override;
  std::string WhyMissing(int32_t rank) const override;

  const io::PassStore& store() const { return *store_; }
  const io::RunIndex& index() const { return *index_; }

 private:
  const io::PassStore* store_;
  const io::RunIndex* index_;
  std::optional<int32_t> rank_;
  std::string label_;
  std::vector<PassRef> passes_;         // PassRef::index: into index_->passes
  std::map<int32_t, size_t> last_;      // of passes_, by rank
  std::shared_ptr<OperatorUses> uses_;  // one for all copies
};

}  // namespace tdump::compare
