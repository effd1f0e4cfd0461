// StepTracker: decides, from the boundaries a process reports, where its steps begin and of which
// mode they are. A plain state machine: no clock, no lock, no output.
//
// A step never ends by itself: it ends when the next one begins. What begins one, by rule:
//   auto       gradients on and an optimizer constructed: the first outermost call after the step
//              of the first-constructed optimizer (mode train). Else the callable that opened the
//              present step is called again, or the first root is (mode eval with gradients off,
//              forward with gradients on). Calls of parts and of other roots in between belong to
//              the open step.
//   optimizer  the first outermost call after the step of the first-constructed optimizer
//   backward   the first outermost call after a backward pass began
//   forward    each outermost call of the first root; forward:REGEX of what matches by name or
//              class
//   op:REGEX   each call of a matching operator
//   explicit   each tdump.step()
// A job whose modules nobody calls (ATen operators only) has no outermost calls: its
// steps then begin right after the optimizer's. A call that begins while another thread
// is inside one belongs to the same step (replicas in threads). In `auto`, the first
// tdump.step() makes the rule `explicit`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/step_rule.h"
#include "core/clock.h"
#include "core/types.h"

namespace tdump::coordinator {

// Not thread-safe.
class StepTracker {
 public:
  struct Verdict {
    bool begins = false;  // a step begins with this boundary
    StepMode mode = StepMode::kForward;
    int64_t number = -1;  // the job's own number of the step that begins
    bool micro = false;   // a call of the step's root: the next micro-batch (also the first)
    uint32_t missed = 0;  // steps that passed before anything could tell
  };

  explicit StepTracker(StepRule rule) : rule_(std::move(rule)) {}

  // `thread`: any number that tells threads apart.
  Verdict Observe(const Boundary& boundary, int64_t thread);
  // "optimizer (AdamW)", "forward (BertModel)"; "auto" while nothing was seen.
  std::string RuleInForce() const;
  // The process becomes a rank only now: the next call begins a step. What is
  // known of roots and optimizers stays.
  void Restart();
  bool saw_boundary() const { return began_; }
  // Whether something said that the step which began last is over; calls never do.
  bool StepIsOver() const;
  // Whether an outermost call has begun in the step that began last, and not ended. Of an earlier
  // one it is not known: an exception may have ended its thread.
  bool CallIsOpen() const;
  // Whether steps end at the optimizer, and none has stepped in the one that began last.
  bool AwaitsOptimizer() const;

 private:
  // What opened the step: a root by number or a part by name.
  struct Caller {
    bool root = false;
    uint64_t instance = 0;
    std::string name;
    bool operator==(const Caller&) const = default;
  };

  bool MatchesOp(std::string_view name);
  Verdict OutermostBegin(const Boundary& boundary, int64_t thread);
  Verdict AutoCall(const Boundary& boundary, const Caller& caller, bool concurrent);
  Verdict ForwardCall(const Boundary& boundary, const Caller& caller, bool concurrent);
  Verdict MarkedCall(const Caller& caller);  // optimizer, backward
  Verdict Recurrence(const Caller& caller, StepMode mode, bool concurrent);
  Verdict OptimizerStep(const Boundary& boundary);
  Verdict Explicit(const Boundary& boundary);
  Verdict Begin(StepMode mode, const Caller& caller);
  void NoteOptimizer(const Boundary& boundary);
  void NoteRoot(const Boundary& boundary);

  StepRule rule_;
  bool began_ = false;  // a step has begun since the start
  bool open_ = false;
  bool op_only_ = true;  // no outermost call seen yet
  StepMode mode_ = StepMode::kForward;
  Caller opener_;
  // False: the step was opened by an operator or the optimizer, the next call adopts it.
  bool has_opener_ = false;
  uint64_t root_calls_ = 0;  // in this step
  uint64_t micro_root_ = 0;
  bool marked_ = false;  // the optimizer stepped, or backward began: the next call begins a step
  bool optimizer_stepped_ = false;  // any, in this step
  bool has_first_root_ = false;
  uint64_t first_root_ = 0;
  std::string first_root_name_;
  bool has_optimizer_ = false;
  uint64_t first_optimizer_ = 0;
  std::string optimizer_name_;
  int64_t pending_number_ = -1;
  std::map<std::string, bool, std::less<>> op_matches_;
  struct Inside {
    int64_t thread = 0;
    uint64_t step = 0;  // in which the call began, as in steps_
    bool operator==(int64_t other) const { return thread == other; }
  };
  std::vector<Inside> threads_inside_;  // threads with an open outermost call
  uint64_t steps_ = 0;                  // begun so far
};

}  // namespace tdump::coordinator
