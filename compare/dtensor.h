// DTensor: what torch says of a distributed tensor, as Dims and Topology.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compare/topology.h"
#include "settings/dims.h"

namespace tdump::compare {

struct Mesh {
  std::vector<Axis> axes;  // slowest first, as torch counts them
  Topology topology;
};
// "dp=2 tp=4" (slowest first), or as torch prints a DeviceMesh: "DeviceMesh((dp=2, tp=4), 'cuda',
// stride=(4, 1))". Axes without a name are mesh0, mesh1, ... Error (kInvalidArgument): neither.
Result<Mesh> ParseMesh(std::string_view text, int32_t world);

// `placements` as torch prints them, long or short: "(Shard(dim=0), Replicate(), Partial(sum))",
// "(S(0), R, P(sum))"; one for each axis of the mesh. Dimensions are unnamed, but have the sizes of
// `global_shape`. Errors (kInvalidArgument): another text, a reduction other than sum, a dimension
// that is not there.
Result<Dims> DimsOfPlacements(std::string_view placements, const std::vector<Axis>& mesh,
                              const std::vector<int64_t>& global_shape);

}  // namespace tdump::compare
