#include "compare/optimizer_updates.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "compare/element.h"
#include "compare/optimizer_states.h"
#include "compare/pair_side.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;
// As of outputs of operators that were not recorded (compare/explain.cc).
constexpr double kUnseen = 20, kUnseenPeak = 16, kSpread = 3, kAlike = 64;

std::string NameIn(const io::Record& record) {
  return record.key.root + "\n" + record.key.path + "\n" + ParameterOf(record.key);
}

bool IsKnown(const Outcome& outcome) {
  return outcome.error->empty() && outcome.unresolved->empty();
}

bool IsWithin(const Outcome& outcome) {
  const Verdict& verdict = outcome.comparison.verdict;
  return IsKnown(outcome) &&
         (verdict.bitwise == Answer::kSame ||
          (outcome.comparison.evidence == Evidence::kPayload &&
           verdict.tolerance == Answer::kSame && verdict.special != Answer::kDiffers));
}

// Those of later micro-batches are what had been added up by then.
void AddGradient(const Outcome* outcome, const Outcome** last) {
  if (*last == nullptr || outcome->order >= (*last)->order) *last = outcome;
}

// Both sides of a pair, tile by tile.
class BothSides {
 public:
  // Error: one cannot be read, or holds no real numbers.
  static Result<std::unique_ptr<BothSides>> Open(const PassDiff& pass, const Outcome& outcome) {
    auto both = std::make_unique<BothSides>();
    TDUMP_ASSIGN_OR_RETURN(both->record_a_, pass.a->Get(outcome.ids.a));
    TDUMP_ASSIGN_OR_RETURN(both->record_b_, pass.b->Get(outcome.ids.b));
    for (const io::Record* record : {&both->record_a_, &both->record_b_}) {
      if (!record->payload || FormatOf(record->dtype).kind != NumberKind::kFloat ||
          ElementShape(*record) != ElementShape(both->record_a_))
        return InvalidArgument("no real numbers of one shape");
    }
    TDUMP_ASSIGN_OR_RETURN(ReadBytes a, pass.a->Open(both->record_a_));
    TDUMP_ASSIGN_OR_RETURN(ReadBytes b, pass.b->Open(both->record_b_));
    both->sides_.reserve(2);
    both->sides_.emplace_back(both->record_a_, std::move(a), std::vector<bool>());
    both->sides_.emplace_back(both->record_b_, std::move(b), std::vector<bool>());
    return both;
  }
  std::vector<uint64_t> shape() const { return ElementShape(record_a_); }
  uint64_t elements() const { return sides_.front().elements(); }
  Status Load(uint64_t first, uint64_t count) {
    for (PairSide& side : sides_) TDUMP_RETURN_IF_ERROR(side.Load(first, count));
    a = sides_[0].Floats(0, count);
    b = sides_[1].Floats(0, count);
    return {};
  }

  std::span<const double> a, b;  // of the tile

 private:
  io::Record record_a_, record_b_;
  std::vector<PairSide> sides_;
};

double ShareOff(double a, double b) {
  return a == b ? 0 : std::abs(b - a) / std::max(std::abs(a), std::abs(b));
}

struct Update {
  std::unique_ptr<BothSides> now, before;
  std::vector<std::unique_ptr<BothSides>> kept;
  LocalBound own;
  double bound_abs = 0;
};

// Of any element of A. Error: a payload's.
Result<double> LargestStep(Update* update) {
  BothSides &now = *update->now, &before = *update->before;
  double largest = 0;
  for (uint64_t first = 0; first < now.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, now.elements() - first);
    TDUMP_RETURN_IF_ERROR(now.Load(first, count));
    TDUMP_RETURN_IF_ERROR(before.Load(first, count));
    for (uint64_t i = 0; i < count; ++i)
      largest = std::max(largest, std::abs(now.a[i] - before.a[i]));
  }
  return largest;
}

// Error: a payload's.
Result<bool> IsExplained(Update* update) {
  BothSides &now = *update->now, &before = *update->before;
  TDUMP_ASSIGN_OR_RETURN(const double largest, LargestStep(update));
  for (uint64_t first = 0; first < now.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, now.elements() - first);
    TDUMP_RETURN_IF_ERROR(now.Load(first, count));
    TDUMP_RETURN_IF_ERROR(before.Load(first, count));
    for (const auto& kept : update->kept) TDUMP_RETURN_IF_ERROR(kept->Load(first, count));
    for (uint64_t i = 0; i < count; ++i) {
      const double a = now.a[i], b = now.b[i];
      double share = 0;
      for (const auto& kept : update->kept) share += ShareOff(kept->a[i], kept->b[i]);
      const double step =
          std::max(std::abs(a - before.a[i]), std::min(std::abs(b - before.b[i]), largest));
      const double own =
          update->own.bound.relative * std::max(std::abs(a), std::abs(b)) + update->bound_abs;
      const double most = own + std::abs(before.b[i] - before.a[i]) + kBoundFactor * step * share;
      if (a != b && !(std::abs(b - a) <= most)) return false;
    }
  }
  return true;
}

double Square(double x) { return x * x; }

// Of an update whose making was not recorded.
struct UpdateSums {
  double a = 0, b = 0;   // of squares of it
  double error = 0;      // of squares
  double along = 0;      // products of the error with A's
  double explained = 0;  // squares of what w was off by and of what w' is rounded by
};

// Error: a payload's.
Result<UpdateSums> SumsOf(Update* update) {
  BothSides &now = *update->now, &before = *update->before;
  UpdateSums sums;
  for (uint64_t first = 0; first < now.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, now.elements() - first);
    TDUMP_RETURN_IF_ERROR(now.Load(first, count));
    TDUMP_RETURN_IF_ERROR(before.Load(first, count));
    for (uint64_t i = 0; i < count; ++i) {
      const double a = now.a[i] - before.a[i], b = now.b[i] - before.b[i];
      sums.a += a * a;
      sums.b += b * b;
      sums.error += Square(b - a);
      sums.along += (b - a) * a;
      sums.explained += update->own.level.power * Square(now.a[i]);
    }
  }
  return sums;
}

// `bound`: of the update, relative to it. Error: a payload's.
Result<bool> IsWithin(Update* update, const ErrorLevel& bound) {
  BothSides &now = *update->now, &before = *update->before;
  TDUMP_ASSIGN_OR_RETURN(const UpdateSums sums, SumsOf(update));
  if (!(sums.a > 0 && sums.b > 0)) return false;
  const auto elements = static_cast<double>(now.elements());
  const double power = bound.power + sums.explained / sums.a;
  if (!(sums.error <= power * sums.a)) return false;
  const double spread = kSpread * std::sqrt(power / std::max(1.0, elements / kAlike));
  if (!(std::abs(sums.along) <= (bound.gain + spread) * sums.a)) return false;
  const double rms = std::sqrt(std::min(sums.a, sums.b) / elements);
  for (uint64_t first = 0; first < now.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, now.elements() - first);
    TDUMP_RETURN_IF_ERROR(now.Load(first, count));
    TDUMP_RETURN_IF_ERROR(before.Load(first, count));
    for (uint64_t i = 0; i < count; ++i) {
      const double a = now.a[i], b = now.b[i];
      const double own =
          update->own.bound.relative * std::max(std::abs(a), std::abs(b)) + update->bound_abs;
      const double step = std::abs(a - before.a[i]) + rms;
      const double most = own + std::abs(before.b[i] - before.a[i]) + bound.peak * step;
      if (a != b && !(std::abs(b - a) <= most)) return false;
    }
  }
  return true;
}

// Of a gradient that nobody saw. `seen`: errors of its step.
ErrorLevel UnseenBound(const LocalBound& local, const ErrorLevel& seen, uint64_t elements) {
  const double noise = seen.noise();
  const double spread =
      kSpread * std::sqrt(noise / std::max(1.0, static_cast<double>(elements) / kAlike));
  return {.power = local.level.power + kUnseen * seen.power,
          .peak = local.level.peak + kUnseenPeak * seen.peak,
          .gain = local.level.gain + seen.gain + spread};
}

}  // namespace

bool OptimizerUpdates::MayExplain(const PassDiff& pass) {
  return std::any_of(pass.outcomes.begin(), pass.outcomes.end(),
                     [](const Outcome& outcome) { return outcome.role == Role::kParam; });
}

void OptimizerUpdates::Find() {
  for (const Outcome& outcome : before_->outcomes) {
    if (!outcome.is_weight() && IsWithin(outcome) &&
        outcome.comparison.verdict.bitwise != Answer::kSame) {
      const ErrorLevel level = LevelOf(outcome.comparison.metrics);
      seen_.power = std::max(seen_.power, level.power);
      seen_.peak = std::max(seen_.peak, level.peak);
      seen_.gain = std::max(seen_.gain, level.gain);
    }
    if (outcome.role != Role::kParam && outcome.role != Role::kParamGrad && !outcome.of_optimizer)
      continue;
    const auto record = before_->b->Get(outcome.ids.b);
    if (!record.ok()) continue;
    if (outcome.role == Role::kParam)
      parameters_[NameIn(*record)].weight = &outcome;
    else if (outcome.role == Role::kParamGrad)
      AddGradient(&outcome, &parameters_[NameIn(*record)].gradient);
    else if (const std::string& arg = record->key.arg;
             StateKindOf(arg.substr(arg.find('.') + 1)) != StateKind::kNone)
      parameters_[NameIn(*record)].kept.push_back(&outcome);
  }
}

bool OptimizerUpdates::Explain(const Outcome& weight, const LocalBound& gradient) {
  const Verdict& verdict = weight.comparison.verdict;
  if (before_ == nullptr || weight.role != Role::kParam || !IsKnown(weight) ||
      verdict.special == Answer::kDiffers || weight.comparison.evidence != Evidence::kPayload)
    return false;
  if (!std::exchange(found_, true)) Find();
  const auto record = pass_->b->Get(weight.ids.b);
  const auto parameter = record.ok() ? parameters_.find(NameIn(*record)) : parameters_.end();
  if (parameter == parameters_.end()) return false;
  const Outcome* was = parameter->second.weight;
  std::vector<const Outcome*> kept = parameter->second.kept;
  const bool keeps = !kept.empty();
  if (!keeps && parameter->second.gradient != nullptr) kept = {parameter->second.gradient};
  if (was == nullptr || !IsWithin(*was)) return false;
  if (!std::all_of(kept.begin(), kept.end(), [](const Outcome* state) { return IsWithin(*state); }))
    return false;
  Update update;
  update.own = weight.local();
  update.bound_abs = weight.comparison.metrics->bound_abs;
  auto now = BothSides::Open(*pass_, weight), before = BothSides::Open(*before_, *was);
  if (!now.ok() || !before.ok() || (*now)->shape() != (*before)->shape()) return false;
  for (const Outcome* state : kept) {
    auto sides = BothSides::Open(*before_, *state);
    // One that is smaller (of Adafactor) tells nothing of elements.
    if (sides.ok() && (*sides)->shape() == (*now)->shape())
      update.kept.push_back(*std::move(sides));
  }
  update.now = *std::move(now);
  update.before = *std::move(before);
  if (keeps || !update.kept.empty()) {
    const Result<bool> explained = IsExplained(&update);
    if (keeps || (explained.ok() && *explained)) return explained.ok() && *explained;
  }
  const Result<bool> within =
      IsWithin(&update, UnseenBound(gradient, seen_, update.now->elements()));
  return within.ok() && *within;
}

}  // namespace tdump::compare
