#include "collectors/torch/kernel_print.h"

#include <ATen/core/TensorBase.h>

#include <vector>

#include "collectors/torch/tensor_view.h"

namespace tdump::collectors {
namespace {

// The canonical payload.
std::span<const std::byte> Payload(const TensorView& view, std::vector<std::byte>* copy) {
  uint64_t bytes = 0;
  if (!PayloadBytes(view.meta, &bytes) || bytes == 0) return {};
  copy->resize(bytes);
  CopyStrided({view.data, view.meta.sizes, view.meta.strides, view.meta.dtype.unit_bytes()},
              copy->data());
  ResolveSigns(*copy, view.meta.dtype.unit_bytes(), view.kind, view.meta.conj, view.meta.neg);
  return *copy;
}

}  // namespace

void PrintArgument(Recorder* recorder, Recorder::CallScope* scope, KernelReports* reports,
                   std::string_view kernel, const Seen& seen, const at::TensorBase& tensor) {
  TensorView view;
  if (!Describe(tensor, "", &view)) return;
  Observation observation;
  observation.role = seen.role;
  observation.arg = seen.arg;
  observation.meta = view.meta;
  const Decision decision = recorder->Ask(scope, observation);
  scope->call.was_kept = false;  // nothing of it comes to the disk
  if (decision.parts == kPartNone) return;
  std::vector<std::byte> copy;
  PrintedTensor printed{.kernel = kernel,
                        .call = scope->call.index,
                        .role = seen.role,
                        .arg = seen.arg,
                        .meta = &view.meta};
  if (view.reason == SkipReason::kNone)
    printed.bytes = Payload(view, &copy);
  else
    printed.why_not = view.detail.empty() ? ToString(view.reason) : std::string_view(view.detail);
  reports->Print(printed);
}

}  // namespace tdump::collectors
