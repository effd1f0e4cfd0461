// Components: what a tensor without plain strided data consists of. Each is recorded as a further
// observation of the tensor's key, under its argument's name with a suffix ("0.indices", or
// "indices" where the argument has no name):
//
//   sparse_coo                indices, values (as they are: not coalesced)
//   sparse_csr, sparse_bsr    crow_indices, col_indices, values
//   sparse_csc, sparse_bsc    ccol_indices, row_indices, values
//   nested                    values (the buffer), sizes, strides, offsets
//   quantised                 scales, zero_points and, per channel, axis; the integers are the
//                             payload of the tensor's own record
//
// Reads fields only: no operator is called, nothing is made dense.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "core/types.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// A number that is no tensor: the scale of a tensor that is quantised as a whole.
struct ScalarComponent {
  std::string_view name;
  DType dtype;
  std::array<std::byte, 8> value;
};

struct ComponentVisitor {
  std::function<void(std::string_view name, const at::TensorBase& tensor)> tensor;
  std::function<void(const ScalarComponent& scalar)> scalar;
};

// False: the tensor has none that are known (mkldnn, opaque, a packed quantised type).
bool VisitComponents(const at::TensorBase& tensor, Layout layout, const ComponentVisitor& visit);

// "per_tensor_affine", "coalesced", ...: how the components are to be understood; else "".
std::string_view SchemeOf(const at::TensorBase& tensor, Layout layout);

}  // namespace tdump::collectors
