// SharedPairs: the pairs of one step after the other, shared by the processes of a team, where
// ranks are put together. What a step teaches of layouts serves the next, so every process opens
// all steps and finds all layouts; the values, which are what takes long, are read once.
//
//   1. Begin: all learn whether process 0 goes on with the step.
//   2. Deal: each pair is given to the process that has least to read so far, the same split
//      everywhere.
//   3. Each process compares its own, and Send gives process 0 what came of them.
//   4. Receive, on process 0: what is missing after it, process 0 compares itself: pairs of a
//      process that saw another step (of files that it cannot read, say), or that met an error.
// What process 0 then holds is what it would have found alone, byte for byte.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compare/pass_diff.h"
#include "compare/team.h"

namespace tdump::compare {

// Calls from one thread at a time, in the same order in all processes. Memory: two bytes a pair,
// and one message.
class SharedPairs {
 public:
  enum class StepDecision : uint8_t { kGoOn, kSkip, kStop };

  // Both outlive it. `rules` may be null.
  SharedPairs(Team* team, const BoundRules* rules) : team_(team), rules_(rules) {}

  // Whether all processes hold a comparison of as many steps; else process 0 is better alone.
  // `steps`: -1 on one that cannot begin.
  static Result<bool> AllAgree(Team* team, int64_t steps);

  bool is_first() const { return team_->rank() == 0; }
  // What process 0 decides; what other processes give does not count.
  Result<StepDecision> Begin(StepDecision own);
  void Deal(const PassDiff& diff);
  bool IsOwn(size_t pair) const { return owners_[pair] == team_->rank(); }
  size_t own() const { return own_; }  // how many are

  // Not on process 0. `diff`: null: the step could not be opened.
  void Send(const PassDiff* diff);
  // On process 0: the others' pairs into `diff`; calls `placed` for each. Returns those that are
  // to be compared again.
  std::vector<size_t> Receive(PassDiff* diff, const std::function<void(Outcome*)>& placed);

  // An error of the team, which is final.
  const Status& status() const { return status_; }

 private:
  Status SendAll(const PassDiff* diff);
  Status ReceiveFrom(int process, PassDiff* diff, const std::function<void(Outcome*)>& placed,
                     std::vector<bool>* missing);

  Team* const team_;
  const BoundRules* const rules_;
  std::vector<uint16_t> owners_;  // by pair
  size_t own_ = 0;
  uint64_t fingerprint_ = 0;  // equal in processes that see the same step
  Status status_;
};

}  // namespace tdump::compare
