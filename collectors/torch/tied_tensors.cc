#include "collectors/torch/tied_tensors.h"

#include <ATen/core/TensorBase.h>

#include "collectors/torch/tensor_view.h"

namespace tdump::collectors {
namespace {

bool RulesAskFor(Recorder& recorder, const Recorder::CallScope& scope, Role role,
                 std::string_view arg, const at::TensorBase& tensor) {
  TensorView view;
  try {
    if (!DescribeShape(tensor, "", &view)) return false;
  } catch (const c10::Error&) {  // Capture says so
    return false;
  }
  uint64_t numel = 1;
  for (const int64_t size : view.meta.sizes) numel *= static_cast<uint64_t>(size);
  const ObservationKey key{.role = role,
                           .arg = arg,
                           .dtype = view.meta.dtype.view(),
                           .numel = numel,
                           .step = recorder.gate().step.load(std::memory_order_relaxed)};
  // The signature asks for first states only, which the key says this is not.
  return recorder.plan().observe(scope.rule, key).parts != kPartNone;
}

}  // namespace

bool TiedTensors::IsNew(Recorder& recorder, const Recorder::CallScope& scope, Role role,
                        std::string_view arg, const at::TensorBase& tensor, const void* identity) {
  const bool is_first = met_.Insert(identity);
  return RulesAskFor(recorder, scope, role, arg, tensor) ? asked_.Insert(identity) : is_first;
}

}  // namespace tdump::collectors
