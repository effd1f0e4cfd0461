#include "collectors/torch/capture.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "collectors/torch/components.h"
#include "collectors/torch/device_tensors.h"
#include "collectors/torch/error_text.h"
#include "collectors/torch/local_parts.h"
#include "collectors/torch/part_view.h"
#include "collectors/torch/strided_pieces.h"
#include "collectors/torch/summary.h"
#include "collectors/torch/tensor_view.h"

namespace tdump::collectors {
namespace {

StridedView StridedOf(const TensorView& view) {
  return {view.data, view.meta.sizes, view.meta.strides, view.meta.dtype.unit_bytes()};
}

void CopyInto(const PartView& part, const TensorView& view, const Slot& slot) {
  part.CopyTo(slot.data);
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

// A tensor whose decision is made.
void Store(Sink& sink, const Call& call, Observation observation, const Decision& decision,
           const at::TensorBase& tensor, const TensorView& view, SharedRecord* shared = nullptr) {
  if (view.on_device) return CaptureOnDevice(sink, call, observation, decision, tensor, view);
  if (view.reason != SkipReason::kNone) {
    sink.skip(call, observation, decision, view.reason, view.detail);
    return;
  }
  uint64_t bytes = 0;
  if (!PayloadBytes(view.meta, &bytes)) {
    sink.skip(call, observation, decision, SkipReason::kNoData, "size overflows");
    return;
  }
  if (decision.parts == kPartMeta) bytes = 0;
  const PartView part(decision, StridedOf(view), sink.max_slot());
  observation.content = part.content();
  if (part.content() != Content::kWhole) bytes = part.bytes();
  const bool whole = part.content() == Content::kWhole && bytes != 0;
  if (whole && shared != nullptr && shared->Serves(call, decision))
    return sink.refer(call, observation, decision, shared->record);
  const Slot slot = sink.reserve(call, observation, decision, bytes);
  if (slot.in_pieces) {
    StridedPieces pieces(part.view(), view.kind, view.meta.conj, view.meta.neg);
    sink.stream(call, observation, decision, bytes, &pieces);
    return;
  }
  if (slot.data == nullptr) return;
  try {
    CopyInto(part, view, slot);
    sink.commit(slot);
    if (whole && shared != nullptr)
      *shared = {slot.record, call.pass, decision.parts, decision.compress};
  } catch (...) {
    sink.abandon(slot, SkipReason::kCopyFailed);
  }
}

// "0.indices"; "indices" where the tensor has no name.
std::string ComponentName(std::string_view arg, std::string_view component) {
  std::string name(arg);
  if (!name.empty()) name += '.';
  return name.append(component);
}

void StoreScalar(Sink& sink, const Call& call, Observation observation, const Decision& decision,
                 const ScalarComponent& scalar) {
  observation.meta = TensorMeta();
  observation.meta.dtype = scalar.dtype;
  const Slot slot = sink.reserve(call, observation, decision, scalar.value.size());
  if (slot.data == nullptr) return;
  std::memcpy(slot.data, scalar.value.data(), scalar.value.size());
  sink.commit(slot);
}

void StoreComponents(Sink& sink, const Call& call, const Observation& whole,
                     const Decision& decision, const at::TensorBase& tensor) {
  std::string name;
  const auto named = [&](std::string_view component) {
    Observation observation = whole;
    name = ComponentName(whole.arg, component);
    observation.arg = name;
    observation.content = Content::kWhole;
    return observation;
  };
  ComponentVisitor visit;
  visit.tensor = [&](std::string_view component, const at::TensorBase& part) {
    TensorView view;
    if (!Describe(part, "", &view)) return;
    Observation observation = named(component);
    observation.meta = view.meta;
    Store(sink, call, observation, decision, part, view);
  };
  visit.scalar = [&](const ScalarComponent& scalar) {
    StoreScalar(sink, call, named(scalar.name), decision, scalar);
  };
  VisitComponents(tensor, whole.meta.layout, visit);
}

constexpr uint64_t kSignatureSet = uint64_t{1} << 63;  // as in filters/compiled_plan.h

// The tensor's own record says what it is, with the hash that a signature wants; what `summarise`
// makes of it are components of it.
void StoreSummary(Sink& sink, const Call& call, const Observation& whole, const Decision& decision,
                  const at::TensorBase& tensor, const TensorView& view, Summariser summarise) {
  Decision own;
  own.parts = kPartMeta;
  if ((decision.filter_sets & kSignatureSet) != 0 && view.reason == SkipReason::kNone)
    own.parts |= kPartHash;
  if (own.parts != kPartMeta)
    Store(sink, call, whole, own, tensor, view);
  else
    sink.reserve(call, whole, own, 0);
  if ((decision.filter_sets & ~kSignatureSet) == 0) return;
  Decision kept;
  kept.parts = kLevelFull;
  kept.compress = decision.compress;
  const auto store = [&](std::string_view name, const at::TensorBase& summary) {
    TensorView described;
    if (!Describe(summary, "", &described)) return;
    const std::string arg =
        ComponentName(whole.arg, name.empty() ? "stat" : ComponentName("stat", name));
    Observation observation;
    observation.role = whole.role;
    observation.arg = arg;
    observation.late = whole.late;
    observation.filter_sets = whole.filter_sets;
    observation.meta = described.meta;
    observation.meta.subclass = kSummaryClass;
    Store(sink, call, observation, kept, summary, described);
  };
  const UseSummary use = [](void* context, std::string_view name, const at::TensorBase& summary) {
    (*static_cast<decltype(&store)>(context))(name, summary);
  };
  summarise(tensor, use, const_cast<void*>(static_cast<const void*>(&store)));
}

// What torch does not tell of a tensor costs its values, never the record.
void DescribeDataOrSay(const at::TensorBase& tensor, TensorView* view) {
  try {
    DescribeData(tensor, view);
  } catch (const c10::Error& error) {
    view->data = nullptr;
    view->reason = SkipReason::kCopyFailed;
    view->detail = WhatOf(error);
  }
}

bool IsComposite(Layout layout) {
  return layout >= Layout::kSparseCoo && layout <= Layout::kNested;
}

void CaptureOrThrow(Recorder& recorder, Recorder::CallScope* scope, const Seen& seen,
                    const at::TensorBase& tensor, const ShardOf* shard = nullptr);

// False: the tensor is none of which a process holds a part.
bool CaptureLocalPart(Recorder& recorder, Recorder::CallScope* scope, const Seen& seen,
                      const at::TensorBase& tensor) {
  const auto capture = [&](const at::TensorBase& local, const ShardOf& shard) {
    Seen seen_part = seen;
    seen_part.subclass = shard.local_class;
    CaptureOrThrow(recorder, scope, seen_part, local, &shard);
  };
  const UseLocalPart use = [](void* context, const at::TensorBase& local, const ShardOf& shard) {
    (*static_cast<decltype(&capture)>(context))(local, shard);
  };
  return ReadLocalPart(tensor, use, const_cast<void*>(static_cast<const void*>(&capture)));
}

void CaptureOrThrow(Recorder& recorder, Recorder::CallScope* scope, const Seen& seen,
                    const at::TensorBase& tensor, const ShardOf* shard) {
  TensorView view;
  if (!DescribeShape(tensor, seen.subclass, &view))
    return scope->text.AddText(seen.arg, "undefined");
  if (!Wants(recorder, *scope, seen.role))
    return recorder.NoteArgument(scope, seen.role, seen.arg, view.meta);
  const bool may_be_sharded = shard == nullptr && view.reason == SkipReason::kSubclass;
  if (may_be_sharded && CaptureLocalPart(recorder, scope, seen, tensor)) return;
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
  DescribeDataOrSay(tensor, &view);
  if (seen.under_way && view.reason == SkipReason::kNone) {
    view.data = nullptr;
    view.reason = SkipReason::kNoData;
    view.detail = "not there yet when a collective returns";
  }
  observation.meta = view.meta;
  observation.dims = decision.dims;
  observation.filter_sets = decision.filter_sets;
  if (shard != nullptr) {
    observation.placements = shard->placements;
    observation.mesh = shard->mesh;
    observation.global_shape = shard->global_shape;
    observation.meta.subclass = kDTensorClass;
    observation.meta.requires_grad = shard->requires_grad;
  }
  Sink& sink = recorder.sink();
  const bool is_layout = view.reason == SkipReason::kLayout;
  // Parameters and what an optimizer keeps are no results of operators.
  const bool is_result = seen.role != Role::kParam && seen.role != Role::kState;
  const Summariser summarise = is_result ? CurrentSummariser() : nullptr;
  if (summarise != nullptr && (is_layout || view.reason == SkipReason::kNone))
    return StoreSummary(sink, scope->call, observation, decision, tensor, view, summarise);
  if (is_layout && view.meta.layout == Layout::kJagged && seen.subclass == kJaggedClass) {
    sink.reserve(scope->call, observation, Keep(kPartMeta), 0);
    return;
  }
  if (is_layout && IsComposite(view.meta.layout)) {
    // Its own record says what it is; the values are in those of its components.
    sink.reserve(scope->call, observation, Keep(kPartMeta), 0);
    if (decision.parts != kPartMeta)
      StoreComponents(sink, scope->call, observation, decision, tensor);
    return;
  }
  Store(sink, scope->call, observation, decision, tensor, view, seen.shared);
  if (view.quantised && view.reason == SkipReason::kNone && decision.parts != kPartMeta)
    StoreComponents(sink, scope->call, observation, decision, tensor);
}

}  // namespace

void Capture(Recorder& recorder, Recorder::CallScope* scope, const Seen& seen,
             const at::TensorBase& tensor) noexcept {
  try {
    CaptureOrThrow(recorder, scope, seen, tensor);
  } catch (const std::exception& error) {
    recorder.sink().note("a tensor could not be read: " + WhatOf(error));
  } catch (...) {
    recorder.sink().note("a tensor could not be read");
  }
}

}  // namespace tdump::collectors
