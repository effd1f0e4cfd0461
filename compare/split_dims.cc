#include "compare/split_dims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tdump::compare {
namespace {

std::optional<uint64_t> SizeOf(const NamedDim& dim, const SizeTable& sizes) {
  if (dim.size) return dim.size;
  const auto found = sizes.find(dim.name);
  if (found == sizes.end() || found->second.size() != 1 || dim.name == "_") return std::nullopt;
  return found->second.front();
}

std::string NameOf(const TensorDim& dim) {
  if (!dim.is_fused()) return dim.parts.front().name;
  std::vector<std::string> names;
  for (const NamedDim& part : dim.parts) names.push_back(part.name);
  return fmt::format("({})", fmt::join(names, " "));
}

bool IsSplitByParts(const TensorDim& dim) {
  return dim.is_fused() && std::any_of(dim.parts.begin(), dim.parts.end(),
                                       [](const NamedDim& part) { return !part.axes.empty(); });
}

// Of dims [begin, end), the parts of one fused dimension of `whole` units.
Status Solve(const std::vector<SplitDim>& dims, size_t begin, size_t end, uint64_t whole,
             const std::vector<uint64_t>& places, Shape* local) {
  uint64_t known = 1;
  std::optional<size_t> open;
  for (size_t i = begin; i < end; ++i) {
    // A part that is shared unevenly is not known on a rank.
    if (dims[i].size && *dims[i].size % places[i] == 0) {
      (*local)[i] = *dims[i].size / places[i];
      if (__builtin_mul_overflow(known, (*local)[i], &known)) known = 0;
    } else if (open) {
      return InvalidArgument(
          fmt::format("a fused dimension of {} units: the size of {} or of {} is needed, as in "
                      "{}=2",
                      whole, dims[*open].name, dims[i].name, dims[*open].name));
    } else {
      open = i;
    }
  }
  const bool divides = known != 0 && whole % known == 0 && (open || whole == known);
  if (!divides && !(whole == 0 && known == 0))
    return InvalidArgument(
        fmt::format("a fused dimension of {} units does not have parts of {}", whole, known));
  if (open) (*local)[*open] = known == 0 ? 0 : whole / known;
  return {};
}

}  // namespace

Result<std::vector<SplitDim>> SplitDimsOf(const Dims& dims, size_t rank, const SizeTable& sizes) {
  TDUMP_ASSIGN_OR_RETURN(const Dims expanded, dims.Expanded(rank));
  std::vector<SplitDim> split;
  for (size_t i = 0; i < expanded.dims.size(); ++i) {
    const TensorDim& dim = expanded.dims[i];
    if (IsSplitByParts(dim)) {
      for (const NamedDim& part : dim.parts)
        split.push_back({part.name, SizeOf(part, sizes), part.axes, i});
    } else if (dim.is_fused()) {
      split.push_back({NameOf(dim), std::nullopt, dim.axes, i});
    } else {
      // A table gives sizes of parts; of a whole dimension only the dims do, as padding is dropped.
      split.push_back({NameOf(dim), dim.parts.front().size, dim.parts.front().axes, i});
    }
  }
  return split;
}

Result<Shape> LocalSizes(const std::vector<SplitDim>& dims, const Shape& shape,
                         const std::vector<uint64_t>& places) {
  Shape local(dims.size());
  for (size_t begin = 0, end = 0; begin < dims.size(); begin = end) {
    while (end < dims.size() && dims[end].dim == dims[begin].dim) ++end;
    const uint64_t whole = shape[dims[begin].dim];
    if (end - begin == 1)
      local[begin] = whole;
    else
      TDUMP_RETURN_IF_ERROR(Solve(dims, begin, end, whole, places, &local));
  }
  return local;
}

}  // namespace tdump::compare
