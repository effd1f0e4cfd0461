#include "compare/infer_both.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compare/layout_evidence.h"
#include "compare/place_by_place.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostWholes = 64;  // shapes that both sides may have
constexpr size_t kMostPairs = 512;  // of layouts, of one tensor
// Only that it agrees speaks for a sum.
constexpr size_t kDoubtsOfSum = 4;

struct Measured {
  LayoutPair layouts;
  double error = 0;  // NaN: nothing to measure
  size_t doubts = 0;
  bool holds = false;

  bool agrees() const { return error <= kAgree; }
  // Of pairs that do not agree: which to take. Without data it is as likely as one that agrees.
  bool IsBetterThan(const Measured& other) const {
    const auto order = [](const Measured& of) {
      return std::tuple(of.doubts, std::isnan(of.error) ? kAgree : of.error);
    };
    return order(*this) < order(other);
  }
};

ResolvedLayouts Resolved(Measured found) {
  const auto inferred = [&](const LayoutCandidate& layout) {
    return InferredLayout{layout, found.agrees(), found.error};
  };
  ResolvedLayouts both;
  both.how_a = InferredHow(inferred(found.layouts.a));
  both.how_b = InferredHow(inferred(found.layouts.b));
  both.proof_a = both.proof_b = ProofOf(inferred(found.layouts.a));
  both.a = std::move(found.layouts.a);
  both.b = std::move(found.layouts.b);
  return both;
}

// What an axis does: which dimension it splits, or these.
constexpr int kSums = -1, kCopies = -2;
int UseOf(const LayoutCandidate& layout, const std::string& axis) {
  const Dims& dims = layout.dims;
  for (size_t i = 0; i < dims.dims.size(); ++i) {
    for (const NamedDim& part : dims.dims[i].parts) {
      for (const AxisUse& use : part.axes) {
        if (use.axis == axis) return static_cast<int>(i);
      }
    }
  }
  const auto summed = std::find(dims.partial.begin(), dims.partial.end(), axis);
  return summed == dims.partial.end() ? kCopies : kSums;
}

// A layout with what is learnt of it once.
struct Option {
  LayoutCandidate layout;
  std::optional<bool> has_other_copies;
  std::optional<bool> is_no_sum;
  NumberBlocks numbers;
};

bool HasOtherCopies(const ShardSet& set, Option* option) {
  if (!option->has_other_copies) {
    const auto differing = DifferingReplicas(set, option->layout.plan);
    option->has_other_copies = differing.ok() && !differing->empty();
  }
  return *option->has_other_copies;
}

bool IsNoSum(const ShardSet& set, Option* option) {
  if (!option->is_no_sum) {
    const Result<bool> copies = MayBeCopies(option->layout.plan, Opener(set));
    option->is_no_sum = copies.ok() && *copies;
  }
  return *option->is_no_sum;
}

// Sizes that one dimension, or another one, may grow by: over some of the axes.
std::set<uint64_t> FactorsOf(const Topology& topology) {
  std::set<uint64_t> factors = {1};
  for (const Axis& axis : topology.axes()) {
    const std::set<uint64_t> before = factors;
    for (const uint64_t factor : before) factors.insert(factor * axis.size);
  }
  return factors;
}

// Shards of one shape joined over some of the axes, along one dimension or two.
void AddJoined(const Shape& shard, const Topology& topology, size_t ranks,
               std::vector<Shape>* wholes) {
  std::set<uint64_t> factors = FactorsOf(topology);
  factors.insert(ranks);
  const auto add = [&](size_t dim, uint64_t factor, size_t other, uint64_t other_factor) {
    Shape whole = shard;
    if (!__builtin_mul_overflow(shard[dim], factor, &whole[dim]) &&
        !__builtin_mul_overflow(whole[other], other_factor, &whole[other]))
      wholes->push_back(std::move(whole));
  };
  for (size_t dim = 0; dim < shard.size(); ++dim) {
    for (const uint64_t factor : factors) add(dim, factor, dim, 1);
  }
  for (size_t dim = 0; dim < shard.size(); ++dim) {
    for (size_t other = dim + 1; other < shard.size(); ++other) {
      for (const uint64_t factor : factors) {
        for (const uint64_t more : factors) {
          if (factor > 1 && more > 1 && ranks % (factor * more) == 0) add(dim, factor, other, more);
        }
      }
    }
  }
}

// Shapes that a tensor may have of which ranks hold these shards: theirs, or theirs joined.
std::vector<Shape> WholeShapes(const ShardSet& set) {
  const Shape& shard = set.shards.front().shape;
  std::vector<Shape> wholes;
  if (SameShapes(set)) {
    wholes.push_back(shard);
    AddJoined(shard, set.topology, set.shards.size(), &wholes);
    return wholes;
  }
  for (size_t dim = 0; dim < shard.size(); ++dim) {
    uint64_t sum = 0;
    for (const Shard& s : set.shards) sum += dim < s.shape.size() ? s.shape[dim] : 0;
    for (const uint64_t factor : FactorsOf(set.topology)) {
      Shape whole = shard;
      whole[dim] = sum / std::max<uint64_t>(1, set.shards.size() / factor);
      wholes.push_back(std::move(whole));
    }
  }
  return wholes;
}

std::vector<Shape> CommonShapes(const ShardSet& a, const ShardSet& b) {
  const std::vector<Shape> of_b = WholeShapes(b);
  std::vector<Shape> common;
  for (const Shape& shape : WholeShapes(a)) {
    const bool both = std::find(of_b.begin(), of_b.end(), shape) != of_b.end();
    const bool listed = std::find(common.begin(), common.end(), shape) != common.end();
    if (both && !listed && common.size() < kMostWholes) common.push_back(shape);
  }
  return common;
}

class PairSearch {
 public:
  struct Options {
    bool may_reorder = false;
    size_t sides_that_may_differ = 1;  // of which copies do
  };
  // All outlive it.
  PairSearch(const ShardSet* a, const ShardSet* b, Options options, LayoutMemory* memory_a,
             LayoutMemory* memory_b)
      : a_(*a), b_(*b), options_(options), memory_a_(memory_a), memory_b_(memory_b) {
    for (const Axis& axis : a_.topology.axes()) {
      const auto& others = b_.topology.axes();
      if (axis.size > 1 && std::find(others.begin(), others.end(), axis) != others.end())
        shared_axes_.push_back(axis.name);
    }
  }

  // The first that agrees, and is remembered; else the one to take; none where nothing fits.
  std::optional<Measured> Run() {
    for (Whole& whole : Wholes()) {
      if (!TryAll(&whole.left, &whole.right)) continue;
      memory_a_->Remember(QuestionOf(a_, whole.shape), {best_->layouts.a, true, best_->error});
      memory_b_->Remember(QuestionOf(b_, whole.shape), {best_->layouts.b, true, best_->error});
      break;
    }
    return best_;
  }

 private:
  // Layouts of both that give one shape.
  struct Whole {
    Shape shape;
    std::vector<Option> left, right;
    int cost = 0;  // of the likeliest
  };

  // Likeliest first.
  std::vector<Whole> Wholes() const {
    std::vector<Whole> wholes;
    for (Shape& shape : CommonShapes(a_, b_)) {
      Whole whole{.shape = std::move(shape), .left = {}, .right = {}};
      int of_a = 0, of_b = 0;
      whole.left = LayoutsOf(a_, QuestionOf(a_, whole.shape), false, *memory_a_, &of_a);
      whole.right =
          LayoutsOf(b_, QuestionOf(b_, whole.shape), options_.may_reorder, *memory_b_, &of_b);
      whole.cost = of_a + of_b;
      if (!whole.left.empty() && !whole.right.empty()) wholes.push_back(std::move(whole));
    }
    std::stable_sort(wholes.begin(), wholes.end(),
                     [](const Whole& x, const Whole& y) { return x.cost < y.cost; });
    return wholes;
  }

  static std::vector<Option> LayoutsOf(const ShardSet& set, const LayoutQuestion& question,
                                       bool may_reorder, const LayoutMemory& memory,
                                       int* least_cost) {
    std::vector<Option> found;
    for (LayoutCandidate& layout : CandidatesOf(set, question, may_reorder, memory, least_cost))
      found.push_back({std::move(layout), {}, {}, {}});
    return found;
  }

  // Whether one agrees: best_.
  bool TryAll(std::vector<Option>* left, std::vector<Option>* right) {
    for (Option& of_a : *left) {
      for (Option& of_b : *right) {
        if (SumsOnBoth(of_a.layout, of_b.layout) || ++tried_ > kMostPairs) continue;
        if (Try(&of_a, &of_b)) return true;
      }
    }
    return false;
  }

  bool Try(Option* of_a, Option* of_b) {
    Measured measured{.layouts = {of_a->layout, of_b->layout}, .error = ErrorOf(of_a, of_b)};
    const size_t sides_that_differ = HasOtherCopies(a_, of_a) + HasOtherCopies(b_, of_b);
    const size_t other_uses = OtherUses(of_a->layout, of_b->layout);
    measured.doubts = sides_that_differ + other_uses;
    const bool is_sum =
        of_a->layout.plan.summands.size() > 1 || of_b->layout.plan.summands.size() > 1;
    if (is_sum && !measured.agrees()) measured.doubts += kDoubtsOfSum;
    // An axis that both have does the same on both: what else would agree is a fault, as a batch
    // that was shared out along another one, or a reduction left out. Gradients may be recorded
    // before it.
    measured.holds = measured.agrees() && (other_uses == 0 || IsOfParameters(a_.role)) &&
                     sides_that_differ <= options_.sides_that_may_differ;
    if (measured.holds || !best_ || measured.IsBetterThan(*best_)) best_ = std::move(measured);
    return best_->holds;
  }

  double ErrorOf(Option* of_a, Option* of_b) {
    const auto error =
        compare::ErrorOf(b_, of_b->layout, a_, of_a->layout, &of_b->numbers, &of_a->numbers);
    if (!error.ok()) return std::numeric_limits<double>::quiet_NaN();
    return *error <= kAgree && IsNoSum(a_, of_a) ? kUnlikely : *error;
  }

  // Ranks that changed places have the same sum, so two sums of as many parts say nothing. (Of
  // gradients, over axes of other names, they may: nothing else is the same on both.)
  bool SumsOnBoth(const LayoutCandidate& of_a, const LayoutCandidate& of_b) const {
    const size_t summands = of_a.plan.summands.size();
    if (summands > 1 && summands == of_b.plan.summands.size() && !IsOfParameters(a_.role))
      return true;
    return std::any_of(shared_axes_.begin(), shared_axes_.end(), [&](const std::string& axis) {
      return UseOf(of_a, axis) == kSums && UseOf(of_b, axis) == kSums;
    });
  }

  // Axes that both have and use otherwise.
  size_t OtherUses(const LayoutCandidate& of_a, const LayoutCandidate& of_b) const {
    return static_cast<size_t>(std::count_if(
        shared_axes_.begin(), shared_axes_.end(),
        [&](const std::string& axis) { return UseOf(of_a, axis) != UseOf(of_b, axis); }));
  }

  const ShardSet& a_;
  const ShardSet& b_;
  Options options_;
  LayoutMemory* memory_a_;
  LayoutMemory* memory_b_;
  std::vector<std::string> shared_axes_;  // names of those that are as long on both
  size_t tried_ = 0;
  std::optional<Measured> best_;
};

// Each shard that is used, and that of the same place.
bool HaveEqualHashes(const ShardSet& a, const ShardSet& b, const LayoutPair& layouts) {
  if (a.hashes.empty() || b.hashes.empty() || layouts.a.plan.dtype != layouts.b.plan.dtype)
    return false;
  const auto is_equal = [&](size_t x, size_t y) { return a.hashes[x] == b.hashes[y]; };
  const std::vector<size_t>&of_a = layouts.a.plan.shards, &of_b = layouts.b.plan.shards;
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), is_equal);
}

std::optional<Measured> MeasurePlaceByPlace(const ShardSet& a, const ShardSet& b) {
  // Of what has no values that could be joined each rank's statistics are judged as they are.
  const auto has_values = [](const ShardSet& set) {
    return set.has_payload || !set.hashes.empty();
  };
  if (!has_values(a) || !has_values(b)) return std::nullopt;
  auto layouts = PlaceByPlace(a, b);
  if (!layouts) return std::nullopt;
  if (HaveEqualHashes(a, b, *layouts)) return Measured{.layouts = *std::move(layouts)};
  const auto error = ErrorOf(b, layouts->b, a, layouts->a);
  return Measured{.layouts = *std::move(layouts),
                  .error = error.ok() ? *error : std::numeric_limits<double>::quiet_NaN()};
}

bool AreSingleNumbers(const ShardSet& set) {
  return std::all_of(set.shards.begin(), set.shards.end(),
                     [](const Shard& shard) { return shard.shape.empty(); });
}

// Numbers of each rank's own, as losses of its part of the batch.
std::optional<Measured> JoinNumbers(const ShardSet& a, const ShardSet& b, LayoutMemory* memory_a,
                                    LayoutMemory* memory_b) {
  if (!AreSingleNumbers(a) || !AreSingleNumbers(b)) return std::nullopt;
  ShardSet of_a = a, of_b = b;
  of_a.shards = Joinable(a.shards);
  of_b.shards = Joinable(b.shards);
  auto joined = PairSearch(&of_a, &of_b, {}, memory_a, memory_b).Run();
  // One of one element is what ranks hold as it is, of another number of dimensions.
  const bool is_joined = joined && joined->layouts.a.shape() != Shape{1};
  return is_joined ? std::move(joined) : std::nullopt;
}

Result<ResolvedLayouts> AsTheyAre(const ShardSet& a, const ShardSet& b) {
  if (!SameShapes(a) || !SameHashes(a)) return NothingFits(a, b.shards.front().shape);
  if (!SameShapes(b) || !SameHashes(b)) return NothingFits(b, a.shards.front().shape);
  ResolvedLayouts both;
  TDUMP_ASSIGN_OR_RETURN(both.a, Replicated(a));
  TDUMP_ASSIGN_OR_RETURN(both.b, Replicated(b));
  const std::string how = " (inferred, the shapes differ)";
  both.how_a = both.a.how + how;
  both.how_b = both.b.how + how;
  return both;
}

}  // namespace

Result<ResolvedLayouts> InferBoth(const ShardSet& a, const ShardSet& b, bool may_reorder,
                                  LayoutMemory* memory_a, LayoutMemory* memory_b) {
  std::optional<Measured> alike = MeasurePlaceByPlace(a, b);
  if (alike && alike->agrees()) return Resolved(*std::move(alike));
  // Ranks that lie alike and hold other copies differ as they lie.
  const PairSearch::Options options{.may_reorder = may_reorder,
                                    .sides_that_may_differ = alike ? 0u : 1u};
  std::optional<Measured> found = PairSearch(&a, &b, options, memory_a, memory_b).Run();
  if (alike && !(found && found->holds)) found = std::move(alike);
  if (found && found->doubts > 0 && !found->holds) {
    auto joined = JoinNumbers(a, b, memory_a, memory_b);
    if (joined && (joined->holds || joined->IsBetterThan(*found))) found = std::move(joined);
  }
  if (!found) return AsTheyAre(a, b);
  return Resolved(*std::move(found));
}

}  // namespace tdump::compare
