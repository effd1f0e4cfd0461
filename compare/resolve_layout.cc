#include "compare/resolve_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "compare/infer_both.h"
#include "compare/layout_evidence.h"
#include "compare/mean_layout.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

const Dims& AnyDims() {
  static const Dims dims = *Dims::Parse("...");
  return dims;
}

// A layout that is settled for one side, with where it comes from.
struct Half {
  LayoutCandidate layout;
  std::string source;  // "" for a single shard
  bool has_names() const { return !source.empty(); }
};

// What is known of a side without looking at the other; empty: nothing.
Result<std::vector<Half>> KnownHalves(const ShardSet& set) {
  std::vector<Half> halves;
  Status error;
  for (const GivenDims& given : set.given) {
    auto plan = PlanUnshard(set.shards, given.dims, given.topology, given.numbers);
    if (plan.ok()) {
      halves.push_back({Planned(std::move(*plan)), given.source});
    } else if (error.ok()) {
      Status why = given.lacking.ok() ? plan.status() : given.lacking;
      error = std::move(why).Annotate(fmt::format("'{}' ({})", given.dims.ToText(), given.source));
    }
  }
  if (halves.empty() && !error.ok()) return error;
  if (halves.empty() && set.shards.size() == 1) {
    TDUMP_ASSIGN_OR_RETURN(UnshardPlan plan, PlanUnshard(set.shards, AnyDims(), set.topology));
    halves.push_back({Planned(std::move(plan)), ""});
  }
  return halves;
}

std::string HowOf(const Half& half) {
  // One rank's record, as it lies.
  if (half.source.empty() || (half.layout.is_one_shard() && half.layout.plan.replicas.empty()))
    return "";
  return fmt::format("{} ({})", half.layout.how, half.source);
}

// `shape`: in the order that the tensor is brought into, which is that of `order`. A tensor is
// cropped as it lies.
bool CropTo(const Shape& shape, const Dims& order, LayoutCandidate* layout) {
  if (!layout->rearrangement) {
    layout->crop = shape;
    return true;
  }
  const auto back = PlanRearrange(shape, order, layout->dims, Shape());
  if (!back.ok()) return false;
  auto moved = PlanRearrange(back->shape, layout->dims, order, shape);
  if (!moved.ok()) return false;
  layout->crop = back->shape;
  layout->rearrangement = std::move(*moved);
  return true;
}

// Crops both to the part they share, where the side that reaches farther is padded.
bool CropPadding(const ShardSet& a, const ShardSet& b, LayoutCandidate* left,
                 LayoutCandidate* right) {
  const Shape shape_a = left->shape(), shape_b = right->shape();
  if (shape_a.size() != shape_b.size()) return false;
  Shape common(shape_a.size());
  uint64_t rows_a = 0, rows_b = 0;
  for (size_t i = 0; i < common.size(); ++i) {
    common[i] = std::min(shape_a[i], shape_b[i]);
    rows_a += shape_a[i] - common[i];
    rows_b += shape_b[i] - common[i];
  }
  if ((rows_a > 0 && !a.padded) || (rows_b > 0 && !b.padded)) return false;
  if (rows_a > 0 && !CropTo(common, right->dims, left)) return false;
  if (rows_b > 0 && !CropTo(common, left->dims, right)) return false;
  if (rows_a > 0) left->how += fmt::format(", {} of padding dropped", Plural(rows_a, "row"));
  if (rows_b > 0) right->how += fmt::format(", {} of padding dropped", Plural(rows_b, "row"));
  return true;
}

// The two sides with B's dimensions in A's order, if their shapes then agree.
std::optional<ResolvedLayouts> Match(const ShardSet& a, const ShardSet& b, const Half& left,
                                     const Half& right) {
  ResolvedLayouts both{left.layout, right.layout, HowOf(left), HowOf(right), "", ""};
  if (left.has_names() && right.has_names()) {
    // Of a padded tensor the sizes are its own.
    const Shape sizes = a.padded || b.padded ? Shape() : both.a.plan.shape;
    auto moved = PlanRearrange(both.b.plan.shape, both.b.dims, both.a.dims, sizes);
    if (moved.ok() && !moved->identity) {
      both.b.how += fmt::format(", {} as {}", both.b.dims.ToText(), both.a.dims.ToText());
      both.b.rearrangement = std::move(*moved);
    }
  }
  if (both.a.shape() != both.b.shape() && !CropPadding(a, b, &both.a, &both.b)) return std::nullopt;
  both.how_a = HowOf({both.a, left.source});
  both.how_b = HowOf({both.b, right.source});
  return both;
}

// Whether what was taken for copies may be numbers of each rank's own: losses of parts of a batch
// are much alike.
bool AreOwnNumbers(const ShardSet& set, const InferredLayout& inferred) {
  constexpr uint64_t kMostUnits = 64;
  uint64_t units = 0;
  return inferred.error > 0 && inferred.candidate.plan.summands.size() <= 1 && !SameHashes(set) &&
         UnitsOf(set.shards.front().shape, &units) && units <= kMostUnits;
}

struct Inferred {
  LayoutCandidate layout;
  std::string how;
  std::string mean;  // FindMean
  Proof proof = Proof::kNone;
};

Result<Inferred> InferAgainst(const ShardSet& set, const ShardSet& other, const Half& settled,
                              bool may_reorder, LayoutMemory* memory) {
  const Shape whole = settled.layout.shape();
  const LayoutQuestion question = QuestionOf(set, whole);
  const auto candidates = CandidatesOf(set, question, may_reorder, *memory);
  NumberBlocks settled_numbers;
  const CandidateError error = [&](const LayoutCandidate& candidate) {
    return ErrorOf(set, candidate, other, settled.layout, nullptr, &settled_numbers);
  };
  if (const auto best = InferLayout(candidates, error)) {
    if (best->verified) memory->Remember(question, *best);
    const bool may_be_mean = best->error > kAgree || AreOwnNumbers(set, *best);
    return Inferred{best->candidate, InferredHow(*best),
                    may_be_mean ? FindMean(candidates, error, best->error) : "", ProofOf(*best)};
  }
  if (!SameShapes(set) || !SameHashes(set)) return NothingFits(set, whole);
  TDUMP_ASSIGN_OR_RETURN(LayoutCandidate copies, Replicated(set));
  std::string how = copies.how + " (inferred, the shapes differ)";
  return Inferred{std::move(copies), std::move(how), ""};
}

// Which shards equal one before them: by hash, else by their bytes.
std::vector<bool> CopiesOf(const ShardSet& set) {
  constexpr size_t kMostDistinct = 16;  // that each is compared with
  std::vector<bool> copies(set.shards.size());
  std::set<io::Hash128> seen;
  std::vector<size_t> distinct;
  const auto equal = [&](size_t one, size_t other) {
    const auto x = Opener(set)(one), y = Opener(set)(other);
    Status status;
    return x.ok() && y.ok() && SameBytes(*x, *y, &status);
  };
  for (size_t i = 0; i < copies.size(); ++i) {
    if (!set.hashes.empty()) {
      copies[i] = !seen.insert(set.hashes[i]).second;
      continue;
    }
    if (!set.has_payload) continue;
    copies[i] = std::any_of(distinct.begin(), distinct.end(),
                            [&](size_t before) { return equal(before, i); });
    if (!copies[i] && distinct.size() < kMostDistinct) distinct.push_back(i);
  }
  return copies;
}

// What the whole may have of a dimension.
struct SizeRange {
  uint64_t least = 0, most = 0;
};

// Of each dimension; empty where shards have other numbers of them.
std::vector<SizeRange> SizeRanges(const ShardSet& set) {
  std::vector<SizeRange> ranges(set.shards.front().shape.size());
  const std::vector<bool> copies = CopiesOf(set);
  for (size_t i = 0; i < set.shards.size(); ++i) {
    const Shape& shape = set.shards[i].shape;
    if (shape.size() != ranges.size()) return {};
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      ranges[dim].least = std::max(ranges[dim].least, shape[dim]);
      if (!copies[i]) ranges[dim].most += shape[dim];
    }
  }
  return ranges;
}

}  // namespace

Result<ResolvedLayouts> ResolveLayouts(const ShardSet& a, const ShardSet& b, bool may_reorder,
                                       LayoutMemory* memory_a, LayoutMemory* memory_b) {
  TDUMP_ASSIGN_OR_RETURN(const std::vector<Half> left, KnownHalves(a));
  TDUMP_ASSIGN_OR_RETURN(const std::vector<Half> right, KnownHalves(b));
  for (const Half& half_a : left) {
    for (const Half& half_b : right) {
      if (auto both = Match(a, b, half_a, half_b)) return *std::move(both);
    }
  }
  if (left.empty() && right.empty()) return InferBoth(a, b, may_reorder, memory_a, memory_b);
  // One is settled and the other not; or both are, do not agree, and may be reordered.
  const bool infer_b = !left.empty() && (right.empty() || may_reorder);
  if (infer_b) {
    auto inferred = InferAgainst(b, a, left.front(), may_reorder, memory_b);
    if (!inferred.ok()) return std::move(inferred).status();
    return ResolvedLayouts{left.front().layout,
                           std::move(inferred->layout),
                           HowOf(left.front()),
                           std::move(inferred->how),
                           "",
                           std::move(inferred->mean),
                           Proof::kSaid,
                           inferred->proof};
  }
  if (left.empty()) {
    auto inferred = InferAgainst(a, b, right.front(), may_reorder, memory_a);
    if (!inferred.ok()) return std::move(inferred).status();
    return ResolvedLayouts{std::move(inferred->layout),
                           right.front().layout,
                           std::move(inferred->how),
                           HowOf(right.front()),
                           std::move(inferred->mean),
                           "",
                           inferred->proof,
                           Proof::kSaid};
  }
  return ResolvedLayouts{
      left.front().layout, right.front().layout, HowOf(left.front()), HowOf(right.front()), "", ""};
}

bool MayHaveOneShape(const ShardSet& a, const ShardSet& b) {
  const std::vector<SizeRange> of_a = SizeRanges(a), of_b = SizeRanges(b);
  if (of_a.size() != of_b.size()) return true;
  for (size_t dim = 0; dim < of_a.size(); ++dim) {
    if (of_a[dim].least > of_b[dim].most || of_b[dim].least > of_a[dim].most) return false;
  }
  return true;
}

Result<std::vector<DifferingReplica>> DifferingReplicas(const ShardSet& set,
                                                        const UnshardPlan& plan) {
  std::vector<DifferingReplica> differing;
  for (const ReplicaGroup& group : plan.replicas) {
    std::set<io::Hash128> seen;
    if (!set.hashes.empty()) seen.insert(set.hashes[group.first]);
    for (const size_t other : group.others) {
      if (!set.hashes.empty()) {
        if (seen.insert(set.hashes[other]).second) differing.push_back({group.first, other});
        continue;
      }
      if (!set.has_payload) continue;
      TDUMP_ASSIGN_OR_RETURN(Source x, set.step->OpenShard(set.refs[group.first]));
      TDUMP_ASSIGN_OR_RETURN(Source y, set.step->OpenShard(set.refs[other]));
      Status status;
      const bool same = SameBytes(std::move(x), std::move(y), &status);
      TDUMP_RETURN_IF_ERROR(status);
      if (!same) differing.push_back({group.first, other});
    }
  }
  return differing;
}

}  // namespace tdump::compare
