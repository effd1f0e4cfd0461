#include "compare/precision_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compare/element.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr std::string_view kLooks = "error looks like rounding; ";
constexpr double kNearlyAll = 0.9;     // of the pairs
constexpr double kFarBelow = 40;       // one 40th of the error power that is explained
constexpr double kMostCommon = 0.5;    // of the error power
constexpr double kLeastMedian = 0.25;  // of the root mean square
constexpr double kFarBeyond = 10;      // times the error power of those that are explained

// The most that elements may be off on average, relative to themselves: normal ones are, by noise
// of that power, by some s (0.8 + 0.64 ln(1 / s)). The power alone is that of a few large ones
// where there are some.
double MostRelative(double power) {
  const double s = std::sqrt(power);
  return s < 1 ? std::min(0.5, 1.5 * s * (1 - std::log(s))) : 0.5;
}

// Whether rows differ by the same numbers, as by a bias that one side lacks. Of rounding errors
// that is what the mean of the inputs makes of the roundings of a weight: a third, behind a ReLU.
bool IsSameInAllRows(const Metrics& m, const ErrorLevel& error) {
  return m.channels > 0 && error.common_share() > kMostCommon;
}

// Whether most of the elements that differ are off by far less, relative to themselves, than the
// power says: then it is that of a few, as of one channel. Of rounding errors the median is about
// the root mean square.
bool IsOfFewElements(const Metrics& m, const ErrorLevel& error, double roundoff) {
  const uint64_t differing = std::accumulate(m.ulp.begin() + 1, m.ulp.end(), uint64_t{0});
  if (differing == 0) return false;
  size_t bin = 1;  // of the median
  for (uint64_t seen = m.ulp[bin]; 2 * seen < differing; seen += m.ulp[bin]) ++bin;
  const double most = std::ldexp(2 * roundoff, static_cast<int>(bin) - 1);
  const double share = static_cast<double>(differing) / static_cast<double>(m.elements);
  return most < kLeastMedian * std::sqrt(error.power / share);
}

}  // namespace

std::string_view PrecisionLike(const Outcome& outcome, const DType& a, const DType& b,
                               bool widened) {
  const Metrics& m = outcome.comparison.metrics;
  const ErrorLevel error = LevelOf(m);
  const bool product = outcome.reduction().kind == OperatorClass::kProduct ||
                       outcome.reduction().kind == OperatorClass::kUnknown;
  if (!product || m.elements < 64 || (!widened && m.bits_equal > m.elements / 4) ||
      error.gain > 0.3 * std::sqrt(error.power) || IsSameInAllRows(m, error) ||
      IsOfFewElements(m, error, FormatOf(a).UnitRoundoff()))
    return "";
  const bool coarse = FormatOf(a).UnitRoundoff() >= 0x1p-8;
  for (const std::string_view name : kLowerPrecisions) {
    const auto precision = ParsePrecision(name);
    const LocalBound local =
        LocalBoundOf({.a = a, .b = b, .reduction = outcome.reduction(), .compute = &*precision});
    // A few large numbers may make the power of a finer dtype small; of results that were widened
    // few elements may differ.
    const double size = coarse ? error.power : std::max(error.power, m.mean_rel * m.mean_rel);
    const bool far_below = (coarse || !widened) && size * kFarBelow < local.level.power;
    if (error.power <= local.level.power && m.mean_rel <= MostRelative(local.level.power))
      return far_below ? "" : name;
  }
  return "";
}

std::string PrecisionNote(std::string_view precision) {
  return fmt::format("{}if B computed so, --compute {} judges by it", kLooks, precision);
}

bool IsPrecisionNote(std::string_view note) { return note.starts_with(kLooks); }

void PrecisionHints::Add(const Outcome& outcome) {
  const std::optional<Explanation>& explanation = outcome.explanation;
  if (!outcome.fails || outcome.allowed || (outcome.is_weight() && !outcome.of_optimizer)) return;
  if (explanation && (explanation->within || explanation->follows)) return;
  ++failing_;
  const Verdict& verdict = outcome.comparison.verdict;
  beyond_any_ |= (verdict.special == Answer::kDiffers && !verdict.special_allowed) ||
                 (verdict.shape == Answer::kDiffers && !verdict.shape_allowed);
  const double power = LevelOf(outcome.comparison.metrics).power;
  for (const std::string& note : outcome.comparison.notes.Copy()) {
    if (!IsPrecisionNote(note)) continue;
    for (size_t i = 0; i < kLowerPrecisions.size(); ++i) {
      if (note != PrecisionNote(kLowerPrecisions[i])) continue;
      ++alike_[i].pairs;
      alike_[i].most = std::max(alike_[i].most, power);
    }
    return;
  }
  if (outcome.comparison.evidence == Evidence::kPayload) farthest_ = std::max(farthest_, power);
}

std::string PrecisionHints::Note() const {
  if (beyond_any_) return "";
  Alike alike;
  for (size_t i = 0; i < kLowerPrecisions.size(); ++i) {
    alike.pairs += alike_[i].pairs;
    alike.most = std::max(alike.most, alike_[i].most);
    if (alike.pairs < kNearlyAll * static_cast<double>(failing_) || alike.pairs == 0) continue;
    double left = farthest_;
    for (size_t j = i + 1; j < kLowerPrecisions.size(); ++j) left = std::max(left, alike_[j].most);
    if (left > kFarBeyond * alike.most) continue;
    return fmt::format("{} ({} of the {} that do not follow from another)",
                       PrecisionNote(kLowerPrecisions[i]), alike.pairs, Plural(failing_, "pair"));
  }
  return "";
}

}  // namespace tdump::compare
