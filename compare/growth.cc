#include "compare/growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compare/bounds.h"
#include "compare/pass_diff.h"

namespace tdump::compare {
namespace {

float Db(double power) { return static_cast<float>(DbOf(power)); }

}  // namespace

Growth GrowthOf(const PassDiff& pass, const PassPair& pair) {
  Growth growth;
  growth.step_a = pair.a.step;
  growth.step = pair.b.step;
  growth.rank_a = pair.a.captured_rank();
  growth.rank = pair.b.rank;
  std::vector<uint32_t> outputs;
  bool any = false;
  for (uint32_t i = 0; i < pass.outcomes.size(); ++i) {
    const Outcome& outcome = pass.outcomes[i];
    const bool equal = outcome.comparison.verdict.bitwise == Answer::kSame;
    if (!outcome.is_output() || !outcome.error->empty() || !(equal || outcome.explanation.is_set()))
      continue;
    any = any || !equal;
    outputs.push_back(i);
  }
  if (!any) return growth;
  std::sort(outputs.begin(), outputs.end(), [&](uint32_t x, uint32_t y) {
    const uint64_t left = pass.outcomes[x].order, right = pass.outcomes[y].order;
    return left != right ? left < right : x < y;
  });
  auto texts = std::make_shared<std::set<std::string, std::less<>>>();
  growth.points.reserve(outputs.size());
  for (const uint32_t i : outputs) {
    const Outcome* const outcome = &pass.outcomes[i];
    const auto record = pass.b->Get(outcome->ids.b);
    if (!record.ok()) continue;
    GrowthPoint point;
    point.name = *texts->insert(NameOf(*record)).first;
    point.arg = *texts->insert(record->key.arg).first;
    point.role = outcome->role;
    point.fails = outcome->fails && !outcome->allowed;
    point.out_db = Db(0);
    if (const std::optional<Explanation>& explanation = outcome->explanation; explanation) {
      const Explanation& e = *explanation;
      point.out_db = Db(LevelOf(outcome->comparison.metrics).power);
      point.bound_db = Db(e.bound.power);
      if (e.in_known) point.in_db = Db(e.in.power);
      point.follows = point.fails && e.follows;
    }
    growth.points.push_back(point);
  }
  growth.texts = std::move(texts);
  return growth;
}

std::string GrowthText(const Growth& growth, size_t most) {
  std::vector<const GrowthPoint*> differing;
  for (const GrowthPoint& point : growth.points) {
    if (point.role == Role::kOutput && std::isfinite(point.out_db)) differing.push_back(&point);
  }
  if (differing.empty() || most == 0) return "";
  std::set<size_t> shown;
  const size_t last = differing.size() - 1;
  for (size_t i = 0; i < most; ++i) shown.insert(most == 1 ? 0 : i * last / (most - 1));
  const auto fails = [](const GrowthPoint* point) { return point->fails; };
  const auto origin = std::find_if(differing.begin(), differing.end(), fails);
  if (origin != differing.end()) shown.insert(static_cast<size_t>(origin - differing.begin()));
  std::string text;
  for (const size_t i : shown)
    text += fmt::format("{}{} {:.1f}", text.empty() ? "" : " | ", differing[i]->name,
                        differing[i]->out_db);
  return text;
}

}  // namespace tdump::compare
