#include "compare/left_out_sums.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compare/element.h"
#include "compare/infer_layout.h"
#include "compare/layout_evidence.h"
#include "compare/partial_sums.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

using Numbers = std::vector<double>;

struct Side {
  const ShardSet& set;
  const LayoutCandidate& layout;
};
Side SideOf(const LoadedPair& pair, char side) {
  return side == 'A' ? Side{pair.of_a.set, pair.layouts.a} : Side{pair.of_b.set, pair.layouts.b};
}
char Other(char side) { return side == 'A' ? 'B' : 'A'; }

// Some blocks spread over the tensor: of tensors of one shape and of units of one number the same.
Result<std::vector<std::byte>> BytesOfSample(TensorSource* source) {
  constexpr uint64_t kBlock = 512, kMostBlocks = 32;
  std::vector<std::byte> bytes;
  const uint64_t step = std::max(kBlock, source->units() / kMostBlocks);
  for (uint64_t first = 0; first < source->units(); first += step) {
    const uint64_t count = std::min(kBlock, source->units() - first);
    const size_t before = bytes.size();
    bytes.resize(before + count * source->dtype().unit_bytes());
    TDUMP_RETURN_IF_ERROR(source->Read(first, std::span(bytes).subspan(before)));
  }
  return bytes;
}

Result<Numbers> SampleOf(const Side& side, const LayoutCandidate& layout) {
  TDUMP_ASSIGN_OR_RETURN(const Source source, OpenCandidate(layout, Opener(side.set)));
  const DType& dtype = source->dtype();
  const NumberFormat format = FormatOf(dtype);
  if (format.kind == NumberKind::kOpaque) return Numbers();
  TDUMP_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, BytesOfSample(source.get()));
  const auto of_unit = static_cast<size_t>(NumbersPerUnit(dtype, format));
  Numbers numbers(bytes.size() / dtype.unit_bytes() * of_unit);
  DecodeFloat(dtype, format, bytes, numbers);
  return numbers;
}

// Without hashes by a sample of the first few: what a sum lacks is missing all over.
Result<bool> CopiesDiffer(const ShardSet& set, const UnshardPlan& plan) {
  constexpr size_t kMostCopies = 16;  // of which a sample is read
  if (!set.hashes.empty() || !set.has_payload) {
    TDUMP_ASSIGN_OR_RETURN(const auto differing, DifferingReplicas(set, plan));
    return !differing.empty();
  }
  const auto sample = [&](size_t shard) -> Result<std::vector<std::byte>> {
    TDUMP_ASSIGN_OR_RETURN(const Source source, set.step->OpenShard(set.refs[shard]));
    return BytesOfSample(source.get());
  };
  size_t copies = 0;
  for (const ReplicaGroup& group : plan.replicas) {
    TDUMP_ASSIGN_OR_RETURN(const auto first, sample(group.first));
    for (const size_t shard : group.others) {
      if (++copies > kMostCopies) return false;
      TDUMP_ASSIGN_OR_RETURN(const auto other, sample(shard));
      if (other != first) return true;
    }
  }
  return false;
}

// Of the first rank that holds a copy on this side, less the other side's.
Result<Numbers> ErrorOfFirst(const LoadedPair& pair, const LayoutCandidate& copies, char side) {
  const Side other = SideOf(pair, Other(side));
  TDUMP_ASSIGN_OR_RETURN(Numbers error, SampleOf(SideOf(pair, side), copies));
  TDUMP_ASSIGN_OR_RETURN(const Numbers right, SampleOf(other, other.layout));
  if (right.size() != error.size()) return Numbers();
  for (size_t i = 0; i < error.size(); ++i) error[i] -= right[i];
  return error;
}

// Whether ranks hold what should be copies and differs, or what is taken for a sum that does not
// agree.
bool MayShowSums(const LoadedPair& next, char side) {
  const auto [set, layout] = SideOf(next, side);
  const Proof proof = side == 'A' ? next.layouts.proof_a : next.layouts.proof_b;
  const bool is_sum = layout.plan.summands.size() > 1;
  if (IsOfParameters(set.role) ||
      (is_sum ? proof != Proof::kDisagrees : layout.plan.replicas.empty()))
    return false;
  const auto copies = AsCopies(set, layout);
  if (!copies.ok()) return false;
  const auto differ = CopiesDiffer(set, copies->plan);
  return differ.ok() && *differ;
}

}  // namespace

std::optional<char> SideOfSum(const LoadedPair& pair) {
  const ResolvedLayouts& layouts = pair.layouts;
  const bool of_a = IsInferredSum(pair.of_a.set, layouts.a, layouts.proof_a);
  const bool of_b = IsInferredSum(pair.of_b.set, layouts.b, layouts.proof_b);
  if (of_a == of_b) return std::nullopt;
  return of_a ? 'A' : 'B';
}

SumsWaiting::Place SumsWaiting::PlaceOf(const LoadedPair& pair, char side) {
  const auto [set, layout] = SideOf(pair, side);
  return {side, IsGradient(set.role), layout.shape()};
}

void SumsWaiting::Add(const LoadedPair& sum, char side, size_t index) {
  waiting_[PlaceOf(sum, side)].push_back(index);
}

std::vector<size_t> SumsWaiting::Take(const LoadedPair& next) {
  std::vector<size_t> sums;
  if (next.layouts.a.shape() != next.layouts.b.shape()) return sums;
  for (const char side : {'A', 'B'}) {
    const auto place = waiting_.find(PlaceOf(next, side));
    if (place == waiting_.end() || !MayShowSums(next, side)) continue;
    sums.insert(sums.end(), place->second.begin(), place->second.end());
    waiting_.erase(place);
  }
  return sums;
}

bool ShowsSumLeftOut(const LoadedPair& sum, const LoadedPair& next, char side) {
  const Side of_sum = SideOf(sum, side), of_next = SideOf(next, side);
  for (const LoadedPair* pair : {&sum, &next})
    if (!pair->of_a.set.has_payload || !pair->of_b.set.has_payload) return false;
  const auto summands = AsCopies(of_sum.set, of_sum.layout);
  const auto copies = AsCopies(of_next.set, of_next.layout);
  if (!summands.ok() || !copies.ok() || summands->shape() != copies->shape()) return false;
  const auto missing = ErrorOfFirst(sum, *summands, side);
  const auto seen = ErrorOfFirst(next, *copies, side);
  if (!missing.ok() || !seen.ok() || missing->empty() || missing->size() != seen->size())
    return false;
  double difference = 0, size = 0;
  for (size_t i = 0; i < seen->size(); ++i) {
    difference += ((*seen)[i] - (*missing)[i]) * ((*seen)[i] - (*missing)[i]);
    size += (*missing)[i] * (*missing)[i];
  }
  return size > 0 && std::sqrt(difference) <= kAgree * std::sqrt(size);  // false with NaN
}

}  // namespace tdump::compare
