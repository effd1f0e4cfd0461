#include "compare/left_out_sums.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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
Result<Numbers> SampleOf(const Side& side, const LayoutCandidate& layout) {
  constexpr uint64_t kBlock = 512, kMostBlocks = 32;
  TDUMP_ASSIGN_OR_RETURN(const Source source, OpenCandidate(layout, Opener(side.set)));
  const DType& dtype = source->dtype();
  const NumberFormat format = FormatOf(dtype);
  Numbers numbers;
  if (format.kind == NumberKind::kOpaque) return numbers;
  const auto of_unit = static_cast<size_t>(NumbersPerUnit(dtype, format));
  const uint64_t step = std::max(kBlock, source->units() / kMostBlocks);
  for (uint64_t first = 0; first < source->units(); first += step) {
    const uint64_t count = std::min(kBlock, source->units() - first);
    std::vector<std::byte> bytes(count * dtype.unit_bytes());
    TDUMP_RETURN_IF_ERROR(source->Read(first, bytes));
    Numbers block(count * of_unit);
    DecodeFloat(dtype, format, bytes, block);
    numbers.insert(numbers.end(), block.begin(), block.end());
  }
  return numbers;
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

}  // namespace

std::optional<char> SideOfSum(const LoadedPair& pair) {
  const ResolvedLayouts& layouts = pair.layouts;
  const bool of_a = IsInferredSum(pair.of_a.set, layouts.a, layouts.proof_a);
  const bool of_b = IsInferredSum(pair.of_b.set, layouts.b, layouts.proof_b);
  if (of_a == of_b) return std::nullopt;
  return of_a ? 'A' : 'B';
}

bool MayShowSum(const LoadedPair& sum, const LoadedPair& next, char side) {
  const auto [set, layout] = SideOf(next, side);
  const Proof proof = side == 'A' ? next.layouts.proof_a : next.layouts.proof_b;
  const bool is_sum = layout.plan.summands.size() > 1;
  if (IsOfParameters(set.role) || IsGradient(set.role) != IsGradient(SideOf(sum, side).set.role) ||
      layout.shape() != SideOf(sum, side).layout.shape() ||
      next.layouts.a.shape() != next.layouts.b.shape() ||
      (is_sum ? proof != Proof::kDisagrees : layout.plan.replicas.empty()))
    return false;
  const auto copies = AsCopies(set, layout);
  if (!copies.ok()) return false;
  const auto differing = DifferingReplicas(set, copies->plan);
  return differing.ok() && !differing->empty();
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
