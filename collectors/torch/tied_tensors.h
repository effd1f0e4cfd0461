// TiedTensors: under which names of one pass a parameter or buffer is recorded that several modules
// hold. Under the first; and where only the signature wanted it there, under the first that the
// user's rules ask for as well.
#pragma once

#include <string_view>

#include "collectors/torch/export.h"
#include "collectors/torch/pointer_set.h"
#include "core/recorder.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// Not thread-safe. Error of IsNew: std::bad_alloc.
class TiedTensors {
 public:
  // Whether `tensor` is to be recorded in the open state of a module. `identity`: the same for all
  // names of the tensor.
  TDUMP_TORCH_EXPORT bool IsNew(Recorder& recorder, const Recorder::CallScope& scope, Role role,
                                std::string_view arg, const at::TensorBase& tensor,
                                const void* identity);
  // Of a new pass.
  void Clear() {
    met_.Clear();
    asked_.Clear();
  }

 private:
  PointerSet met_, asked_;
};

}  // namespace tdump::collectors
