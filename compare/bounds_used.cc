#include "compare/bounds_used.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compare/bound_text.h"
#include "compare/bounds.h"
#include "compare/job_text.h"
#include "compare/report_lines.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostTexts = 3;

}  // namespace

void BoundsUsed::Add(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  const Comparison& comparison = outcome.comparison;
  if (comparison.evidence != Evidence::kPayload || comparison.verdict.EqualInValue()) return;
  const bool by_rule = outcome.rule != nullptr && outcome.rule->expect;
  const std::optional<Explanation>& explanation = outcome.explanation;
  const double bound_db = explanation ? DbOf(explanation->bound.power) : 0;
  if (by_rule || !explanation || !std::isfinite(bound_db)) {
    ++other_pairs;
    if (const std::string text = BoundText(outcome); !text.empty() && others.size() < kMostTexts)
      others.insert(text);
    return;
  }
  ++pairs;
  least_db = std::min(least_db, bound_db);
  most_db = std::max(most_db, bound_db);
  const double error_db = DbOf(LevelOf(comparison.metrics).power);
  if (!std::isfinite(error_db)) return;
  if (closest && error_db - bound_db >= closest->error_db - closest->bound_db) return;
  closest = {MakeRow(pass, pair, outcome), error_db, bound_db};
}

std::string BoundsUsedText(const BoundsUsed& used) {
  std::string text;
  if (used.pairs > 0)
    text = fmt::format("{} of other bits, within what is explained: {:.1f} to {:.1f} dB",
                       Plural(used.pairs, "pair"), used.least_db, used.most_db);
  if (used.closest) {
    const BoundsUsed::Closest& closest = *used.closest;
    text +=
        fmt::format("\nclosest: {}, step {}, {}, {}: {:.1f} dB, {:.1f} explained",
                    RankText(closest.row.rank_b), closest.row.step_b, ShownName(closest.row.name),
                    ObservationText(closest.row), closest.error_db, closest.bound_db);
  }
  if (used.other_pairs > 0)
    text += fmt::format("{}{} of other bits, within {}", text.empty() ? "" : "\n",
                        Plural(used.other_pairs, "pair"),
                        Printable(fmt::format("{}", fmt::join(used.others, "; or "))));
  return text;
}

}  // namespace tdump::compare
