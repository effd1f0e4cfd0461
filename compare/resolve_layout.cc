#include "compare/resolve_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "compare/mean_layout.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kUnlikely = 2;     // more than the error of unrelated tensors
constexpr size_t kMostWholes = 16;  // shapes that both sides may have

const Dims& AnyDims() {
  static const Dims dims = *Dims::Parse("...");
  return dims;
}

LayoutCandidate Planned(UnshardPlan plan) {
  LayoutCandidate layout;
  layout.dims = plan.dims;
  layout.how = plan.how;
  layout.plan = std::move(plan);
  return layout;
}

OpenShard Opener(const ShardSet& set) {
  return [&set](size_t shard) { return set.step->OpenShard(set.refs[shard]); };
}

bool SameShapes(const ShardSet& set) {
  return std::all_of(set.shards.begin(), set.shards.end(),
                     [&](const Shard& s) { return s.shape == set.shards.front().shape; });
}

bool SameHashes(const ShardSet& set) {
  return !set.hashes.empty() &&
         std::all_of(set.hashes.begin(), set.hashes.end(),
                     [&](const io::Hash128& hash) { return hash == set.hashes.front(); });
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

// Both are one record, and their hashes are equal.
bool EqualByHash(const ShardSet& set, const LayoutCandidate& mine, const ShardSet& other,
                 const LayoutCandidate& theirs) {
  if (!mine.is_one_shard() || !theirs.is_one_shard() || set.hashes.empty() || other.hashes.empty())
    return false;
  const size_t x = mine.plan.shards.front(), y = theirs.plan.shards.front();
  return !set.refs[x].part && !other.refs[y].part && set.hashes[x] == other.hashes[y] &&
         mine.plan.dtype == theirs.plan.dtype;
}

// Relative error of a candidate of one side against a settled layout of the other.
Result<double> ErrorOf(const ShardSet& set, const LayoutCandidate& candidate, const ShardSet& other,
                       const LayoutCandidate& settled) {
  if (EqualByHash(set, candidate, other, settled)) return 0.0;
  if (!set.has_payload || !other.has_payload) return kUnknown;
  TDUMP_ASSIGN_OR_RETURN(const Source mine, OpenCandidate(candidate, Opener(set)));
  TDUMP_ASSIGN_OR_RETURN(const Source theirs, OpenCandidate(settled, Opener(other)));
  TDUMP_ASSIGN_OR_RETURN(const double error, SampledError(*mine, *theirs));
  if (!(error <= kAgree)) return error;
  TDUMP_ASSIGN_OR_RETURN(const bool copies, MayBeCopies(candidate.plan, Opener(set)));
  return copies ? kUnlikely : error;  // that it agrees says nothing; any other is likelier
}

LayoutQuestion QuestionOf(const ShardSet& set, const Shape& whole) {
  LayoutQuestion question;
  question.name = set.name;
  question.cls = set.cls;
  question.role = set.role;
  question.shards = set.shards;
  question.hashes = set.hashes;
  question.whole = whole;
  return question;
}

std::vector<LayoutCandidate> CandidatesOf(const ShardSet& set, const LayoutQuestion& question,
                                          bool may_reorder, const LayoutMemory& memory) {
  std::vector<LayoutCandidate> candidates = LayoutCandidates(question, set.topology);
  if (!may_reorder) {
    std::erase_if(candidates, [&](const LayoutCandidate& candidate) {
      return candidate.rearrangement || !candidate.crop.empty();
    });
  }
  memory.Prefer(question, &candidates);
  return candidates;
}

Proof ProofOf(const InferredLayout& inferred) {
  if (std::isnan(inferred.error)) return Proof::kNone;
  return inferred.verified || inferred.error < kAgree ? Proof::kAgrees : Proof::kDisagrees;
}

std::string InferredHow(const InferredLayout& inferred) {
  const char* proof = std::isnan(inferred.error) ? "inferred from shapes"
                      : inferred.verified        ? "inferred"
                      : inferred.error < kAgree  ? "inferred, one of several that agree"
                                                 : "inferred, the data disagree";
  return fmt::format("{} ({})", inferred.candidate.how, proof);
}

std::string ShardShapes(const ShardSet& set) {
  std::vector<std::string> shapes;
  for (const Shard& shard : set.shards) {
    const std::string text = ShapeText(shard.shape);
    if (std::find(shapes.begin(), shapes.end(), text) == shapes.end()) shapes.push_back(text);
    if (shapes.size() == 4) break;
  }
  return fmt::format("{} ranks hold {}", set.shards.size(), fmt::join(shapes, ", "));
}

Status NothingFits(const ShardSet& set, const Shape& whole) {
  const std::string rule = fmt::format("^{}@{}: ...", RegexOf(set.name), ToString(set.role));
  return InvalidArgument(
      fmt::format("{} of {}, which does not make {}; say how they share it, --dims {}",
                  ShardShapes(set), set.name, ShapeText(whole), ShellWord(rule)));
}

// Copies on every rank, where shapes say nothing else; of a tied weight also in several stages of a
// pipeline.
Result<LayoutCandidate> Replicated(const ShardSet& set) {
  const Dims tied = set.topology.Find("pp") ? *Dims::Parse("... replicated[pp]") : AnyDims();
  TDUMP_ASSIGN_OR_RETURN(UnshardPlan plan,
                         PlanUnshard(set.shards, SameHashes(set) ? tied : AnyDims(), set.topology));
  return Planned(std::move(plan));
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
  const CandidateError error = [&](const LayoutCandidate& candidate) {
    return ErrorOf(set, candidate, other, settled.layout);
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

// Shapes that a tensor may have of which ranks hold these shards: theirs, or theirs joined along
// one dimension over some of the axes.
std::vector<Shape> WholeShapes(const ShardSet& set) {
  const Shape& shard = set.shards.front().shape;
  std::vector<Shape> wholes = {shard};
  if (!SameShapes(set)) wholes.clear();
  std::set<uint64_t> factors;
  for (const Axis& axis : set.topology.axes()) {
    const std::set<uint64_t> before = factors;
    factors.insert(axis.size);
    for (const uint64_t factor : before) factors.insert(factor * axis.size);
  }
  factors.insert(set.shards.size());
  for (size_t dim = 0; dim < shard.size(); ++dim) {
    uint64_t sum = 0;
    for (const Shard& s : set.shards) sum += dim < s.shape.size() ? s.shape[dim] : 0;
    for (const uint64_t factor : factors) {
      Shape whole = shard;
      if (!SameShapes(set)) {
        whole[dim] = sum / std::max<uint64_t>(1, set.shards.size() / std::max<uint64_t>(1, factor));
      } else if (__builtin_mul_overflow(shard[dim], factor, &whole[dim])) {
        continue;
      }
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

// Neither side is settled: every shape that both can have is tried.
Result<ResolvedLayouts> InferBoth(const ShardSet& a, const ShardSet& b, bool may_reorder,
                                  LayoutMemory* memory_a, LayoutMemory* memory_b) {
  std::optional<ResolvedLayouts> best;
  double least = std::numeric_limits<double>::infinity();
  for (const Shape& whole : CommonShapes(a, b)) {
    const LayoutQuestion of_a = QuestionOf(a, whole), of_b = QuestionOf(b, whole);
    for (const LayoutCandidate& left : CandidatesOf(a, of_a, false, *memory_a)) {
      auto right = InferLayout(
          CandidatesOf(b, of_b, may_reorder, *memory_b),
          [&](const LayoutCandidate& candidate) { return ErrorOf(b, candidate, a, left); });
      if (!right) continue;
      const double error = std::isnan(right->error) ? kAgree : right->error;
      if (best && error >= least) continue;
      least = error;
      best = ResolvedLayouts{left,
                             right->candidate,
                             InferredHow({left, right->verified, right->error}),
                             InferredHow(*right),
                             "",
                             "",
                             ProofOf({left, right->verified, right->error}),
                             ProofOf(*right)};
      if (error >= kAgree || !right->verified) continue;
      memory_a->Remember(of_a, {left, true, error});
      memory_b->Remember(of_b, *right);
      return *best;
    }
  }
  if (best) return *best;
  if (!SameShapes(a) || !SameHashes(a)) return NothingFits(a, b.shards.front().shape);
  if (!SameShapes(b) || !SameHashes(b)) return NothingFits(b, a.shards.front().shape);
  TDUMP_ASSIGN_OR_RETURN(LayoutCandidate left, Replicated(a));
  TDUMP_ASSIGN_OR_RETURN(LayoutCandidate right, Replicated(b));
  const std::string how = " (inferred, the shapes differ)";
  ResolvedLayouts both{std::move(left), std::move(right), "", "", "", ""};
  both.how_a = both.a.how + how;
  both.how_b = both.b.how + how;
  return both;
}

bool SameBytes(Source x, Source y, Status* status) {
  if (x->shape() != y->shape() || x->dtype() != y->dtype()) return false;
  const uint64_t unit = x->dtype().unit_bytes();
  const uint64_t piece = std::max<uint64_t>(1, (64 * 1024) / std::max<uint64_t>(1, unit));
  std::vector<std::byte> left, right;
  for (uint64_t first = 0; first < x->units(); first += piece) {
    const uint64_t count = std::min(piece, x->units() - first);
    left.resize(count * unit);
    right.resize(count * unit);
    *status = x->Read(first, left);
    if (status->ok()) *status = y->Read(first, right);
    if (!status->ok()) return false;
    if (std::memcmp(left.data(), right.data(), left.size()) != 0) return false;
  }
  return true;
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
