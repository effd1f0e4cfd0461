#include "collectors/torch/capture.h"

#include <algorithm>
#include <stdexcept>

#include "collectors/torch/device_tensors.h"
#include "collectors/torch/strided_pieces.h"
#include "collectors/torch/tensor_view.h"

namespace tdump::collectors {
namespace {

StridedView StridedOf(const TensorView& view) {
  return {view.data, view.meta.sizes, view.meta.strides, view.meta.dtype.unit_bytes()};
}

void CopyInto(const TensorView& view, const Slot& slot) {
  CopyStrided(StridedOf(view), slot.data);
  if (!ResolveSigns({slot.data, slot.bytes}, view.meta.dtype.unit_bytes(), view.kind,
                    view.meta.conj, view.meta.neg)) {
    throw std::runtime_error("no negative of this type");
  }
}

// The format counts the bytes of a tensor, expanded dimensions included, in 63 bits.
bool FitsTheFormat(const TensorMeta& meta) {
  int64_t bytes = std::max<int64_t>(meta.dtype.unit_bytes(), 1);
  bool fits = true;
  for (int64_t size : meta.sizes) {
    if (size == 0) return true;
    fits = fits && !__builtin_mul_overflow(bytes, size, &bytes);
  }
  return fits;
}

void CaptureOrThrow(Recorder& recorder, Recorder::CallScope* scope, const Seen& seen,
                    const at::TensorBase& tensor) {
  TensorView view;
  if (!DescribeShape(tensor, seen.subclass, &view)) return AddText(scope, seen.arg, "undefined");
  if (!Wants(recorder, *scope, seen.role))
    return recorder.NoteArgument(scope, seen.role, seen.arg, view.meta);
  if (!FitsTheFormat(view.meta)) {
    recorder.sink().note(
        "a tensor of more than 2^63 bytes, counted without sharing, is not recorded");
    return;
  }
  Observation observation;
  observation.role = seen.role;
  observation.arg = seen.arg;
  observation.meta = view.meta;
  observation.late = seen.late;
  const Decision decision = recorder.Ask(scope, observation);
  if (decision.parts == kPartNone) return;
  DescribeData(tensor, &view);
  observation.meta = view.meta;
  observation.dims = decision.dims;
  observation.filter_sets = decision.filter_sets;
  Sink& sink = recorder.sink();
  if (view.on_device)
    return CaptureOnDevice(sink, scope->call, observation, decision, tensor, view);
  if (view.reason != SkipReason::kNone) {
    sink.skip(scope->call, observation, decision, view.reason, view.detail);
    return;
  }
  uint64_t bytes = 0;
  if (!PayloadBytes(view.meta, &bytes)) {
    sink.skip(scope->call, observation, decision, SkipReason::kNoData, "size overflows");
    return;
  }
  if (decision.parts == kPartMeta) bytes = 0;
  const Slot slot = sink.reserve(scope->call, observation, decision, bytes);
  if (slot.in_pieces) {
    StridedPieces pieces(StridedOf(view), view.kind, view.meta.conj, view.meta.neg);
    sink.stream(scope->call, observation, decision, bytes, &pieces);
    return;
  }
  if (slot.data == nullptr) return;
  try {
    CopyInto(view, slot);
    sink.commit(slot);
  } catch (...) {
    sink.abandon(slot, SkipReason::kCopyFailed);
  }
}

}  // namespace

void Capture(Recorder& recorder, Recorder::CallScope* scope, const Seen& seen,
             const at::TensorBase& tensor) noexcept {
  try {
    CaptureOrThrow(recorder, scope, seen, tensor);
  } catch (const std::exception& error) {
    recorder.sink().note(std::string("a tensor could not be read: ") + error.what());
  } catch (...) {
    recorder.sink().note("a tensor could not be read");
  }
}

void AddText(Recorder::CallScope* scope, std::string_view name, std::string_view value) noexcept {
  try {
    std::string& text = scope->text;
    if (!HasRoomForText(*scope)) return;
    if (!text.empty()) text += "; ";
    text.append(name).append(name.empty() ? "" : "=").append(value);
    if (text.size() > kMaxText) {
      text.resize(kMaxText - 3);
      while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80)
        text.pop_back();
      if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
      text += "...";
    }
  } catch (...) {
  }
}

}  // namespace tdump::collectors
