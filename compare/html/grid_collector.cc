#include "compare/html/grid_collector.h"

#include <algorithm>
#include <utility>

#include "core/key.h"

namespace tdump::compare::html {
namespace {

bool WasRead(const Outcome& outcome) {
  return outcome.error->empty() && outcome.comparison.evidence == Evidence::kPayload &&
         outcome.comparison.metrics->numeric;
}

}  // namespace

void GridCollector::AddPass(const PassDiff& pass, const PassPair& pair) {
  AddFirst(pass, pair, true);
  AddFirst(pass, pair, false);
  for (const Outcome& outcome : pass.outcomes) {
    if (grids_.size() >= kMostGrids) return;
    if (!outcome.fails || !WasRead(outcome)) continue;
    const auto record = pass.b->Get(outcome.ids.b);
    if (!record.ok() || !keys_.insert(ToText(record->key)).second) continue;
    Measure(pass, pair, outcome, &grids_);
  }
}

void GridCollector::AddFirst(const PassDiff& pass, const PassPair& pair, bool fails) {
  bool& any = fails ? failed_ : differed_;
  uint64_t& earliest = fails ? failing_step_ : differing_step_;
  if ((any && pair.b.step != earliest) || firsts_.size() >= kMostFirsts) return;
  const auto first =
      std::find_if(pass.outcomes.begin(), pass.outcomes.end(), [&](const Outcome& outcome) {
        return !outcome.is_weight() && (fails ? outcome.fails : outcome.bits_differ);
      });
  if (first == pass.outcomes.end()) return;
  any = true;
  earliest = pair.b.step;
  if (WasRead(*first)) Measure(pass, pair, *first, &firsts_);
}

// What cannot be read again has no picture.
void GridCollector::Measure(const PassDiff& pass, const PassPair& pair, const Outcome& outcome,
                            std::vector<PlacedGrid>* grids) {
  const auto a = pass.a->Get(outcome.ids.a), b = pass.b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok() || ElementShape(*a) != ElementShape(*b)) return;
  if (outcome.comparison.metrics->elements > kMostElements - elements_) return;
  auto read_a = pass.a->Open(*a), read_b = pass.b->Open(*b);
  if (!read_a.ok() || !read_b.ok()) return;
  auto grid = MeasureErrorGrid({&*a, std::move(*read_a)}, {&*b, std::move(*read_b)});
  if (!grid.ok()) return;
  elements_ += outcome.comparison.metrics->elements;
  const int32_t rank = pair.b.rank == kAllRanks ? outcome.rank_b : pair.b.rank;
  grids->push_back({ToText(b->key), pair.b.step, rank, std::move(*grid)});
}

std::vector<const PlacedGrid*> GridCollector::OnePerKey() const {
  std::vector<const PlacedGrid*> all;
  std::set<std::string_view> keys;
  for (const std::vector<PlacedGrid>* list : {&firsts_, &grids_}) {
    for (const PlacedGrid& placed : *list) {
      if (keys.insert(placed.key).second) all.push_back(&placed);
    }
  }
  return all;
}

const PlacedGrid* GridCollector::Find(const std::string& key, uint64_t step, int32_t rank) const {
  for (const std::vector<PlacedGrid>* list : {&firsts_, &grids_}) {
    for (const PlacedGrid& placed : *list) {
      if (placed.key == key && placed.step == step && placed.rank == rank) return &placed;
    }
  }
  return nullptr;
}

}  // namespace tdump::compare::html
