// PassResults: all pass pairs of a comparison, several at a time, their differences handed on in
// order.
//
// Passes whose digests are equal (io/pass_digest.h) hold the same tensors: of those with the same
// names one is compared, and its result stands for all (of a pipeline's first stage, or of others).
// Processes of a team take the pairs in turn;
// what the others find is handed on by process 0 as if it were its own, and compared again by it
// where they could not know what was one step before. Memory: the results that wait for their turn,
// at most two a thread, and kMostKept that stand for others.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/pass_diff.h"
#include "compare/steps_before.h"
#include "compare/team.h"
#include "io/pass_digest.h"

namespace tdump::compare {

// The keys of a pair of passes that their digests say are equal; none where they differ, or say
// nothing.
std::optional<io::Hash128> EqualKeys(const RunSide& a, const RunSide& b, const PassPair& pair);

class PassResults {
 public:
  using DiffPair = std::function<Result<PassDiff>(const PassPair&, const PassDiffOptions&)>;
  using Diff = Result<std::shared_ptr<const PassDiff>>;
  using Consume = std::function<bool(size_t i, const Diff& diff)>;  // false: enough

  struct Ways {
    bool by_digest = false;      // results may stand for other passes; not where rows are asked for
    bool one_at_a_time = false;  // `diff_pair` is not thread-safe
    bool by_step_before = false;  // each pass is judged with its ranks' last one
    // EqualKeys of the first pair, where it is known.
    std::optional<std::optional<io::Hash128>> first;
  };

  // The sides, options and team outlive it. `diff_pair` compares one pair. `team`: none, or of
  // several processes.
  PassResults(const RunSide& a, const RunSide& b, const PassDiffOptions& options,
              DiffPair diff_pair, const Ways& ways, Team* team = nullptr)
      : a_(a),
        b_(b),
        options_(options),
        diff_pair_(std::move(diff_pair)),
        ways_(ways),
        team_(team != nullptr && team->size() > 1 ? team : nullptr) {}

  // `consume` is called for each pair in order, never twice at once, on any thread; outcomes are in
  // order of time. On other processes of the team than 0 it is not called. Error: the team's.
  Status ForEach(const std::vector<PassPair>& pairs, const Consume& consume);

 private:
  static constexpr size_t kMostKept = 32;
  struct Kept {
    io::Hash128 keys;
    std::shared_ptr<const PassDiff> diff;
  };
  // `keys`: of a pair whose passes are equal.
  struct Compared {
    Diff diff = std::shared_ptr<const PassDiff>();
    std::optional<io::Hash128> keys;
  };

  // Of the process that takes the pair in hand.
  Compared Produce(const PassPair& pair, size_t i, PassDiffOptions options, bool is_asked);
  // On process 0, in order: of a pair of which another one, or this, did not know what was before.
  void JudgeByBefore(const PassPair& pair, size_t i, const PassDiffOptions& options, Diff* diff);
  Diff CompareAll(const PassPair& pair, const PassDiffOptions& options) const;
  std::optional<io::Hash128> KeysOf(const PassPair& pair, size_t i) const;
  Compared Compare(const PassPair& pair, size_t i, const PassDiffOptions& options);
  Diff CompareEqual(const PassPair& pair, const io::Hash128& keys, const PassDiffOptions& options);
  std::shared_ptr<const PassDiff> Find(const io::Hash128& keys);
  void Keep(const io::Hash128& keys, std::shared_ptr<const PassDiff> diff);

  size_t OwnerOf(size_t i) const { return i % static_cast<size_t>(team_->size()); }
  Status SendToFirst(const Compared& compared);
  // `broken`: the team cannot go on.
  Diff Receive(const PassPair& pair, size_t i, const PassDiffOptions& options, Status* broken);

  const RunSide& a_;
  const RunSide& b_;
  const PassDiffOptions& options_;
  const DiffPair diff_pair_;
  const Ways ways_;
  Team* const team_;
  std::mutex mutex_;
  std::deque<Kept> kept_;  // the last used in front
  std::optional<StepsBefore> before_;
  std::set<io::Hash128> sent_;  // keys that process 0 has had the result of
};

}  // namespace tdump::compare
