#include "core/recorder.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "core/fork_mutex.h"

namespace tdump {
namespace {

// Counts the backward calls of one pass by (operator, lane, micro). An open hash table that keeps
// its room: a new pass clears nothing, an entry of an earlier pass is a free one.
class BackwardIndices {
 public:
  uint64_t Next(const Call& call) {
    if (call.pass != pass_) {
      pass_ = call.pass;
      used_ = 0;
    }
    if (2 * used_ >= entries_.size()) Grow();
    Entry& entry = Find(call.op, call.lane, call.micro);
    if (entry.pass != pass_) {
      entry = {pass_, call.op, call.lane, call.micro, 0};
      ++used_;
    }
    return entry.next++;
  }

 private:
  struct Entry {
    uint64_t pass = ~uint64_t{0};
    OperatorId op = kNoOperator;
    uint32_t lane = 0;
    uint32_t micro = 0;
    uint64_t next = 0;
  };

  // The entry of this key, or the free one where it belongs.
  Entry& Find(OperatorId op, uint32_t lane, uint32_t micro) {
    const uint64_t key = (uint64_t{micro} << 44) ^ (uint64_t{lane} << 32) ^ op;
    size_t at = (key * 0x9e3779b97f4a7c15u) >> 32;
    for (;; ++at) {
      Entry& entry = entries_[at & (entries_.size() - 1)];
      const bool same = entry.op == op && entry.lane == lane && entry.micro == micro;
      if (entry.pass != pass_ || same) return entry;
    }
  }
  void Grow() {
    std::vector<Entry> before(std::max<size_t>(256, 2 * entries_.size()));
    before.swap(entries_);
    for (const Entry& entry : before) {
      if (entry.pass == pass_) Find(entry.op, entry.lane, entry.micro) = entry;
    }
  }

  std::vector<Entry> entries_;  // a power of two, at most half of them of this pass
  uint64_t pass_ = ~uint64_t{0} - 1;
  size_t used_ = 0;
};

}  // namespace

// What the threads share: lane numbers, handed out per pass in order of first use, and the calls
// that another thread than their own ended, until their own thread takes notice.
struct Recorder::Shared {
  ForkMutex mutex;
  uint64_t pass = 0;
  uint32_t next_lane = 0;
  std::vector<bool> state_seen;           // by operator
  std::vector<uint64_t> ended_elsewhere;  // begin numbers
  std::atomic<size_t> ended_count{0};
  BackwardIndices backward;
  struct Kept {
    uint64_t pass = 0, records = 0;
  };
  std::vector<Kept> kept;  // by operator, where a rule has a `max`

  // Counts one more record of the operator in this pass, whatever thread makes it, unless it would
  // be more than `max`.
  bool TakeRecord(const Call& call, uint64_t max) {
    std::lock_guard lock(mutex);
    if (call.op >= kept.size()) kept.resize(call.op + 64);
    Kept& of = kept[call.op];
    if (of.pass < call.pass) of = {call.pass, 0};
    if (of.records >= max) return false;
    ++of.records;
    return true;
  }
  // Several threads may do backward work of one lane.
  uint64_t NextBackwardIndex(const Call& call) {
    std::lock_guard lock(mutex);
    return backward.Next(call);
  }
  // A thread that is late with an old pass takes a number of the newer one:
  // unused there, and new in its own.
  uint32_t TakeLane(uint64_t current_pass) {
    std::lock_guard lock(mutex);
    if (current_pass > pass) {
      pass = current_pass;
      next_lane = 0;
    }
    return next_lane++;
  }
  bool IsFirstState(OperatorId op) {
    std::lock_guard lock(mutex);
    if (op >= state_seen.size()) state_seen.resize(op + 64);
    const bool first = !state_seen[op];
    state_seen[op] = true;
    return first;
  }
  void NoteEndedElsewhere(uint64_t begin) {
    std::lock_guard lock(mutex);
    ended_elsewhere.push_back(begin);
    ended_count.store(ended_elsewhere.size(), std::memory_order_release);
  }
  // Whether the call was ended elsewhere; forgets it.
  bool TakeEnded(uint64_t begin) {
    if (ended_count.load(std::memory_order_acquire) == 0) return false;
    std::lock_guard lock(mutex);
    const auto it = std::find(ended_elsewhere.begin(), ended_elsewhere.end(), begin);
    if (it == ended_elsewhere.end()) return false;
    ended_elsewhere.erase(it);
    ended_count.store(ended_elsewhere.size(), std::memory_order_release);
    return true;
  }
};

// What one thread remembers within one pass. Counters are dense by operator id; a counter of an
// earlier pass or micro is recognised by its fields, so a new pass clears nothing.
struct Recorder::ThreadState {
  struct Counter {
    uint64_t pass = ~uint64_t{0};
    uint32_t micro = 0;
    uint64_t forward = 0;
    uint64_t recomputed = 0;
  };
  uint64_t pass = ~uint64_t{0};
  uint32_t lane = 0;
  uint64_t thread = 0;
  std::vector<Call> open;  // innermost last
  std::vector<Counter> counters;

  Counter& CounterOf(OperatorId op) {
    if (op >= counters.size()) counters.resize(op + 64);
    return counters[op];
  }
  uint64_t NextIndex(const Call& call) {
    Counter& counter = CounterOf(call.op);
    if (counter.pass != call.pass) counter = Counter{.pass = call.pass, .micro = call.micro};
    if (counter.micro != call.micro) {
      counter.micro = call.micro;
      counter.forward = counter.recomputed = 0;
    }
    return call.recompute ? counter.recomputed++ : counter.forward++;
  }
  void EnterPass(uint64_t current, Shared* shared) {
    if (pass == current) return;
    pass = current;
    lane = shared->TakeLane(current);
    for (const Call& call : open) shared->TakeEnded(call.begin);
    open.clear();
  }
  uint64_t Innermost(Shared* shared) {
    while (!open.empty() && shared->TakeEnded(open.back().begin)) open.pop_back();
    return open.empty() ? 0 : open.back().begin;
  }
};

namespace {

std::atomic<uint64_t> next_id{1};

// The state of the calling thread, found with two loads. Plain data: it may be used while the
// thread's other variables are being destroyed.
struct LocalState {
  uint64_t owner;  // Recorder::id_
  void* state;
};
constinit thread_local LocalState current{0, nullptr};
constinit thread_local bool thread_ended = false;

}  // namespace

// Owns the state of a thread that still runs. A thread that comes here again while it ends gets a
// state that is never freed.
struct Recorder::ThreadOwner {
  ~ThreadOwner() {
    current = {0, nullptr};
    thread_ended = true;
  }
  std::unique_ptr<ThreadState> state;
};

Recorder::Recorder(Gate* gate, OperatorTable* operators, Plan* plan, Sink* sink, Clock* clock)
    : gate_(gate),
      operators_(operators),
      plan_(plan),
      sink_(sink),
      clock_(clock),
      id_(next_id.fetch_add(1)),
      shared_(new Shared) {}

Recorder::~Recorder() = default;

Recorder::ThreadState& Recorder::Local() const {
  if (current.owner == id_) [[likely]]
    return *static_cast<ThreadState*>(current.state);
  return Attach();
}

// A thread belongs to one recorder at a time: there is one a process, tests make more.
Recorder::ThreadState& Recorder::Attach() const {
  auto fresh = std::make_unique<ThreadState>();
  fresh->thread = static_cast<uint64_t>(::syscall(SYS_gettid));
  current = {id_, fresh.get()};
  if (thread_ended) return *fresh.release();
  static thread_local ThreadOwner owner;
  owner.state = std::move(fresh);
  return *owner.state;
}

uint32_t Recorder::Lane() noexcept {
  ThreadState& local = Local();
  local.EnterPass(gate_->pass.load(std::memory_order_acquire), shared_.get());
  return local.lane;
}

uint64_t Recorder::Innermost() const noexcept {
  ThreadState& local = Local();
  return local.pass == gate_->pass.load(std::memory_order_acquire) ? local.Innermost(shared_.get())
                                                                   : 0;
}

// What calls, and values seen outside of calls, have in common. The call begins at no lane.
Recorder::ThreadState& Recorder::Reset(OperatorId op, CallScope* scope, RuleId rule) {
  ThreadState& local = Local();
  scope->call = Call{};
  scope->arguments.Clear();
  scope->text.Clear();
  scope->rule = rule;
  scope->first_state = false;
  scope->call.op = op;
  scope->call.pass = gate_->pass.load(std::memory_order_acquire);
  scope->call.thread = local.thread;
  return local;
}

// The same on the calling thread's lane.
Recorder::ThreadState& Recorder::Start(OperatorId op, CallScope* scope, RuleId rule) {
  ThreadState& local = Reset(op, scope, rule);
  local.EnterPass(scope->call.pass, shared_.get());
  scope->call.lane = local.lane;
  return local;
}

bool Recorder::Begin(OperatorId op, const void* subject, Phase phase, bool recompute,
                     CallScope* scope, std::optional<uint32_t> lane) noexcept try {
  if (!gate_->armed() || op == kNoOperator) return false;
  const RuleId rule = plan_->op(op, operators_->Get(op), subject);
  if (rule == kNoRule || !plan_->wants_calls(rule)) return false;
  ThreadState& local = Start(op, scope, rule);
  Call& call = scope->call;
  call.micro = gate_->micro.load(std::memory_order_relaxed);
  call.phase = phase;
  call.recompute = recompute;
  if (lane) call.lane = *lane;
  call.index = phase == Phase::kBackward ? shared_->NextBackwardIndex(call) : local.NextIndex(call);
  call.parent = local.Innermost(shared_.get());
  call.begin = gate_->NextSequence();
  local.open.push_back(call);
  return true;
} catch (...) {  // out of memory: the call is not recorded
  scope->call.begin = 0;
  return false;
}

bool Recorder::BeginState(OperatorId op, const void* subject, CallScope* scope) noexcept try {
  if (!gate_->armed() || op == kNoOperator) return false;
  const RuleId rule = plan_->op(op, operators_->Get(op), subject);
  if (rule == kNoRule) return false;
  Start(op, scope, rule);
  scope->first_state = shared_->IsFirstState(op);
  scope->call.begin = gate_->NextSequence();
  return true;
} catch (...) {
  return false;
}

bool Recorder::BeginDetached(OperatorId op, CallScope* scope) noexcept try {
  if (!gate_->armed() || op == kNoOperator) return false;
  const RuleId rule = plan_->op(op, operators_->Get(op), nullptr);
  if (rule == kNoRule) return false;
  Reset(op, scope, rule);
  scope->call.begin = gate_->NextSequence();
  return true;
} catch (...) {
  return false;
}

Decision Recorder::Ask(CallScope* scope, const Observation& observation) noexcept try {
  NoteArgument(scope, observation.role, observation.arg, observation.meta);
  const Call& call = scope->call;
  uint64_t numel = 1;
  for (int64_t size : observation.meta.sizes) numel *= static_cast<uint64_t>(size);
  Decision decision =
      plan_->observe(scope->rule, {.role = observation.role,
                                   .phase = call.phase,
                                   .recompute = call.recompute,
                                   .arg = observation.arg,
                                   .dtype = observation.meta.dtype.view(),
                                   .numel = numel,
                                   .call = call.index,
                                   .step = gate_->step.load(std::memory_order_relaxed),
                                   .first_state = scope->first_state});
  if (decision.parts == kPartNone) return decision;
  scope->call.was_kept = true;
  if (decision.max_records != 0 && !shared_->TakeRecord(call, decision.max_records)) {
    sink_->skip(call, observation, decision, SkipReason::kMaxRecords, "");
    decision.parts = kPartNone;
  }
  return decision;
} catch (...) {
  return {};
}

void Recorder::NoteArgument(CallScope* scope, Role role, std::string_view arg,
                            const TensorMeta& meta) noexcept try {
  scope->arguments.Add(role, arg, meta.dtype, meta.sizes);
} catch (...) {  // out of memory: the call record lacks the argument
}

void Recorder::End(CallScope* scope, bool threw) noexcept try {
  Call& call = scope->call;
  const uint64_t begin = call.begin;
  if (begin == 0) return;
  if (CloseOpen(call)) {
    call.threw = threw;
    if (!threw) call.end = gate_->NextSequence();
    sink_->end_call(call, scope->arguments.bytes(), scope->text.bytes());
  }
  call.begin = 0;
} catch (...) {
  scope->call.begin = 0;
}

// Takes the call off its thread's stack. False when it is already closed:
// an enclosing call ended before it.
bool Recorder::CloseOpen(const Call& call) {
  ThreadState& local = Local();
  if (call.thread != local.thread) {
    shared_->NoteEndedElsewhere(call.begin);
    return true;
  }
  if (call.pass != local.pass) return true;  // a new pass began meanwhile and cleared the stack
  const auto same = [&](const Call& open) { return open.begin == call.begin; };
  // A thread that ends has lost its stack, whoever opened the call closes it.
  if (std::none_of(local.open.begin(), local.open.end(), same)) return thread_ended;
  while (local.open.back().begin != call.begin) {
    Call inner = std::move(local.open.back());
    local.open.pop_back();
    if (shared_->TakeEnded(inner.begin)) continue;
    inner.threw = true;
    sink_->end_call(inner, {}, {});
  }
  local.open.pop_back();
  return true;
}

}  // namespace tdump
