// What tdump records of an at::Tensor: its meta data, whether its bytes
// can be read, and where they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectors/torch/export.h"
#include "collectors/torch/strided_copy.h"
#include "core/types.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// A description that borrows from the tensor: valid while the tensor is, for one call. `reason`
// other than kNone means that the tensor has no plain strided CPU data; `detail` then says more.
// Only fields are read, no operator is called.
struct TensorView {
  TensorMeta meta;
  SkipReason reason = SkipReason::kNone;
  std::string detail;
  // First element; set when reason is kNone and the tensor is not empty.
  const std::byte* data = nullptr;
  // The same of a strided tensor on a device, in the device's memory. `reason` is kNotOnCpu.
  uint64_t device_data = 0;
  bool on_device = false;  // device_data is set, or the tensor is empty
  NumberKind kind = NumberKind::kInteger;
  bool quantised = false;  // the data are the integers (collectors/torch/components.h)

  // Storage behind the views in `meta`.
  std::string subclass;
  std::vector<int64_t> symbolic_sizes;
};

// `subclass` is the Python class of the tensor when that is not torch.Tensor or Parameter. False:
// the tensor is undefined.
TDUMP_TORCH_EXPORT bool Describe(const at::TensorBase& tensor, std::string_view subclass,
                                 TensorView* view);
// The same in two parts: dtype, shape and kind of tensor, which the call record needs of every
// argument; then, of what is kept, where its bytes are. Between the two `reason` may still be
// kNone.
bool DescribeShape(const at::TensorBase& tensor, std::string_view subclass, TensorView* view);
void DescribeData(const at::TensorBase& tensor, TensorView* view);

}  // namespace tdump::collectors
