#include "compare/weight_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_map>

#include "compare/dequantised.h"
#include "compare/element.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kUnknownTerms = 4096;

double ElementsIn(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
}

struct InputError {
  double power = 0, rms = 0;  // relative to rms
  bool fails = false;
};
using InputErrors = std::unordered_map<uint64_t, InputError>;  // by path

bool IsOutsideBuffer(const Outcome& outcome) {
  const Comparison& comparison = outcome.comparison;
  const bool by_rule = outcome.rule != nullptr && outcome.rule->expect;
  return outcome.role == Role::kState && !outcome.of_optimizer && outcome.is_compared() &&
         !by_rule && comparison.evidence == Evidence::kPayload &&
         comparison.verdict.tolerance == Answer::kDiffers &&
         comparison.verdict.special != Answer::kDiffers && outcome.local().level.power > 0;
}

void AddInputs(TensorSizes* sizes, const PassDiff& pass, InputErrors* errors) {
  for (uint32_t i = 0; i < pass.outcomes.size(); ++i) {
    const Outcome& input = pass.outcomes[i];
    const auto error = errors->find(input.path);
    if (input.role != Role::kInput || error == errors->end()) continue;
    const Verdict& verdict = input.comparison.verdict;
    if (verdict.bitwise == Answer::kSame) continue;
    const auto size = sizes->Of(i);
    if (!input.is_compared() || verdict.tolerance != Answer::kSame || !size) {
      error->second.fails = true;
      continue;
    }
    error->second.power = std::max(error->second.power, LevelOf(input.comparison.metrics).power);
    error->second.rms = std::max(error->second.rms, size->rms_a);
  }
}

bool IsExplained(const Metrics& m, const ErrorLevel& local, const InputError& input) {
  const double rms = std::min(m.rms_a, m.rms_b);
  const double carried = std::sqrt(input.power) * std::max(2 * rms, input.rms);
  return m.rmse <= std::sqrt(local.power) * rms + carried &&
         m.max_abs <= local.peak * rms + kBoundFactor * carried;
}

}  // namespace

void TightenCast(const DType& a, const DType& b, LocalBound* local) {
  const NumberFormat left = FormatOf(a), right = FormatOf(b);
  if (a == b || left.bits < 16 || right.bits < 16) return;
  const double unit = std::max(left.UnitRoundoff(), right.UnitRoundoff());
  if (unit == 0) return;
  local->bound.relative = 2 * unit;
  local->bound.scale = local->bound.relative * 0x1p-8;
  local->bound.text = fmt::format("{:.2g} of |x|: a cast rounds once", local->bound.relative);
}

bool IsCoarse(const DType& dtype) { return FormatOf(dtype).UnitRoundoff() >= 0x1p-11; }

bool IsHeldToGain(const io::Record& a, const io::Record& b) {
  return RecordedDType(a) == RecordedDType(b) && IsCoarse(RecordedDType(b));
}

void HoldGain(double explained, Comparison* comparison) {
  constexpr double kSpread = 3, kAlike = 64;  // as of outputs (compare/explain.cc)
  const Metrics m = comparison->metrics;
  if (comparison->verdict.tolerance != Answer::kSame || !m.cosine || m.rms_a == 0) return;
  const ErrorLevel error = LevelOf(m);
  const double counted = static_cast<double>(m.elements) / kAlike;
  if (counted < 1) return;  // of few elements noise has a factor too
  const double most = explained + kSpread * std::sqrt(error.noise() / counted);
  if (error.gain <= most) return;
  comparison->verdict.tolerance = Answer::kDiffers;
  comparison->notes.push_back(fmt::format("B is {:.4g} times A, within {:.2g} explained",
                                          *m.cosine * m.rms_b / m.rms_a, most));
}

uint64_t BufferTerms(std::span<const ArgumentMeta> arguments, const io::Record& buffer) {
  double most = 0;
  for (const ArgumentMeta& argument : arguments)
    if (argument.role == Role::kInput) most = std::max(most, ElementsIn(argument.sizes));
  if (most == 0) return 0;
  return static_cast<uint64_t>(std::max(1.0, most / std::max(1.0, ElementsIn(buffer.sizes))));
}

void AllowBuffers(const AskBefore& before,
                  const std::function<uint64_t(const io::Record& buffer)>& terms_of,
                  TensorSizes* sizes, PassDiff* pass) {
  InputErrors errors;
  for (const Outcome& outcome : pass->outcomes)
    if (IsOutsideBuffer(outcome)) errors[outcome.path] = {};
  if (errors.empty() || !before || !before()) return;
  AddInputs(sizes, *pass, &errors);
  for (Outcome& outcome : pass->outcomes) {
    if (!IsOutsideBuffer(outcome)) continue;
    const auto a = pass->a->Get(outcome.ids.a), b = pass->b->Get(outcome.ids.b);
    const InputError& input = errors[outcome.path];
    if (!a.ok() || !b.ok() || input.fails) continue;
    const uint64_t terms = terms_of(*b);
    const Reduction sum = {.kind = OperatorClass::kReduction,
                           .length = terms > 0 ? terms : kUnknownTerms};
    const LocalBound local =
        LocalBoundOf({.a = RecordedDType(*a), .b = RecordedDType(*b), .reduction = sum});
    if (!IsExplained(outcome.comparison.metrics, local.level, input)) continue;
    outcome.comparison.verdict.tolerance = Answer::kSame;
    outcome.comparison.notes.push_back(
        "within what a sum over its module's input explains, and the error of that");
    outcome.comparison.notes.MoveTo(pass->spill.get());
  }
}

}  // namespace tdump::compare
