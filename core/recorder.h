// Recorder: what every collector does around an operator, in one place: sequence
// numbers, lanes, call indices, asking the plan, handing observations to the sink.
// Collectors add only how a tensor is read.
//
//   Recorder::CallScope call;
//   if (recorder.Begin(op_id, subject, Phase::kForward, false, &call)) {      // false: nothing of
//   it is kept, nothing to do
//     if (auto d = recorder.Ask(&call, observation); d.parts != kPartNone) ...reserve/copy/commit
//     recorder.End(&call, /*threw=*/false);
//   }
//
// Threads: any. A CallScope belongs to the thread that opened it, except that End may run on
// another thread. Calls on one thread nest like a stack; an End that skips inner calls (an
// exception unwound them) closes those as `threw`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/argument_list.h"
#include "core/call_text.h"
#include "core/clock.h"
#include "core/gate.h"
#include "core/operator_table.h"
#include "core/plan.h"
#include "core/sink.h"

namespace tdump {

class Recorder {
 public:
  // An open call, and what its rules want. `call.begin == 0` means not open.
  struct CallScope {
    Call call;
    RuleId rule = kNoRule;
    ArgumentList arguments;
    CallText text;             // scalar and string arguments
    bool first_state = false;  // of BeginState: the first time for this operator in the run
  };

  Recorder(Gate* gate, OperatorTable* operators, Plan* plan, Sink* sink, Clock* clock);
  virtual ~Recorder();

  // Virtual, because core is linked into several shared objects: whoever calls, the state of a
  // thread is that of the object which made the recorder.

  // False, and nothing is touched, when no pass is armed or no rule can keep anything of a call of
  // the operator. `lane`: that of the forward, for backward work; else that of the calling thread.
  // Calls in backward are counted by lane, whatever thread runs them.
  virtual bool Begin(OperatorId op, const void* subject, Phase phase, bool recompute,
                     CallScope* scope, std::optional<uint32_t> lane = std::nullopt) noexcept;
  // For state seen outside a call (parameters, buffers): `scope->call` names the
  // operator but counts no call, encloses nothing and must not be ended; its
  // records stand without a call record.
  virtual bool BeginState(OperatorId op, const void* subject, CallScope* scope) noexcept;
  // The same for what is seen later than the call it belongs to (gradients) or belongs to none
  // (what an optimizer keeps). The caller sets index, micro, lane and phase of the call before it
  // asks; it is not the first state of anything.
  virtual bool BeginDetached(OperatorId op, CallScope* scope) noexcept;
  // What to keep of an observation; also notes its shape for the call record. parts == 0: nothing.
  virtual Decision Ask(CallScope* scope, const Observation& observation) noexcept;
  // Notes the shape of an argument without asking (it is not wanted).
  virtual void NoteArgument(CallScope* scope, Role role, std::string_view arg,
                            const TensorMeta& meta) noexcept;
  // Writes the call record. Nothing, when the call was closed by the end of one that encloses it.
  virtual void End(CallScope* scope, bool threw) noexcept;

  // begin number of the innermost open call of this thread, 0 for none.
  virtual uint64_t Innermost() const noexcept;
  // Lane of the calling thread in the open pass (0 for the first thread that observed something).
  virtual uint32_t Lane() noexcept;

  Gate& gate() { return *gate_; }
  OperatorTable& operators() { return *operators_; }
  Plan& plan() { return *plan_; }
  Sink& sink() { return *sink_; }
  Clock& clock() { return *clock_; }

 private:
  struct Shared;
  struct ThreadState;
  struct ThreadOwner;
  ThreadState& Local() const;
  ThreadState& Attach() const;
  ThreadState& Reset(OperatorId op, CallScope* scope, RuleId rule);
  ThreadState& Start(OperatorId op, CallScope* scope, RuleId rule);
  bool CloseOpen(const Call& call);

  Gate* gate_;
  OperatorTable* operators_;
  Plan* plan_;
  Sink* sink_;
  Clock* clock_;
  const uint64_t id_;  // never reused, unlike an address
  std::unique_ptr<Shared> shared_;
};

}  // namespace tdump
