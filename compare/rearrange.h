// Rearrange: the same whole tensor with its dimensions in another order, taken apart or fused:
// [s, b, h] as [b, s, h], [t, h] as [b, s, h], and cropped.
#pragma once

#include "compare/tensor_source.h"
#include "settings/dims.h"

namespace tdump::compare {

// From the order of `from` to that of `to`, by names; how ranks share them is left aside. `t`
// stands for (b s) where the other side has b and s. Sizes of names that are fused in `from` come
// from `sizes`, from name=size of either, or from `to_shape` (may be empty). Errors
// (kInvalidArgument): other names, an unknown or contradicting size.
struct Rearrangement {
  Shape split_shape;  // in the order of `to`, fused dimensions taken apart
  Shape shape;        // fused as in `to`
  Box box;            // the whole of split_shape in the source
  bool identity = false;
};
Result<Rearrangement> PlanRearrange(const Shape& shape, const Dims& from, const Dims& to,
                                    const Shape& to_shape, const SizeTable& sizes = {});
Result<Source> Rearrange(Source source, const Rearrangement& plan);
// The unit of the source that is unit `unit` of the rearranged tensor.
uint64_t UnitOfSource(const Rearrangement& plan, uint64_t unit);

// The part [0, size) of every dimension. Error: not inside.
Result<Source> Crop(Source source, const Shape& size);

}  // namespace tdump::compare
