#include "compare/tensor_sizes.h"

#include <algorithm>
#include <cmath>

#include "compare/dequantised.h"
#include "compare/element.h"
#include "compare/pair_side.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;

std::optional<double> RmsIn(const StepView& view, const io::Record& record) {
  if (const auto summary = view.SummaryOf(record); summary && summary->rms) return summary->rms;
  if (!record.payload) return std::nullopt;
  Result<ReadBytes> read = view.Open(record);
  if (!read.ok()) return std::nullopt;
  PairSide side(record, *std::move(read), {});
  double squares = 0;
  for (uint64_t first = 0; first < side.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, side.elements() - first);
    if (!side.Load(first, count).ok()) return std::nullopt;
    for (const double x : side.Floats(0, count)) squares += x * x;
  }
  return std::sqrt(squares / static_cast<double>(std::max<uint64_t>(1, side.elements())));
}

}  // namespace

std::optional<TensorSize> TensorSizes::Of(uint32_t outcome) {
  const auto [found, is_new] = found_.try_emplace(outcome);
  if (is_new) found->second = Find(pass_->outcomes[outcome]);
  return found->second;
}

std::optional<TensorSize> TensorSizes::Find(const Outcome& outcome) const {
  const auto a = pass_->a->Get(outcome.ids.a), b = pass_->b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok() || ElementShape(*a) != ElementShape(*b)) return std::nullopt;
  for (const io::Record* record : {&*a, &*b}) {
    if (FormatOf(record->dtype).kind != NumberKind::kFloat) return std::nullopt;
  }
  TensorSize size;
  size.shape = ElementShape(*b);
  size.sum_roundoff = SumRoundoff(RecordedDType(*a), RecordedDType(*b));
  size.is_joined = pass_->a->IsJoined(outcome.ids.a) || pass_->b->IsJoined(outcome.ids.b);
  if (outcome.comparison.verdict.bitwise != Answer::kSame) {
    const Metrics m = outcome.comparison.metrics;
    size.rms_a = m.rms_a;
    size.rms_b = m.rms_b;
    return size;
  }
  const std::optional<double> rms = RmsIn(*pass_->b, *b);
  if (!rms || !std::isfinite(*rms)) return std::nullopt;
  size.rms_a = size.rms_b = *rms;
  return size;
}

}  // namespace tdump::compare
