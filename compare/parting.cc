#include "compare/parting.h"

#include <algorithm>

#include "compare/element.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

bool IsOtherTokens(const PassDiff& pass, const Outcome& outcome) {
  if (!outcome.root_input || !outcome.bits_differ || outcome.allowed || !outcome.error->empty())
    return false;
  const auto record = pass.b->Get(outcome.ids.b);
  if (!record.ok()) return false;
  const NumberFormat format = FormatOf(record->dtype);
  return format.kind == NumberKind::kInteger && !format.is_bool;
}

}  // namespace

bool GivenOtherTokens(const PassDiff& pass) {
  return std::any_of(pass.outcomes.begin(), pass.outcomes.end(),
                     [&](const Outcome& outcome) { return IsOtherTokens(pass, outcome); });
}

bool TellsOfOtherWork(const PassDiff& pass, const Outcome& outcome) {
  if (outcome.root_input || outcome.role == Role::kParam) return true;
  if (outcome.role != Role::kState) return false;
  const auto record = pass.b->Get(outcome.ids.b);
  return record.ok() && !IsOfOptimizer(record->key);
}

}  // namespace tdump::compare
