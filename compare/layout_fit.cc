#include "compare/layout_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace tdump::compare {
namespace {

constexpr size_t kMostDims = 5;
// A multiple that vocabularies are padded to, for each rank.
constexpr uint64_t kVocabularyMultiple = 128;
constexpr int kSwap = 2, kFuse = 2, kAnyOrder = 4, kPadding = 3;

NamedDim Named(size_t i) { return {.name = fmt::format("d{}", i)}; }

// d0 d1 ... in this order, the pair from `fused` on in one dimension.
Dims InOrder(const std::vector<size_t>& order, size_t fused) {
  Dims dims;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == fused + 1)
      dims.dims.back().parts.push_back(Named(order[i]));
    else
      dims.dims.push_back({.parts = {Named(order[i])}});
  }
  return dims;
}

std::vector<size_t> Counted(size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

constexpr size_t kNotFused = ~size_t{0} - 1;

void Try(const Shape& shape, const Dims& from, const Dims& to, const Shape& whole, int cost,
         std::vector<Fit>* fits) {
  Result<Rearrangement> plan = PlanRearrange(shape, from, to, whole);
  if (!plan.ok() || plan->shape != whole) return;
  const bool as_it_is = plan->identity && from.dims.size() == to.dims.size();
  Fit fit{.cost = cost};
  if (!as_it_is) {
    fit.rearrangement = std::move(*plan);
    fit.how = fmt::format("[{}] as [{}]", from.ToText(), to.ToText());
  }
  fits->push_back(std::move(fit));
}

// How far an order is from the usual ones.
int CostOf(const std::vector<size_t>& order) {
  if (std::is_sorted(order.begin(), order.end())) return 0;
  std::vector<size_t> swapped = Counted(order.size());
  std::swap(swapped[0], swapped[1]);
  if (order == swapped) return kSwap;
  return kAnyOrder;
}

void AddOrders(const Shape& shape, const Shape& whole, std::vector<Fit>* fits) {
  const Dims from = InOrder(Counted(shape.size()), kNotFused);
  std::vector<size_t> order = Counted(shape.size());
  do {
    Shape sizes;
    for (const size_t dim : order) sizes.push_back(shape[dim]);
    if (sizes == whole) Try(shape, from, InOrder(order, kNotFused), whole, CostOf(order), fits);
  } while (std::next_permutation(order.begin(), order.end()));
}

// Of the sizes in this order, whether those from `fused` on are one dimension of `other`.
bool IsFused(const Shape& sizes, size_t fused, const Shape& other) {
  for (size_t i = 0; i < other.size(); ++i) {
    const uint64_t size = i < fused    ? sizes[i]
                          : i == fused ? sizes[i] * sizes[i + 1]
                                       : sizes[i + 1];
    if (size != other[i]) return false;
  }
  return true;
}

// Two dimensions of `shape` are one of `whole`.
void AddFused(const Shape& shape, const Shape& whole, std::vector<Fit>* fits) {
  const Dims from = InOrder(Counted(shape.size()), kNotFused);
  std::vector<size_t> order = Counted(shape.size());
  do {
    Shape sizes;
    for (const size_t dim : order) sizes.push_back(shape[dim]);
    for (size_t i = 0; i < whole.size(); ++i) {
      if (IsFused(sizes, i, whole))
        Try(shape, from, InOrder(order, i), whole, kFuse + CostOf(order), fits);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// One dimension of `shape` is two of `whole`.
void AddApart(const Shape& shape, const Shape& whole, std::vector<Fit>* fits) {
  const Dims to = InOrder(Counted(whole.size()), kNotFused);
  std::vector<size_t> order = Counted(whole.size());
  do {
    Shape sizes;
    for (const size_t dim : order) sizes.push_back(whole[dim]);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (IsFused(sizes, i, shape))
        Try(shape, InOrder(order, i), to, whole, kFuse + CostOf(order), fits);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// One dimension is longer than the other side's; the rest is equal.
void AddPadded(const Shape& shape, const Shape& whole, bool vocabulary, size_t ranks,
               std::vector<Fit>* fits) {
  size_t longer = shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == whole[i]) continue;
    if (longer != shape.size() || shape[i] < whole[i]) return;
    longer = i;
  }
  if (longer == shape.size()) return;
  const uint64_t padding = shape[longer] - whole[longer];
  const uint64_t most = vocabulary ? kVocabularyMultiple * ranks : ranks;
  if (padding >= most) return;
  fits->push_back({.crop = whole,
                   .how = fmt::format("{} units of padding dropped from d{}", padding, longer),
                   .cost = vocabulary ? 0 : kPadding});
}

}  // namespace

std::vector<Fit> FitsOf(const Shape& shape, const Shape& whole, bool vocabulary, size_t ranks) {
  std::vector<Fit> fits;
  if (shape.size() > kMostDims || whole.size() > kMostDims) {
    if (shape == whole) fits.emplace_back();
    return fits;
  }
  uint64_t units = 0, whole_units = 0;
  if (!UnitsOf(shape, &units) || !UnitsOf(whole, &whole_units)) return fits;
  if (units != whole_units) {
    if (shape.size() == whole.size()) AddPadded(shape, whole, vocabulary, ranks, &fits);
  } else if (shape.size() == whole.size()) {
    AddOrders(shape, whole, &fits);
  } else if (shape.size() == whole.size() + 1) {
    AddFused(shape, whole, &fits);
  } else if (shape.size() + 1 == whole.size()) {
    AddApart(shape, whole, &fits);
  }
  std::stable_sort(fits.begin(), fits.end(),
                   [](const Fit& x, const Fit& y) { return x.cost < y.cost; });
  return fits;
}

}  // namespace tdump::compare
