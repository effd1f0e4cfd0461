#include "compare/layout_evidence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compare/job_step.h"
#include "compare/layout_odds.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Both are one record, and their hashes are equal.
bool EqualByHash(const ShardSet& set, const LayoutCandidate& mine, const ShardSet& other,
                 const LayoutCandidate& theirs) {
  if (!mine.is_one_shard() || !theirs.is_one_shard() || set.hashes.empty() || other.hashes.empty())
    return false;
  const size_t x = mine.plan.shards.front(), y = theirs.plan.shards.front();
  return !set.refs[x].part && !other.refs[y].part && set.hashes[x] == other.hashes[y] &&
         mine.plan.dtype == theirs.plan.dtype;
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

// "rank 2 never started under tdump"; "" where every rank has the step, or nobody says how they
// lie.
std::string WhyPartsAreMissing(const ShardSet& set) {
  if (set.step == nullptr || set.topology.is_unknown()) return "";
  for (int32_t rank = 0; rank < set.topology.world(); ++rank) {
    const bool has_step = std::ranges::binary_search(set.step->passes(), rank, {}, &PassRef::rank);
    if (!has_step && set.step->base().IsLost(rank)) return set.step->base().WhyMissing(rank);
  }
  return "";
}

}  // namespace

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

Result<double> ErrorOf(const ShardSet& set, const LayoutCandidate& candidate, const ShardSet& other,
                       const LayoutCandidate& settled, NumberBlocks* numbers,
                       NumberBlocks* settled_numbers) {
  if (EqualByHash(set, candidate, other, settled)) return 0.0;
  if (!set.has_payload || !other.has_payload) return kUnknown;
  TDUMP_ASSIGN_OR_RETURN(const Source mine, OpenCandidate(candidate, Opener(set)));
  TDUMP_ASSIGN_OR_RETURN(const Source theirs, OpenCandidate(settled, Opener(other)));
  NumberBlocks own, own_settled;
  TDUMP_ASSIGN_OR_RETURN(const double error,
                         SampledError(*mine, *theirs, numbers == nullptr ? &own : numbers,
                                      settled_numbers == nullptr ? &own_settled : settled_numbers));
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
                                          bool may_reorder, const LayoutMemory& memory,
                                          int* least_cost) {
  std::vector<LayoutCandidate> candidates;
  for (LikelyLayout& likely : LikelyLayouts(question, set.topology)) {
    const bool reorders = likely.layout.rearrangement || !likely.layout.crop.empty();
    if (reorders && !may_reorder) continue;
    if (candidates.empty() && least_cost != nullptr) *least_cost = likely.cost;
    candidates.push_back(std::move(likely.layout));
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

Status NothingFits(const ShardSet& set, const Shape& whole) {
  if (const std::string lost = WhyPartsAreMissing(set); !lost.empty())
    return InvalidArgument(fmt::format("{} of {}, which does not make {}; {}", ShardShapes(set),
                                       set.name, ShapeText(whole), lost));
  const std::string rule = fmt::format("^{}@{}: ...", RegexOf(set.name), ToString(set.role));
  return InvalidArgument(
      fmt::format("{} of {}, which does not make {}; say how they share it, --dims {}",
                  ShardShapes(set), set.name, ShapeText(whole), ShellWord(rule)));
}

Result<LayoutCandidate> Replicated(const ShardSet& set) {
  const bool is_tied = set.topology.Find("pp") && SameHashes(set);
  const Dims dims = *Dims::Parse(is_tied ? "... replicated[pp]" : "...");
  TDUMP_ASSIGN_OR_RETURN(UnshardPlan plan, PlanUnshard(set.shards, dims, set.topology));
  return Planned(std::move(plan));
}

}  // namespace tdump::compare
