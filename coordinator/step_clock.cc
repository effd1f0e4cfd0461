#include "coordinator/step_clock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <string_view>

#include "coordinator/hash64.h"
#include "core/text.h"

namespace tdump::coordinator {
namespace {

constexpr uint64_t kStepsTold = 3;  // in which an exception left calls

int64_t ThreadOf(const Boundary& boundary) {
  static thread_local const int64_t mine = ::syscall(SYS_gettid);
  return boundary.thread != 0 ? boundary.thread : mine;
}

int64_t WallNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool Activates(BoundaryKind kind) {
  switch (kind) {
    case BoundaryKind::kFirstOperator:
    case BoundaryKind::kMpiInit:
    case BoundaryKind::kProcessGroup:
    case BoundaryKind::kRootBegin:
    case BoundaryKind::kOutermostBegin:
    case BoundaryKind::kOp:
      return true;
    default:
      return false;
  }
}

bool Joins(BoundaryKind kind) {
  return kind == BoundaryKind::kMpiInit || kind == BoundaryKind::kProcessGroup;
}

}  // namespace

const char* StepClock::Left::By() const {
  if (!thread_ended) return "an exception";
  return threw ? "an exception or the end of a thread" : "the end of a thread";
}

std::string StepClock::Left::What(const std::string& calls_text, const char* word) const {
  if (!backward) return calls_text;
  return calls == 0 ? "a backward" : calls_text + word + "a backward";
}

StepClock::StepClock(Gate* gate, Activator* activator, StepClockOptions options)
    : gate_(gate), activator_(activator), options_(std::move(options)), tracker_(options_.rule) {}

void StepClock::boundary(const Boundary& boundary) noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (gate_->off() || exited_) return;
    if (boundary.kind == BoundaryKind::kExit) return Exit(boundary.number);
    Handle(boundary);
  } catch (...) {
    gate_->state.store(GateState::kOff, std::memory_order_release);
  }
}

void StepClock::Handle(const Boundary& boundary) {
  const bool active = EnsureActive(boundary);
  if (gate_->off()) return;
  if (recording_) {
    left_.calls += boundary.left;
    (boundary.number >= 0 ? left_.thread_ended : left_.threw) |= boundary.left != 0;
    left_.backward |= boundary.kind == BoundaryKind::kBackwardLeft;
    left_.threw |= left_.backward;
  }
  StepTracker::Verdict verdict = tracker_.Observe(boundary, ThreadOf(boundary));
  if (!active) {
    if (verdict.begins && boundary.kind == BoundaryKind::kExplicit) pending_ = verdict;
    return;
  }
  if (pending_.begins && !verdict.begins) {
    // tdump.step() came before the first operator.
    pending_.micro = verdict.micro;
    verdict = pending_;
  }
  pending_ = {};
  if (verdict.begins) BeginStep(verdict);
  if (boundary.kind == BoundaryKind::kRootBegin || boundary.kind == BoundaryKind::kOutermostBegin)
    Mix(boundary);
  if (verdict.micro) NextMicro();
}

bool StepClock::EnsureActive(const Boundary& boundary) {
  if (state_ == Activation::kActive) {
    if (Joins(boundary.kind)) activator_->Joined(boundary);
    return true;
  }
  if (!(asked_ ? Joins(boundary.kind) : Activates(boundary.kind))) {
    if (fork_untold_ && Activates(boundary.kind)) TellOfFork(boundary);
    return false;
  }
  if (asked_) tracker_.Restart();
  asked_ = true;
  state_ = activator_->Activate(boundary, &session_);
  gate_->state.store(state_ == Activation::kNever ? GateState::kOff : GateState::kIdle,
                     std::memory_order_release);
  return state_ == Activation::kActive;
}

void StepClock::TellOfFork(const Boundary& boundary) {
  fork_untold_ = !activator_->RanInForkedChild(boundary);
  gate_->state.store(GateState::kIdle, std::memory_order_release);
}

void StepClock::BeginStep(const StepTracker::Verdict& verdict) {
  EndStep();
  TellRule(verdict.mode);
  micros_ = 0;
  gate_->micro.store(0, std::memory_order_relaxed);
  step_ = {};
  next_local_ += verdict.missed;
  next_of_mode_[static_cast<int>(verdict.mode)] += verdict.missed;
  bool record = false;
  if (skipped_ < options_.skip) {
    ++skipped_;
  } else {
    step_.counted = true;
    step_.told.local = next_local_++;
    step_.told.mode = verdict.mode;
    if (session_.needs_shapes()) step_.told.shape = Hash64(ToString(verdict.mode));
    step_.told.began_ns = WallNs();
    const uint64_t mode_step = next_of_mode_[static_cast<int>(verdict.mode)]++;
    const uint64_t number = SelectionNumber(verdict);
    if (session_.agreement) session_.agreement->Began(number);
    record = session_.selected && session_.passes != nullptr && options_.select.Contains(number);
    if (record) OpenPass(verdict, mode_step, number);
  }
  if (!record && recording_) session_.passes->close_pass();
  recording_ = step_.told.recorded = record;
  SetGate();
}

void StepClock::TellRule(StepMode mode) {
  if (told_first_) return;
  told_first_ = true;
  std::string rule = tracker_.RuleInForce();
  if (mode == StepMode::kEval && rule.starts_with("forward")) rule += ", gradients off";
  activator_->FirstStep(rule);
}

uint64_t StepClock::SelectionNumber(const StepTracker::Verdict& verdict) {
  if (verdict.number >= 0 && options_.first < 0) return static_cast<uint64_t>(verdict.number);
  const uint64_t first = options_.first < 0 ? 0 : static_cast<uint64_t>(options_.first);
  const uint64_t local = step_.told.local;
  return first + (session_.agreement ? session_.agreement->NumberOf(local) : local);
}

void StepClock::OpenPass(const StepTracker::Verdict& verdict, uint64_t mode_step, uint64_t number) {
  const bool renumbered = verdict.number >= 0 || options_.first >= 0;
  io::PassInfo info;
  info.ordinal = passes_++;
  info.local_step = step_.told.local;
  info.mode_step = mode_step;
  info.job_step = renumbered ? static_cast<int64_t>(number) : -1;
  info.mode = verdict.mode;
  info.generation = session_.generation;
  info.rank = session_.identity.rank;
  info.world = session_.identity.world;
  info.pid = session_.identity.pid;
  info.host = session_.identity.host;
  info.started_ns = static_cast<uint64_t>(step_.told.began_ns);
  session_.passes->open_pass(info);
  const uint64_t base = options_.select.is_all() ? 0 : options_.select.Min();
  gate_->step.store(number >= base ? number - base : 0, std::memory_order_relaxed);
  gate_->pass.store(info.ordinal, std::memory_order_release);
}

void StepClock::EndStep() {
  if (recording_) gate_->state.store(GateState::kIdle, std::memory_order_release);
  if (left_.any()) NoteWhatWasLeft();
  if (step_.counted && session_.agreement) session_.agreement->Ended(step_.told);
  step_.counted = false;
}

// Of the first few steps one by one; Exit() tells of the others.
void StepClock::NoteWhatWasLeft() {
  const uint64_t local = step_.told.local;
  last_left_ = session_.agreement ? session_.agreement->NumberOf(local) : local;
  if (++steps_left_ <= kStepsTold) {
    Note("step " + std::to_string(last_left_) + ": " + left_.By() + " left " +
         left_.What(Plural(left_.calls, "module call"), " and ") +
         (exited_ ? "" : " and the job went on") + "; what " + (left_.calls != 0 ? "they" : "it") +
         " had not done is missing");
  } else {
    more_left_.calls += left_.calls;
    more_left_.backward |= left_.backward;
    more_left_.threw |= left_.threw;
    more_left_.thread_ended |= left_.thread_ended;
  }
  left_ = {};
}

void StepClock::Note(const std::string& text) {
  if (session_.manifest)
    (void)session_.manifest->Append(io::NoteSection{1, static_cast<uint64_t>(WallNs()), text});
}

void StepClock::NextMicro() {
  gate_->micro.store(micros_++, std::memory_order_relaxed);
  SetGate();
}

void StepClock::SetGate() {
  const uint64_t micro = gate_->micro.load(std::memory_order_relaxed);
  const bool armed = recording_ && options_.micro.Contains(micro);
  gate_->state.store(armed ? GateState::kArmed : GateState::kIdle, std::memory_order_release);
}

void StepClock::Mix(const Boundary& boundary) {
  if (!session_.needs_shapes()) return;
  const uint64_t kind = static_cast<uint64_t>(boundary.kind) * 2 + (boundary.grad_enabled ? 1 : 0);
  uint64_t& shape = step_.told.shape;
  shape = Hash64(boundary.name, shape ^ kind);
  shape = Hash64(boundary.cls, shape);
}

// A process that succeeds ends between two steps, unless it caught an exception in the last one.
// One that fails ends anywhere.
void StepClock::Exit(int64_t status) {
  exited_ = true;
  if (state_ != Activation::kActive) return;
  if (status > 0 && recording_ && !tracker_.StepIsOver()) failed_ = static_cast<int>(status);
  undone_ = status == 0 && recording_ &&
            (tracker_.CallIsOpen() || (left_.any() && !tracker_.StepIsOver()) ||
             (tracker_.AwaitsOptimizer() && session_.passes->has_backward()));
  if (status != 0) left_ = {};  // nothing went on
  EndStep();
  if (steps_left_ > kStepsTold) {
    Note(std::string(more_left_.By()) + " left " + more_left_.What("module calls", " or ") +
         " in " + Plural(steps_left_ - kStepsTold, "further step") + ", the last one " +
         std::to_string(last_left_));
  }
  if (recording_) session_.passes->close_pass();
  recording_ = false;
  gate_->state.store(GateState::kIdle, std::memory_order_release);
  if (session_.agreement) session_.agreement->Close();
  if (tracker_.saw_boundary()) return;
  const std::string text =
      "no step boundary was seen (steps.boundary: " + tracker_.RuleInForce() +
      "), nothing was recorded; call tdump.step() in the loop or name another boundary";
  Note(text);
  if (options_.report) options_.report(text);
}

void StepClock::AfterFork() noexcept {
  // The lock may be held by a thread that does not exist here.
  new (&mutex_) std::mutex;
  session_ = {};
  step_ = {};
  recording_ = false;
  left_ = more_left_ = {};
  steps_left_ = 0;
  pending_ = {};
  asked_ = true;
  told_first_ = false;
  state_ = Activation::kLater;
  fork_untold_ = true;
  GateState armed = GateState::kArmed;
  gate_->state.compare_exchange_strong(armed, GateState::kIdle);
}

std::string StepClock::RuleInForce() const {
  std::lock_guard lock(mutex_);
  return tracker_.RuleInForce();
}

StepClock::Counts StepClock::counts() const {
  std::lock_guard lock(mutex_);
  return {next_local_, passes_, failed_, undone_};
}

}  // namespace tdump::coordinator
