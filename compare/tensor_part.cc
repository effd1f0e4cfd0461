#include "compare/tensor_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compare/text.h"

namespace tdump::compare {
namespace {

// Pieces of `length` units along an axis, `count` of them, `step` units apart, from `begin` on.
struct Comb {
  uint64_t begin = 0, count = 1, length = 0, step = 0;
};

TensorPart Take(const Shape& shape, size_t axis, const Comb& comb) {
  TensorPart part;
  part.whole = false;
  part.shape = shape;
  part.shape[axis] = comb.count * comb.length;
  uint64_t below = 1;  // units of one index of the axis
  for (size_t i = axis + 1; i < shape.size(); ++i) below *= shape[i];
  uint64_t step = below * shape[axis];  // of one index of the dimension before
  std::vector<uint64_t> outer(axis);
  for (size_t i = axis; i-- > 0; step *= shape[i]) outer[i] = step;
  for (size_t i = 0; i < axis; ++i) {
    part.box.push_back(shape[i]);
    part.stride.push_back(outer[i]);
  }
  part.box.push_back(comb.count);
  part.stride.push_back(comb.step * below);
  part.box.push_back(comb.length);
  part.stride.push_back(below);
  uint64_t inner = below;
  for (size_t i = axis + 1; i < shape.size(); ++i) {
    inner = shape[i] == 0 ? 0 : inner / shape[i];
    part.box.push_back(shape[i]);
    part.stride.push_back(inner);
  }
  part.offset = comb.begin * below;
  return part;
}

Status Misfit(const Shape& shape, size_t axis, std::string_view why) {
  return InvalidArgument(fmt::format("dimension {} of {} {}", axis, ShapeText(shape), why));
}

Result<std::vector<Comb>> EqualCombs(const Shape& shape, size_t axis, size_t count) {
  if (shape[axis] % count != 0)
    return Misfit(shape, axis, fmt::format("is not {} equal parts", count));
  std::vector<Comb> combs;
  const uint64_t length = shape[axis] / count;
  for (size_t i = 0; i < count; ++i)
    combs.push_back({.begin = i * length, .count = 1, .length = length, .step = length});
  return combs;
}

Result<std::vector<Comb>> QkvCombs(const Shape& shape, size_t axis, const QkvLengths& of) {
  if (of.q + 2 * of.kv != shape[axis])
    return Misfit(shape, axis, fmt::format("is not q, k, v of {}, {} and {}", of.q, of.kv, of.kv));
  return std::vector<Comb>{{.begin = 0, .length = of.q, .step = of.q},
                           {.begin = of.q, .length = of.kv, .step = of.kv},
                           {.begin = of.q + of.kv, .length = of.kv, .step = of.kv}};
}

Result<std::vector<Comb>> GroupCombs(const Shape& shape, size_t axis, const QkvLengths& of) {
  const bool fits = of.head != 0 && of.kv % of.head == 0 && of.q + 2 * of.kv == shape[axis];
  const uint64_t groups = fits ? of.kv / of.head : 0;
  if (groups == 0 || of.q % (groups * of.head) != 0) {
    return Misfit(
        shape, axis,
        fmt::format("is not groups of heads of {}: q {}, k {}, v {}", of.head, of.q, of.kv, of.kv));
  }
  const uint64_t queries = of.q / groups, width = queries + 2 * of.head;
  return std::vector<Comb>{
      {.begin = 0, .count = groups, .length = queries, .step = width},
      {.begin = queries, .count = groups, .length = of.head, .step = width},
      {.begin = queries + of.head, .count = groups, .length = of.head, .step = width}};
}

Result<std::vector<Comb>> CombsOf(const Shape& shape, size_t axis, Fusion fusion, size_t count,
                                  const QkvLengths& lengths) {
  if (fusion == Fusion::kEqual) return EqualCombs(shape, axis, count);
  if (count != 3) return InvalidArgument("q, k and v are three names");
  // Lengths come from other tensors and may be anything: sums of them must not wrap.
  if (lengths.q > shape[axis] || lengths.kv > shape[axis] || lengths.head > shape[axis]) {
    return Misfit(
        shape, axis,
        fmt::format("is shorter than q, k, v of {}, {} and {}", lengths.q, lengths.kv, lengths.kv));
  }
  return fusion == Fusion::kQkv ? QkvCombs(shape, axis, lengths) : GroupCombs(shape, axis, lengths);
}

}  // namespace

Result<std::vector<TensorPart>> PartsOf(const Shape& shape, size_t axis, Fusion fusion,
                                        size_t count, const QkvLengths& lengths) {
  std::vector<TensorPart> parts(count);
  if (fusion == Fusion::kNone || fusion == Fusion::kCopy) {
    for (TensorPart& part : parts) part.shape = shape;
    return parts;
  }
  if (uint64_t units = 0; !UnitsOf(shape, &units))
    return InvalidArgument("more units than 64 bits count");
  if (count == 0 || axis >= shape.size())
    return InvalidArgument(fmt::format("{} has no dimension {}", ShapeText(shape), axis));
  TDUMP_ASSIGN_OR_RETURN(const std::vector<Comb> combs,
                         CombsOf(shape, axis, fusion, count, lengths));
  for (size_t i = 0; i < count; ++i) parts[i] = Take(shape, axis, combs[i]);
  return parts;
}

Result<Source> OpenPart(Source tensor, const TensorPart& part) {
  if (part.whole) return tensor;
  Box box;
  box.begin.assign(part.box.size(), 0);
  box.size = part.box;
  box.offset = part.offset;
  box.stride = part.stride;
  TDUMP_ASSIGN_OR_RETURN(Source taken, AssembledTensor::Make(part.box, {std::move(tensor)}, {box}));
  return Reshaped(std::move(taken), part.shape);
}

}  // namespace tdump::compare
