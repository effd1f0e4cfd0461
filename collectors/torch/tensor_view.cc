#include "collectors/torch/tensor_view.h"

#include <ATen/core/TensorBase.h>

#include <utility>

#include "collectors/torch/components.h"
#include "collectors/torch/device_text.h"
#include "collectors/torch/dtype_table.h"

namespace tdump::collectors {
namespace {

using c10::DispatchKey;
using c10::TensorImpl;

Layout LayoutOf(const TensorImpl& impl) {
  if (impl.key_set().has_backend(c10::BackendComponent::CPUBit) &&
      impl.key_set().has(DispatchKey::NestedTensor)) {
    return Layout::kNested;
  }
  switch (impl.layout()) {
    case c10::Layout::Strided:
      return Layout::kStrided;
    case c10::Layout::Sparse:
      return Layout::kSparseCoo;
    case c10::Layout::SparseCsr:
      return Layout::kSparseCsr;
    case c10::Layout::SparseCsc:
      return Layout::kSparseCsc;
    case c10::Layout::SparseBsr:
      return Layout::kSparseBsr;
    case c10::Layout::SparseBsc:
      return Layout::kSparseBsc;
    case c10::Layout::Mkldnn:
      return Layout::kMkldnn;
    case c10::Layout::Jagged:
      return Layout::kJagged;
    default:
      return Layout::kOpaque;
  }
}

void Refuse(TensorView* view, SkipReason reason, std::string detail) {
  view->reason = reason;
  view->detail = std::move(detail);
}

// Tensors whose shape is real but whose data is somewhere else or nowhere:
// wrappers of transforms and of Python.
void RefuseWrapper(const TensorImpl& impl, TensorView* view) {
  const c10::DispatchKeySet keys = impl.key_set();
  if (keys.has(DispatchKey::FuncTorchBatched) || keys.has(DispatchKey::Batched)) {
    Refuse(view, SkipReason::kNoData, "batched (vmap)");
  } else if (keys.has(DispatchKey::FuncTorchGradWrapper)) {
    Refuse(view, SkipReason::kNoData, "functorch wrapper");
  } else if (keys.has(DispatchKey::Functionalize)) {
    Refuse(view, SkipReason::kNoData, "functional");
  } else if (impl.is_python_dispatch()) {
    // A fake tensor is a meta tensor that reports another device.
    const bool fake = view->subclass == "FakeTensor" || view->subclass == "FunctionalTensor";
    const bool jagged = impl.layout() == c10::Layout::Jagged;
    view->meta.layout = jagged ? Layout::kJagged : Layout::kSubclass;
    const SkipReason reason = fake     ? SkipReason::kNoData
                              : jagged ? SkipReason::kLayout
                                       : SkipReason::kSubclass;
    Refuse(view, reason, view->subclass.empty() ? "Python subclass" : view->subclass);
  }
}

// Number of units from the first element to one past the last; false
// for an overflow or an empty tensor.
bool ExtentOf(const TensorMeta& meta, uint64_t* units) {
  uint64_t extent = 1;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i] <= 0 || meta.strides[i] < 0) return false;
    uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(meta.sizes[i] - 1),
                               static_cast<uint64_t>(meta.strides[i]), &reach) ||
        __builtin_add_overflow(extent, reach, &extent)) {
      return false;
    }
  }
  *units = extent;
  return true;
}

// Strided tensors with a storage: finds the bytes and makes sure that they are all there (a storage
// may have been resized to nothing, as FSDP does with parameters it gathers later).
void FindData(const TensorImpl& impl, TensorView* view) {
  if (!impl.has_storage()) {
    view->meta.layout = Layout::kOpaque;
    return Refuse(view, SkipReason::kLayout, "opaque");
  }
  const c10::Storage& storage = impl.unsafe_storage();
  TensorMeta& meta = view->meta;
  meta.storage_offset = impl.storage_offset();
  meta.storage_bytes = storage.nbytes();
  // The const pointer: copy-on-write stays lazy.
  const auto* base = static_cast<const std::byte*>(storage.data());
  meta.storage_id = meta.storage_bytes == 0 ? 0 : reinterpret_cast<uint64_t>(base);
  for (int64_t size : meta.sizes) {
    if (size == 0) return;  // empty: no bytes, nothing to find
  }
  uint64_t units = 0, end = 0;
  const uint64_t unit = meta.dtype.unit_bytes();
  const bool fits =
      ExtentOf(meta, &units) &&
      !__builtin_add_overflow(units, static_cast<uint64_t>(meta.storage_offset), &end) &&
      !__builtin_mul_overflow(end, unit, &end) && end <= meta.storage_bytes;
  if (base == nullptr || !fits)
    return Refuse(view, SkipReason::kNoData, "storage freed or too small");
  view->data = base + meta.storage_offset * unit;
}

// A shape with sizes that are no numbers (ragged, symbolic) is not recorded
// as one: `detail` says it in words.
void DescribeSymbolicShape(const TensorImpl& impl, TensorView* view) {
  bool known = true;
  std::string text;
  for (const c10::SymInt& size : impl.sym_sizes_default()) {
    const std::optional<int64_t> number = size.maybe_as_int();
    known &= number.has_value();
    view->symbolic_sizes.push_back(number.value_or(0));
    text += (text.empty() ? "" : ", ") + (number ? std::to_string(*number) : "?");
  }
  if (known)
    view->meta.sizes = view->symbolic_sizes;
  else
    view->detail += (view->detail.empty() ? "(" : " (") + text + ")";
}

void DescribeSizes(const TensorImpl& impl, TensorView* view) {
  TensorMeta& meta = view->meta;
  if (impl.has_symbolic_sizes_strides()) return DescribeSymbolicShape(impl, view);
  if (meta.layout == Layout::kNested) return;  // one shape for each of its tensors
  const c10::IntArrayRef sizes = impl.sizes_default();
  meta.sizes = {sizes.data(), sizes.size()};
  if (meta.layout == Layout::kStrided) {
    const c10::IntArrayRef strides = impl.strides_default();
    meta.strides = {strides.data(), strides.size()};
  }
}

// A CUDA tensor with plain strided data: where it is, for the collector of the device.
void DescribeOnDevice(const TensorImpl& impl, TensorView* view) {
  if (impl.device().is_cuda() && view->meta.layout == Layout::kStrided &&
      !InfoOf(c10::typeMetaToScalarType(impl.dtype())).quantised) {
    FindData(impl, view);
    if (view->reason != SkipReason::kNone) return;
    view->on_device = true;
    view->device_data = reinterpret_cast<uint64_t>(std::exchange(view->data, nullptr));
  }
  Refuse(view, SkipReason::kNotOnCpu, std::string(view->meta.device));
}

void DescribeScheme(const at::TensorBase& tensor, TensorView* view) {
  if (view->subclass.empty()) view->subclass = SchemeOf(tensor, view->meta.layout);
  view->meta.subclass = view->subclass;
}

void DescribeComposite(const at::TensorBase& tensor, TensorView* view) {
  DescribeScheme(tensor, view);
  Refuse(view, SkipReason::kLayout, std::string(ToString(view->meta.layout)));
}

// The integers lie in a storage like any others, unless several share a byte: then torch's sizes
// are not those of what lies there.
void DescribeQuantised(const at::TensorBase& tensor, TensorView* view) {
  DescribeScheme(tensor, view);
  view->quantised = true;
  if (view->meta.dtype.elements_per_unit != 1)
    return Refuse(view, SkipReason::kLayout, "quantised, packed");
  FindData(*tensor.unsafeGetTensorImpl(), view);
}

}  // namespace

bool DescribeShape(const at::TensorBase& tensor, std::string_view subclass, TensorView* view) {
  if (!tensor.defined()) return false;
  const TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  TensorMeta& meta = view->meta;
  const ScalarInfo& scalar = InfoOf(c10::typeMetaToScalarType(impl.dtype()));
  meta.dtype = scalar.dtype;
  view->kind = scalar.kind;
  view->subclass = subclass;
  meta.layout = LayoutOf(impl);
  RefuseWrapper(impl, view);
  DescribeSizes(impl, view);
  meta.subclass = view->subclass;
  return true;
}

void DescribeData(const at::TensorBase& tensor, TensorView* view) {
  const TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  TensorMeta& meta = view->meta;
  const c10::Device device = impl.device();
  if (!device.is_cpu()) meta.device = DeviceText(device);
  meta.conj = impl.is_conj();
  meta.neg = impl.is_neg();
  meta.requires_grad = impl.requires_grad();
  if (view->reason != SkipReason::kNone) return;  // a wrapper
  if (device.is_meta())
    Refuse(view, SkipReason::kNoData, "meta");
  else if (!device.is_cpu())
    DescribeOnDevice(impl, view);
  else if (meta.layout != Layout::kStrided)
    DescribeComposite(tensor, view);
  else if (InfoOf(c10::typeMetaToScalarType(impl.dtype())).quantised)
    DescribeQuantised(tensor, view);
  else
    FindData(impl, view);
}

bool Describe(const at::TensorBase& tensor, std::string_view subclass, TensorView* view) {
  if (!DescribeShape(tensor, subclass, view)) return false;
  DescribeData(tensor, view);
  return true;
}

}  // namespace tdump::collectors
