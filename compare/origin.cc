#include "compare/origin.h"

#include <algorithm>
#include <string_view>

namespace tdump::compare {
namespace {

FirstDifference Describe(const std::vector<Observed>& observed, size_t at, bool bits) {
  const Observed& here = observed[at];
  FirstDifference first;
  first.outcome = here.outcome;
  first.position = at;
  first.kind = here.output       ? OriginKind::kOperator
               : here.root_input ? OriginKind::kInputs
                                 : OriginKind::kInterval;
  const auto agrees = [&](const Observed& other) {
    return bits ? !other.bits_differ : !other.fails;
  };
  for (const Observed& other : observed) {
    if (here.output && !other.output && other.call == here.call && agrees(other))
      ++first.inputs_recorded;
  }
  for (size_t i = at; i-- > 0;) {
    if (!observed[i].output || !agrees(observed[i])) continue;
    first.last_agreeing = observed[i].outcome;
    break;
  }
  return first;
}

// Whether x is the earlier, or likelier, origin of the two.
bool Before(const Candidate& x, const Candidate& y) {
  if (x.step != y.step) return x.step < y.step;
  if (x.turn && y.turn && *x.turn != *y.turn) return *x.turn < *y.turn;
  if (x.structure == y.structure) {
    if (x.first.position != y.first.position) return x.first.position < y.first.position;
    if (x.own_parameter != y.own_parameter) return x.own_parameter;
  } else {
    if (x.own_parameter != y.own_parameter) return x.own_parameter;
    if (x.first.certain() != y.first.certain()) return x.first.certain();
  }
  return x.rank < y.rank;
}

}  // namespace

std::string_view ToString(OriginKind kind) {
  switch (kind) {
    case OriginKind::kOperator:
      return "operator";
    case OriginKind::kInterval:
      return "interval";
    case OriginKind::kInputs:
      return "inputs";
    case OriginKind::kParameter:
      return "parameter";
    case OriginKind::kMissing:
      return "missing";
  }
  return "unknown";
}

PassFinding FindFirst(std::vector<Observed>* observed) {
  const auto before = [](const Observed& x, const Observed& y) { return x.order < y.order; };
  // They mostly are; a stable sort takes room.
  if (!std::is_sorted(observed->begin(), observed->end(), before))
    std::stable_sort(observed->begin(), observed->end(), before);
  PassFinding finding;
  for (size_t i = 0; i < observed->size(); ++i) {
    const Observed& here = (*observed)[i];
    if (here.bits_differ && !finding.bits && !finding.beyond_bound)
      finding.bits = Describe(*observed, i, true);
    if (here.fails && !finding.beyond_bound) finding.beyond_bound = Describe(*observed, i, false);
    if (here.beyond_drift) {
      finding.beyond_drift = Describe(*observed, i, false);
      break;
    }
  }
  return finding;
}

size_t ChooseOrigin(std::span<const Candidate> candidates) {
  size_t best = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (Before(candidates[i], candidates[best])) best = i;
  }
  return best;
}

bool PathWithin(std::string_view path, std::string_view module) {
  if (module == "." || path == module) return true;
  return path.size() > module.size() && path.starts_with(module) && path[module.size()] == '.';
}

}  // namespace tdump::compare
