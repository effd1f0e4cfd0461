#include "compare/worst_elements.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compare/origin_finder.h"
#include "compare/pair_side.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;

struct Found {
  double error = 0;
  uint64_t element = 0;

  // The worse one is before the other.
  friend bool operator<(const Found& x, const Found& y) {
    return x.error != y.error ? x.error > y.error : x.element < y.element;
  }
};

class WorstFinder {
 public:
  WorstFinder(const Operand& a, const Operand& b, size_t most)
      : once_(StoredOnceByBoth(*a.record, *b.record)),
        shape_(ElementShape(*a.record)),
        left_(*a.record, a.read, once_),
        right_(*b.record, b.read, once_),
        most_(most) {}

  Result<std::vector<Worst>> Run() {
    if (left_.format().kind == NumberKind::kOpaque || right_.format().kind == NumberKind::kOpaque)
      return Unsupported("values of this dtype are bits, not numbers");
    const uint64_t packed = std::max(left_.elements_per_unit(), right_.elements_per_unit());
    const uint64_t step = std::max<uint64_t>(1, kTileElements / packed) * packed;
    for (uint64_t first = 0; first < left_.elements() && most_ > 0; first += step) {
      const uint64_t count = std::min(step, left_.elements() - first);
      TDUMP_RETURN_IF_ERROR(left_.Load(first, count));
      TDUMP_RETURN_IF_ERROR(right_.Load(first, count));
      AddTile(first, count);
    }
    std::sort_heap(found_.begin(), found_.end());
    std::vector<Worst> worst;
    for (const Found& found : found_) {
      Worst& element = worst.emplace_back();
      element.position = PositionOf(found.element, shape_, once_);
      TDUMP_ASSIGN_OR_RETURN(element.a, left_.Text(found.element));
      TDUMP_ASSIGN_OR_RETURN(element.b, right_.Text(found.element));
    }
    return worst;
  }

 private:
  void AddTile(uint64_t first, uint64_t count) {
    const bool complex =
        left_.format().kind == NumberKind::kComplex || right_.format().kind == NumberKind::kComplex;
    const auto a = complex ? left_.Complex(0, count) : left_.Floats(0, count);
    const auto b = complex ? right_.Complex(0, count) : right_.Floats(0, count);
    for (size_t i = 0; i < count; ++i) {
      const double error =
          complex ? std::hypot(ErrorOf(a[2 * i], b[2 * i]), ErrorOf(a[2 * i + 1], b[2 * i + 1]))
                  : ErrorOf(a[i], b[i]);
      if (error > 0) Add({error, first + i});
    }
  }

  // A heap with the least bad one in front.
  void Add(const Found& found) {
    if (found_.size() == most_) {
      if (!(found < found_.front())) return;
      std::pop_heap(found_.begin(), found_.end());
      found_.pop_back();
    }
    found_.push_back(found);
    std::push_heap(found_.begin(), found_.end());
  }

  const std::vector<bool> once_;
  const std::vector<uint64_t> shape_;
  PairSide left_, right_;
  const size_t most_;
  std::vector<Found> found_;
};

}  // namespace

Result<std::vector<Worst>> WorstElements(const Operand& a, const Operand& b, size_t most) {
  return WorstFinder(a, b, most).Run();
}

// The origin is the first difference of one of these passes, beyond its bound, in bits, or beyond
// what weights that parted make.
void WorstCollector::AddPass(const PassDiff& pass, const PassPair& pair) {
  if (most_ == 0) return;
  const Outcome *beyond = nullptr, *bits = nullptr, *drift = nullptr;
  const auto keep = [](const Outcome& outcome, const Outcome** first) {
    if (*first == nullptr || outcome.order < (*first)->order) *first = &outcome;
  };
  for (const Outcome& outcome : pass.outcomes) {
    const bool is_event = !outcome.is_weight() || outcome.of_optimizer;
    if (!is_event || outcome.allowed || !outcome.unresolved->empty()) continue;
    if (outcome.bits_differ) keep(outcome, &bits);
    if (outcome.fails) keep(outcome, &beyond);
    if ((!drift_step_ || pair.b.step == *drift_step_) && IsBeyondDrift(pass, outcome))
      keep(outcome, &drift);
  }
  const auto take = [&](const Outcome* outcome, std::optional<uint64_t>* step) {
    if (outcome == nullptr || (*step && pair.b.step != **step)) return;
    *step = pair.b.step;
    Take(pass, pair, *outcome);
  };
  take(beyond, &failing_step_);
  if (bits != beyond) take(bits, &differing_step_);
  if (drift != beyond && drift != bits) take(drift, &drift_step_);
}

// What cannot be read again has none.
void WorstCollector::Take(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  const bool was_read = outcome.error->empty() && outcome.comparison.evidence == Evidence::kPayload;
  if (!was_read || placed_.size() == kMostPairs ||
      outcome.comparison.metrics->elements > kMostElements - elements_)
    return;
  const auto a = pass.a->Get(outcome.ids.a), b = pass.b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok() || ElementShape(*a) != ElementShape(*b)) return;
  auto read_a = pass.a->Open(*a), read_b = pass.b->Open(*b);
  if (!read_a.ok() || !read_b.ok()) return;
  auto elements = WorstElements({&*a, std::move(*read_a)}, {&*b, std::move(*read_b)}, most_);
  if (!elements.ok()) return;
  elements_ += outcome.comparison.metrics->elements;
  const int32_t rank = pair.b.rank == kAllRanks ? outcome.rank_b : pair.b.rank;
  placed_.push_back({ToText(b->key), pair.b.step, rank, std::move(*elements)});
}

void WorstCollector::FillIn(DiffReport* report) const {
  FillIn(&report->origin);
  FillIn(&report->first_bits);
  FillIn(&report->beyond_drift);
}

void WorstCollector::FillIn(std::optional<Origin>* origin) const {
  if (!*origin || !(*origin)->row) return;
  Row& row = *(*origin)->row;
  const std::string key = ToText(row.key);
  for (const Placed& placed : placed_) {
    if (placed.key == key && placed.step == row.step_b && placed.rank == row.rank_b)
      row.worst_elements = placed.elements;
  }
}

}  // namespace tdump::compare
