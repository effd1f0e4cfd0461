#include "coordinator/step_tracker.h"

#include <algorithm>

namespace tdump::coordinator {

StepTracker::Verdict StepTracker::Observe(const Boundary& boundary, int64_t thread) {
  switch (boundary.kind) {
    case BoundaryKind::kRootBegin:
    case BoundaryKind::kOutermostBegin:
      return OutermostBegin(boundary, thread);
    case BoundaryKind::kRootEnd:
    case BoundaryKind::kOutermostEnd:
      std::erase(threads_inside_, thread);
      return {};
    case BoundaryKind::kOptimizerCreated:
      NoteOptimizer(boundary);
      return {};
    case BoundaryKind::kOptimizerStep:
      return OptimizerStep(boundary);
    case BoundaryKind::kBackwardBegin:
      if (rule_.kind == StepRuleKind::kBackward) marked_ = true;
      return {};
    case BoundaryKind::kExplicit:
      return Explicit(boundary);
    case BoundaryKind::kOp:
      return MatchesOp(boundary.name) ? Begin(StepMode::kForward, {}) : Verdict{};
    case BoundaryKind::kFirstOperator:
      // Operators alone (no module is ever called) need an open step to be recorded in.
      if (open_ ||
          (rule_.kind != StepRuleKind::kOptimizer && rule_.kind != StepRuleKind::kBackward))
        return {};
      return Begin(StepMode::kTrain, {});
    default:
      return {};
  }
}

// Every operator of the job asks; each name is matched once.
bool StepTracker::MatchesOp(std::string_view name) {
  if (rule_.kind != StepRuleKind::kOp) return false;
  if (!rule_.matches) return true;
  const auto known = op_matches_.find(name);
  if (known != op_matches_.end()) return known->second;
  return op_matches_.emplace(name, rule_.matches(name)).first->second;
}

StepTracker::Verdict StepTracker::OutermostBegin(const Boundary& boundary, int64_t thread) {
  // An earlier call of this thread is over, however it ended: this one is outermost.
  std::erase(threads_inside_, thread);
  const bool concurrent = open_ && !threads_inside_.empty();
  threads_inside_.push_back({thread, 0});
  op_only_ = false;

  Caller caller{boundary.kind == BoundaryKind::kRootBegin, boundary.instance, {}};
  if (caller.root) {
    NoteRoot(boundary);
  } else {
    caller.name = std::string(boundary.name);
  }
  Verdict verdict;
  switch (rule_.kind) {
    case StepRuleKind::kAuto:
      verdict = AutoCall(boundary, caller, concurrent);
      break;
    case StepRuleKind::kForward:
      verdict = ForwardCall(boundary, caller, concurrent);
      break;
    case StepRuleKind::kOptimizer:
    case StepRuleKind::kBackward:
      verdict = MarkedCall(caller);
      break;
    case StepRuleKind::kOp:
    case StepRuleKind::kExplicit:
      break;
  }
  threads_inside_.back().step = steps_;
  if (open_ && caller.root) {
    if (root_calls_ == 0) micro_root_ = caller.instance;
    verdict.micro = caller.instance == micro_root_;
    if (verdict.micro) ++root_calls_;
  }
  return verdict;
}

StepTracker::Verdict StepTracker::AutoCall(const Boundary& boundary, const Caller& caller,
                                           bool concurrent) {
  const bool training = boundary.grad_enabled && has_optimizer_;
  if (open_ && mode_ == StepMode::kTrain) {
    // Until the optimizer stepped everything belongs to it; afterwards a part (a loss, a metric)
    // still does where whole models are what is called.
    if (!marked_ || concurrent || (!caller.root && opener_.root)) return {};
  }
  if (training) {
    // A loss or metric called with gradients on after an evaluation does not open a train step.
    const bool belongs = concurrent || (open_ && !caller.root && opener_.root);
    return belongs ? Verdict{} : Begin(StepMode::kTrain, caller);
  }
  const StepMode mode = boundary.grad_enabled ? StepMode::kForward : StepMode::kEval;
  if (!open_ || mode_ == StepMode::kTrain) return Begin(mode, caller);
  return Recurrence(caller, mode, concurrent);
}

StepTracker::Verdict StepTracker::ForwardCall(const Boundary& boundary, const Caller& caller,
                                              bool concurrent) {
  if (rule_.matches) {
    const bool hit =
        rule_.matches(boundary.name) || (!boundary.cls.empty() && rule_.matches(boundary.cls));
    return hit && !concurrent ? Begin(StepMode::kForward, caller) : Verdict{};
  }
  if (!open_) return Begin(StepMode::kForward, caller);
  return Recurrence(caller, StepMode::kForward, concurrent);
}

// Steps by calls: the step's opener comes again, or the first root does.
StepTracker::Verdict StepTracker::Recurrence(const Caller& caller, StepMode mode, bool concurrent) {
  if (concurrent) return {};
  if (has_opener_ && caller == opener_) return Begin(mode, caller);
  if (!caller.root) return {};
  if (!opener_.root) {
    // Parts came first (an embedding called by hand): the root takes the step
    // over, and later ones begin with it.
    opener_ = caller;
    has_opener_ = true;
    return {};
  }
  return caller.instance == first_root_ ? Begin(mode, caller) : Verdict{};
}

StepTracker::Verdict StepTracker::MarkedCall(const Caller& caller) {
  if (open_ && !has_opener_) {
    opener_ = caller;
    has_opener_ = true;
  }
  const bool belongs = open_ && (!marked_ || (!caller.root && opener_.root));
  return belongs ? Verdict{} : Begin(StepMode::kTrain, caller);
}

StepTracker::Verdict StepTracker::OptimizerStep(const Boundary& boundary) {
  const bool known = has_optimizer_;
  NoteOptimizer(boundary);
  optimizer_stepped_ = true;
  if (boundary.instance != first_optimizer_) return {};
  const bool by_optimizer =
      rule_.kind == StepRuleKind::kOptimizer || rule_.kind == StepRuleKind::kAuto;
  if (!by_optimizer) return {};
  if (op_only_) {
    // The operators before the first optimizer step were one.
    const uint32_t missed = open_ ? 0 : 1;
    Verdict verdict = Begin(StepMode::kTrain, {});
    verdict.missed = missed;
    return verdict;
  }
  // In `auto` an optimizer that tells nothing before its first step finds its calls counted as
  // forward steps: the last of them is what it stepped on.
  if (rule_.kind == StepRuleKind::kAuto && !known && open_) mode_ = StepMode::kTrain;
  if (open_ && (mode_ == StepMode::kTrain || rule_.kind == StepRuleKind::kOptimizer))
    marked_ = true;
  return {};
}

StepTracker::Verdict StepTracker::Explicit(const Boundary& boundary) {
  pending_number_ = boundary.number;
  if (rule_.kind == StepRuleKind::kAuto) rule_.kind = StepRuleKind::kExplicit;
  if (rule_.kind != StepRuleKind::kExplicit) return {};
  return Begin(StepMode::kExplicit, {});
}

StepTracker::Verdict StepTracker::Begin(StepMode mode, const Caller& caller) {
  began_ = open_ = true;
  ++steps_;
  mode_ = mode;
  opener_ = caller;
  has_opener_ = caller.root || !caller.name.empty();
  root_calls_ = 0;
  marked_ = optimizer_stepped_ = false;
  Verdict verdict{true, mode, pending_number_};
  pending_number_ = -1;
  return verdict;
}

bool StepTracker::StepIsOver() const {
  return !open_ || (marked_ && rule_.kind != StepRuleKind::kBackward);
}

bool StepTracker::CallIsOpen() const {
  return std::any_of(threads_inside_.begin(), threads_inside_.end(),
                     [this](const Inside& inside) { return inside.step == steps_; });
}

bool StepTracker::AwaitsOptimizer() const {
  const bool by_optimizer = rule_.kind == StepRuleKind::kOptimizer ||
                            (rule_.kind == StepRuleKind::kAuto && mode_ == StepMode::kTrain);
  return open_ && by_optimizer && !optimizer_stepped_;
}

void StepTracker::Restart() {
  began_ = open_ = marked_ = false;
  has_opener_ = false;
  opener_ = {};
  threads_inside_.clear();
}

void StepTracker::NoteOptimizer(const Boundary& boundary) {
  if (has_optimizer_ && boundary.instance > first_optimizer_) return;
  if (!has_optimizer_ || boundary.instance < first_optimizer_ || optimizer_name_.empty()) {
    optimizer_name_ = std::string(boundary.name);
  }
  has_optimizer_ = true;
  first_optimizer_ = boundary.instance;
}

void StepTracker::NoteRoot(const Boundary& boundary) {
  if (has_first_root_) return;
  has_first_root_ = true;
  first_root_ = boundary.instance;
  first_root_name_ = std::string(boundary.cls.empty() ? boundary.name : boundary.cls);
}

namespace {

std::string WithDetail(const std::string& word, const std::string& detail) {
  return detail.empty() ? word : word + " (" + detail + ")";
}

}  // namespace

std::string StepTracker::RuleInForce() const {
  const std::string root = first_root_name_.substr(first_root_name_.rfind('.') + 1);
  switch (rule_.kind) {
    case StepRuleKind::kOptimizer:
      return WithDetail("optimizer", optimizer_name_);
    case StepRuleKind::kBackward:
      return "backward";
    case StepRuleKind::kForward:
      return rule_.pattern.empty() ? WithDetail("forward", root) : "forward:" + rule_.pattern;
    case StepRuleKind::kOp:
      return "op:" + rule_.pattern;
    case StepRuleKind::kExplicit:
      return "explicit (tdump.step)";
    case StepRuleKind::kAuto:
      break;
  }
  if (has_optimizer_) return WithDetail("optimizer", optimizer_name_);
  return began_ ? WithDetail("forward", root) : "auto";
}

}  // namespace tdump::coordinator
