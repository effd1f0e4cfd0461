// What compiled code pays for handing values over, when nothing is done with them: a job that loads
// this library has operators of tdump that return at once, in graphs that hold them already.
#include <torch/library.h>

namespace {

void HandNothingOver(at::TensorList, const std::optional<at::Tensor>&, int64_t, int64_t) {}
void OpenNothing(at::TensorList, int64_t, bool, bool) {}

}  // namespace

// Goes before the operators' own kernels, which are of all devices.
TORCH_LIBRARY_IMPL(tdump, CPU, library) {
  library.impl("traced_call", HandNothingOver);
  library.impl("traced_root", OpenNothing);
}
