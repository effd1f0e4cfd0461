#include "compare/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/element.h"

namespace tdump::compare {
namespace {

constexpr double kFloat32Roundoff = 0x1p-24, kFloat64Roundoff = 0x1p-53;
// rms of r / m, r even in [-1, 1], m in [1, 2) with an even logarithm: sqrt(1/3 * 3 / (8 ln 2)).
constexpr double kRmsOfRounding = 0.42466;
constexpr double kPowerFactor = 4;

double Square(double x) { return x * x; }

// `unit`: roundoff of the result.
double SumRoundoffOf(double unit) {
  return unit <= kFloat64Roundoff ? kFloat64Roundoff : kFloat32Roundoff;
}

}  // namespace

double DbOf(double power) { return -10 * std::log10(power); }

ErrorLevel LevelOf(const Metrics& m) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (m.max_abs == 0) return {};
  const double rms = std::min(m.rms_a, m.rms_b);
  ErrorLevel level;
  level.power = m.rms_a > 0 ? Square(m.rmse / m.rms_a) : kInfinite;
  level.peak = rms > 0 ? m.max_abs / rms : kInfinite;
  level.gain = m.cosine && m.rms_a > 0 ? std::abs(*m.cosine * m.rms_b / m.rms_a - 1) : kInfinite;
  level.common = m.channels > 0 && m.rms_a > 0 ? Square(m.rms_in_common / m.rms_a) : level.power;
  return level;
}

double SumRoundoff(const DType& a, const DType& b) {
  return SumRoundoffOf(std::max(FormatOf(a).UnitRoundoff(), FormatOf(b).UnitRoundoff()));
}

LocalBound LocalBoundOf(const BoundFacts& facts) {
  const NumberFormat left = FormatOf(facts.a), right = FormatOf(facts.b);
  double unit = std::max(left.UnitRoundoff(), right.UnitRoundoff());
  LocalBound local;
  const bool scales = left.specials == Specials::kScale && right.specials == Specials::kScale;
  if (unit == 0 || (scales && facts.compute == nullptr)) {
    local.bound.text = "exact";
    return local;
  }
  double operands = 0;
  if (facts.compute != nullptr) {
    unit = std::max(unit, facts.compute->others);
    const OperatorClass kind = facts.reduction.kind;
    if (kind == OperatorClass::kProduct || kind == OperatorClass::kUnknown)
      operands = facts.compute->operands;
  }
  const double sum = SumRoundoffOf(unit);
  const uint64_t terms = std::max<uint64_t>(1, facts.reduction.length);
  const double length = static_cast<double>(terms);
  // In the type that sums are made in, each rounding is one of K anyway.
  const uint64_t stored = unit > sum ? std::max<uint64_t>(1, facts.roundings) : 1;
  const auto roundings = static_cast<double>(stored);
  const double relative = kBoundFactor * (std::sqrt(roundings) * unit + std::sqrt(length) * sum +
                                          std::sqrt(2.0) * operands);
  local.bound.relative = local.bound.scale = relative;
  const std::string times = stored > 1 ? fmt::format("sqrt({}) * ", stored) : "";
  local.bound.text = fmt::format("{:.2g} of |x| and of rms: {:g} * ({}{:.2g} + sqrt({}) * {:.2g}",
                                 relative, kBoundFactor, times, unit, terms, sum);
  if (operands > 0)
    local.bound.text += fmt::format(" + sqrt(2) * {:.2g} of {}", operands, facts.compute->name);
  local.bound.text += ")";
  local.level.power = kPowerFactor * (2 * roundings * Square(kRmsOfRounding * unit) +
                                      length * Square(sum) + 2 * Square(kRmsOfRounding * operands));
  local.level.peak = relative;
  local.level.gain = unit + std::sqrt(length) * sum + operands;
  return local;
}

}  // namespace tdump::compare
