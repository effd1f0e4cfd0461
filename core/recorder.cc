#include "core/recorder.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace tdump {

// Lane numbers are handed out per pass in order of first use.
struct Recorder::Lanes {
  std::mutex mutex;
  uint64_t pass = ~uint64_t{0};
  uint32_t next = 0;

  uint32_t Take(uint64_t current_pass) {
    std::lock_guard lock(mutex);
    if (pass != current_pass) {
      pass = current_pass;
      next = 0;
    }
    return next++;
  }
};

// What one thread remembers within one pass. Counters are dense by operator id; a counter of an earlier pass, micro or
// phase is recognised by its epoch, so a new pass clears nothing.
struct Recorder::ThreadState {
  struct Counter {
    uint64_t pass = ~uint64_t{0};
    uint32_t micro = 0;
    uint64_t forward = 0;
    uint64_t backward = 0;
    uint64_t records = 0;
  };
  const Recorder* owner = nullptr;
  uint64_t pass = ~uint64_t{0};
  uint32_t lane = 0;
  uint64_t thread = 0;
  std::vector<uint64_t> open;  // begin numbers of the open calls, innermost last
  std::vector<Counter> counters;

  Counter& CounterOf(OperatorId op, uint64_t current_pass, uint32_t micro) {
    if (op >= counters.size()) counters.resize(op + 64);
    Counter& counter = counters[op];
    if (counter.pass != current_pass) counter = Counter{current_pass, micro, 0, 0, 0};
    if (counter.micro != micro) {
      counter.micro = micro;
      counter.forward = counter.backward = 0;
    }
    return counter;
  }
};

Recorder::Recorder(Gate* gate, OperatorTable* operators, Plan* plan, Sink* sink, Clock* clock)
    : gate_(gate), operators_(operators), plan_(plan), sink_(sink), clock_(clock), lanes_(new Lanes) {}

Recorder::~Recorder() = default;

Recorder::ThreadState& Recorder::Local() const {
  static thread_local ThreadState state;
  if (state.owner != this) {
    state = ThreadState{};
    state.owner = this;
    state.thread = static_cast<uint64_t>(::syscall(SYS_gettid));
  }
  return state;
}

uint32_t Recorder::Lane() noexcept {
  ThreadState& local = Local();
  const uint64_t pass = gate_->pass.load(std::memory_order_acquire);
  if (local.pass != pass) {
    local.pass = pass;
    local.lane = lanes_->Take(pass);
    local.open.clear();
  }
  return local.lane;
}

uint64_t Recorder::Innermost() const noexcept {
  ThreadState& local = Local();
  return local.open.empty() ? 0 : local.open.back();
}

bool Recorder::Begin(OperatorId op, const void* subject, Phase phase, bool recompute,
                     CallScope* scope) noexcept {
  if (!gate_->armed() || op == kNoOperator) return false;
  const RuleId rule = plan_->op(op, operators_->Get(op), subject);
  if (rule == kNoRule) return false;
  ThreadState& local = Local();
  Call& call = scope->call;
  call = Call{};
  scope->arguments.clear();
  call.op = op;
  call.pass = gate_->pass.load(std::memory_order_acquire);
  call.lane = Lane();
  call.micro = gate_->micro.load(std::memory_order_relaxed);
  call.thread = local.thread;
  call.phase = phase;
  call.recompute = recompute;
  ThreadState::Counter& counter = local.CounterOf(op, call.pass, call.micro);
  uint64_t& count = phase == Phase::kForward ? counter.forward : counter.backward;
  call.index = recompute ? count : count++;
  call.parent = local.open.empty() ? 0 : local.open.back();
  call.begin = gate_->NextSequence();
  local.open.push_back(call.begin);
  scope->rule = rule;
  return true;
}

bool Recorder::BeginState(OperatorId op, const void* subject, CallScope* scope) noexcept {
  if (!gate_->armed() || op == kNoOperator) return false;
  const RuleId rule = plan_->op(op, operators_->Get(op), subject);
  if (rule == kNoRule) return false;
  Call& call = scope->call;
  call = Call{};
  call.op = op;
  call.pass = gate_->pass.load(std::memory_order_acquire);
  call.lane = Lane();
  call.thread = Local().thread;
  call.begin = gate_->NextSequence();
  scope->rule = rule;
  scope->arguments.clear();
  return true;
}

Decision Recorder::Ask(CallScope* scope, const Observation& observation) noexcept {
  NoteArgument(scope, observation.role, observation.arg, observation.meta);
  const Call& call = scope->call;
  uint64_t numel = 1;
  for (int64_t size : observation.meta.sizes) numel *= static_cast<uint64_t>(size);
  Decision decision = plan_->observe(
      scope->rule, {.role = observation.role,
                    .phase = call.phase,
                    .arg = observation.arg,
                    .dtype = observation.meta.dtype.view(),
                    .numel = numel,
                    .call = call.index,
                    .step = gate_->step.load(std::memory_order_relaxed)});
  if (decision.parts == kPartNone) return decision;
  scope->call.was_kept = true;
  if (decision.max_records != 0) {
    ThreadState::Counter& counter = Local().CounterOf(call.op, call.pass, call.micro);
    if (counter.records >= decision.max_records) {
      sink_->skip(call, observation, decision.parts, SkipReason::kMaxRecords, "");
      decision.parts = kPartNone;
      return decision;
    }
    ++counter.records;
  }
  return decision;
}

void Recorder::NoteArgument(CallScope* scope, Role role, std::string_view arg,
                            const TensorMeta& meta) noexcept {
  scope->arguments.push_back({role, std::string(arg), std::string(meta.dtype.view()),
                              {meta.sizes.begin(), meta.sizes.end()}});
}

void Recorder::End(CallScope* scope, bool threw) noexcept {
  Call& call = scope->call;
  if (call.begin == 0) return;
  call.threw = threw;
  call.end = gate_->NextSequence();
  ThreadState& local = Local();
  // Inner calls that never ended were unwound by an exception: they go with the call that encloses them.
  while (!local.open.empty() && local.open.back() >= call.begin) local.open.pop_back();
  sink_->end_call(call, scope->arguments);
  call.begin = 0;
}

}  // namespace tdump
