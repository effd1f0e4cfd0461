// Which tensors of a step are integers or float8 numbers with recorded scales.
//
// Scales are looked for where captures have them:
//   components   `X.scales`, `X.zero_points`, `X.axis` beside a tensor with argument X (torch's own
//                quantised tensors, collectors/torch/components.h)
//   parameters   `X_scale`, `X_scale_inv`, `X.scale` of the same module beside a float8, float4 or
//                8-bit integer parameter X; all of them multiply
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compare/scale_grid.h"
#include "compare/step_view.h"

namespace tdump::compare {

// number = (stored - zero point) * scale.
struct Quantised {
  std::vector<double> scales, zero_points;  // zero_points: empty, one, or as many as scales
  double largest_scale = 0;                 // infinite or NaN where one is
  ScaleGrid grid;
  std::optional<io::Hash128> hash;  // of integers, scales and zero points
  std::vector<uint64_t> used;       // ids of scales, zero points and axis
};

struct QuantisedTensors {
  std::map<uint64_t, Quantised> tensors;  // by id
  std::set<uint64_t> used() const;        // ids of their scales, zero points and axes
};

// Whether it could be quantised, and its values are there: not wider than 8 bits, or a qint32.
bool MayBeQuantised(const io::Record& record);
// Whether an argument of this name may hold scales, zero points or an axis.
bool IsOfScales(std::string_view arg);
// Where captures may have the scales of a tensor, the likeliest first.
std::vector<Key> ScaleKeys(const Key& tensor);

// Reads the scales; those that are damaged or do not fit belong to nothing. Errors: the view's.
Result<QuantisedTensors> FindQuantised(const StepView& view);

}  // namespace tdump::compare
