#include "compare/row.h"

#include <fmt/format.h>

#include <cmath>

#include "compare/bound_text.h"
#include "compare/dequantised.h"

namespace tdump::compare {
namespace {

std::string KeptText(const io::Record& record) {
  std::string text = PartsToString(record.parts_kept);
  if (record.reason != SkipReason::kNone) text += fmt::format(" ({})", ToString(record.reason));
  return text;
}

// How many times larger than the other side a side is, where it is that but for rounding; else 0.
uint64_t TimesLarger(double cosine, double rms, double rms_of_other) {
  constexpr double kAlike = 0.99, kOff = 0.01;
  if (!(cosine >= kAlike) || rms_of_other == 0) return 0;
  const double times = cosine * rms / rms_of_other;
  const double whole = std::round(times);
  return whole >= 2 && whole < 1e9 && std::abs(times / whole - 1) <= kOff
             ? static_cast<uint64_t>(whole)
             : 0;
}

// Gradients of parameters are mostly all of one kind: one rule is about all of them.
std::string PatternOf(const io::Record& record) {
  if (record.key.role == Role::kParamGrad) return "@param_grad";
  return fmt::format("^{}@{}", NameOf(record), ToString(record.key.role));
}

std::string RemedyOf(const PassDiff& pass, const Outcome& outcome, const io::Record& a,
                     const io::Record& b) {
  const Metrics& m = *outcome.comparison.metrics;
  if (!outcome.fails || outcome.comparison.evidence != Evidence::kPayload) return "";
  const auto mean = [&](char side, const std::string& dims, const io::Record& record) {
    return fmt::format(
        "the mean of what the ranks of {0} hold agrees with {1}; if it should, as of "
        "parts of the batch: --dims '{0}:{2}: {3}'",
        side, side == 'A' ? 'B' : 'A', PatternOf(record), dims);
  };
  if (const std::string dims = pass.b->DimsOfMean(outcome.ids.b, 0); !dims.empty())
    return mean('B', dims, b);
  if (const std::string dims = pass.a->DimsOfMean(outcome.ids.a, 0); !dims.empty())
    return mean('A', dims, a);
  const auto remedy = [&](char side, uint64_t times, const std::string& dims,
                          const io::Record& record) {
    return fmt::format(
        "{0} is the sum over the ranks and {1} times {2}; if what each rank holds "
        "is a mean, as of its part of the batch: --dims '{0}:{3}: {4}'",
        side, times, side == 'A' ? 'B' : 'A', PatternOf(record), dims);
  };
  if (!m.cosine) return "";
  if (const uint64_t times = TimesLarger(*m.cosine, m.rms_b, m.rms_a); times > 0) {
    const std::string dims = pass.b->DimsOfMean(outcome.ids.b, times);
    return dims.empty() ? "" : remedy('B', times, dims, b);
  }
  if (const uint64_t times = TimesLarger(*m.cosine, m.rms_a, m.rms_b); times > 0) {
    const std::string dims = pass.a->DimsOfMean(outcome.ids.a, times);
    return dims.empty() ? "" : remedy('A', times, dims, a);
  }
  return "";
}

}  // namespace

Row MakeRow(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  Row row;
  row.step_a = pair.a.step;
  row.step_b = pair.b.step;
  row.rank_a = pair.a.rank == kAllRanks ? outcome.rank_a : pair.a.captured_rank();
  row.rank_b = pair.b.rank == kAllRanks ? outcome.rank_b : pair.b.rank;
  row.layout_a = pass.a->LayoutOf(outcome.ids.a);
  row.layout_b = pass.b->LayoutOf(outcome.ids.b);
  row.comparison = outcome.comparison;
  row.explanation = *outcome.explanation;
  row.order = outcome.order;
  row.fails = outcome.fails;
  row.allowed = outcome.allowed;
  row.unresolved = !outcome.unresolved->empty();
  const auto a = pass.a->Get(outcome.ids.a);
  const auto b = pass.b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok()) return row;
  row.name = NameOf(*b);
  if (const std::string name = NameOf(*a); name != row.name) row.name_a = name;
  row.key = b->key;
  row.kind = b->kind;
  row.cls = b->cls;
  row.dtype_a = RecordedDType(*a).view();
  row.dtype_b = RecordedDType(*b).view();
  row.shape_a = ElementShape(*a);
  row.shape_b = ElementShape(*b);
  row.kept_a = KeptText(*a);
  row.kept_b = KeptText(*b);
  row.bound = BoundText(outcome);
  row.remedy = RemedyOf(pass, outcome, *a, *b);
  if (!row.remedy.empty()) row.comparison.notes.push_back(row.remedy);
  return row;
}

}  // namespace tdump::compare
