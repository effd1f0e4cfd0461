#include "compare/bound_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/bounds.h"
#include "compare/rules.h"

namespace tdump::compare {
namespace {

std::string DbText(double power) {
  return power == 0 ? "equal" : fmt::format("{:.1f} dB", DbOf(power));
}

// With as many digits as show that it is not 1.
std::string FactorText(double factor) {
  const std::string text = fmt::format("{:.4g}", factor);
  const double off = std::abs(factor - 1);
  constexpr int kMostDigits = 15;
  if (text != "1" || off == 0) return text;
  return fmt::format("{:.{}f}", factor,
                     std::min(kMostDigits, 1 + static_cast<int>(std::ceil(-std::log10(off)))));
}

}  // namespace

std::string ExplainedText(const Comparison& comparison,
                          const std::optional<Explanation>& explained) {
  if (!explained) return "";
  const ErrorLevel error = LevelOf(comparison.metrics);
  const ErrorLevel& bound = explained->bound;
  std::string text = fmt::format("{}, {} explained", DbText(error.power),
                                 bound.power == 0 ? std::string("nothing") : DbText(bound.power));
  const Metrics& m = comparison.metrics;
  if (error.gain > bound.gain && m.cosine && m.rms_a > 0)
    text += fmt::format("; B is {} times A, within {:.2g} explained",
                        FactorText(*m.cosine * m.rms_b / m.rms_a), bound.gain);
  return text;
}

std::string BoundText(const Outcome& outcome) {
  if (outcome.rule != nullptr && outcome.rule->expect) return RuleText(*outcome.rule);
  std::string text = outcome.local().bound.text;
  const std::optional<Explanation>& explanation = outcome.explanation;
  if (!explanation) return text;
  const Explanation& e = *explanation;
  if (e.sum.terms > 0)
    text += fmt::format("; a sum of {} terms of rms {:.2g}, off by {:.2g} if they cancel",
                        e.sum.terms, e.sum.rms, e.sum.error);
  if (e.in.power > 0)
    text += fmt::format("; {} at {:.1f} dB", e.in_known ? "inputs" : "what was seen before",
                        DbOf(e.in.power));
  if (std::isfinite(DbOf(e.bound.power)))
    text += fmt::format("{} explain {:.1f} dB, a gain within {:.2g}", e.in.power > 0 ? "" : ";",
                        DbOf(e.bound.power), e.bound.gain);
  return text;
}

}  // namespace tdump::compare
