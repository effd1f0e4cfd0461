#include "compare/row.h"

#include <fmt/format.h>

#include "compare/bound_text.h"
#include "compare/dequantised.h"
#include "compare/mean_hint.h"

namespace tdump::compare {
namespace {

std::string KeptText(const io::Record& record) {
  std::string text = PartsToString(record.parts_kept);
  if (record.reason != SkipReason::kNone) text += fmt::format(" ({})", ToString(record.reason));
  return text;
}

}  // namespace

Row MakeRow(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  Row row;
  row.step_a = pair.a.step;
  row.step_b = pair.b.step;
  row.rank_a = pair.a.rank == kAllRanks ? outcome.rank_a : pair.a.captured_rank();
  row.rank_b = pair.b.rank == kAllRanks ? outcome.rank_b : pair.b.rank;
  row.holder = pair.b.rank == kAllRanks ? pass.b->RankAt(outcome.ids.b, {}) : pair.b.rank;
  row.put_together = pair.b.rank == kAllRanks;
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
  if (const auto remedy = RemedyOf(pass, outcome, *a, *b)) {
    row.remedy = remedy->Text();
    row.comparison.notes.push_back(row.remedy);
  }
  return row;
}

}  // namespace tdump::compare
