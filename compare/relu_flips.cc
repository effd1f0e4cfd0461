#include "compare/relu_flips.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "compare/element.h"
#include "compare/pair_side.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;
constexpr size_t kMostGates = 16;  // tensors of a module that are tried for one gradient

// Sums over the elements that did not flip.
struct Sums {
  uint64_t elements = 0, outside = 0;
  double aa = 0, bb = 0, ab = 0, ee = 0, max_e = 0;

  void Add(double a, double b, const FlipFacts& facts) {
    const double e = std::abs(b - a);
    ++elements;
    aa += a * a;
    bb += b * b;
    ab += a * b;
    ee += e * e;
    max_e = std::max(max_e, e);
    const double most = facts.bound.relative * std::max(std::abs(a), std::abs(b)) + facts.bound_abs;
    outside += e > most;
  }
  ErrorLevel Level() const {
    ErrorLevel level;
    const double least = std::min(aa, bb) / static_cast<double>(elements);
    level.power = level.common = ee / aa;
    level.peak = max_e / std::sqrt(least);
    level.gain = std::abs(ab / aa - 1);
    return level;
  }
};

bool IsReal(const io::Record& record) { return FormatOf(record.dtype).kind == NumberKind::kFloat; }

}  // namespace

Result<std::optional<Unflipped>> MeasureUnflipped(const FlipFacts& facts) {
  const auto open = [](const Operand& operand) {
    return PairSide(*operand.record, operand.read, {});
  };
  PairSide a = open(facts.gradient_a), b = open(facts.gradient_b);
  PairSide gate_a = open(facts.gate_a), gate_b = open(facts.gate_b);
  Sums sums;
  Unflipped unflipped;
  for (uint64_t first = 0; first < a.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, a.elements() - first);
    for (PairSide* side : {&a, &b, &gate_a, &gate_b})
      TDUMP_RETURN_IF_ERROR(side->Load(first, count));
    const std::span<const double> of_a = a.Floats(0, count), of_b = b.Floats(0, count),
                                  x_a = gate_a.Floats(0, count), x_b = gate_b.Floats(0, count);
    for (uint64_t i = 0; i < count; ++i) {
      const bool open_a = x_a[i] > 0, open_b = x_b[i] > 0;
      const bool obeys = (open_a || of_a[i] == 0) && (open_b || of_b[i] == 0);
      if (!obeys || !std::isfinite(of_a[i]) || !std::isfinite(of_b[i]))
        return std::optional<Unflipped>();
      if (open_a != open_b)
        ++unflipped.flipped;
      else
        sums.Add(of_a[i], of_b[i], facts);
    }
  }
  if (unflipped.flipped == 0 || sums.aa == 0 || sums.bb == 0) return std::optional<Unflipped>();
  unflipped.elements = a.elements();
  unflipped.error = sums.Level();
  unflipped.within_local = sums.outside == 0;
  return std::optional(unflipped);
}

// Tensors of the forward whose values are known and differ.
void ReluFlips::FindGates() {
  for (uint32_t i = 0; i < pass_->outcomes.size(); ++i) {
    const Outcome& outcome = pass_->outcomes[i];
    const bool forward = outcome.role == Role::kInput || outcome.role == Role::kOutput ||
                         outcome.role == Role::kBefore || outcome.role == Role::kAfter;
    if (forward && outcome.is_compared() && outcome.comparison.evidence == Evidence::kPayload &&
        outcome.comparison.verdict.bitwise == Answer::kDiffers)
      gates_[outcome.path].push_back(i);
  }
}

Result<std::optional<Unflipped>> ReluFlips::MeasureBy(const Outcome& gradient,
                                                      const Outcome& gate) const {
  const StepView &of_a = *pass_->a, &of_b = *pass_->b;
  TDUMP_ASSIGN_OR_RETURN(const io::Record gradient_a, of_a.Get(gradient.ids.a));
  TDUMP_ASSIGN_OR_RETURN(const io::Record gradient_b, of_b.Get(gradient.ids.b));
  TDUMP_ASSIGN_OR_RETURN(const io::Record gate_a, of_a.Get(gate.ids.a));
  TDUMP_ASSIGN_OR_RETURN(const io::Record gate_b, of_b.Get(gate.ids.b));
  for (const io::Record* record : {&gradient_a, &gradient_b, &gate_a, &gate_b}) {
    if (!record->payload || !IsReal(*record) || ElementShape(*record) != ElementShape(gradient_a))
      return std::optional<Unflipped>();
  }
  FlipFacts facts = {.gradient_a = {&gradient_a, {}, {}},
                     .gradient_b = {&gradient_b, {}, {}},
                     .gate_a = {&gate_a, {}, {}},
                     .gate_b = {&gate_b, {}, {}},
                     .bound = gradient.local().bound,
                     .bound_abs = gradient.comparison.metrics->bound_abs};
  for (Operand* operand : {&facts.gradient_a, &facts.gate_a}) {
    TDUMP_ASSIGN_OR_RETURN(operand->read, of_a.Open(*operand->record));
  }
  for (Operand* operand : {&facts.gradient_b, &facts.gate_b}) {
    TDUMP_ASSIGN_OR_RETURN(operand->read, of_b.Open(*operand->record));
  }
  return MeasureUnflipped(facts);
}

std::optional<Unflipped> ReluFlips::Measure(const Outcome& gradient) {
  if (!std::exchange(found_, true)) FindGates();
  const auto gates = gates_.find(gradient.path);
  if (gates == gates_.end() || gradient.comparison.evidence != Evidence::kPayload) return {};
  size_t tried = 0;
  for (const uint32_t i : gates->second) {
    const Outcome& gate = pass_->outcomes[i];
    if (gate.comparison.verdict.tolerance != Answer::kSame) continue;
    if (++tried > kMostGates) break;
    const auto unflipped = MeasureBy(gradient, gate);
    if (unflipped.ok() && *unflipped) return **unflipped;
  }
  return {};
}

}  // namespace tdump::compare
