#include "collectors/torch/components.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

#include <cstring>

namespace tdump::collectors {
namespace {

template <class Impl>
const Impl& ImplOf(const at::TensorBase& tensor) {
  return *static_cast<const Impl*>(tensor.unsafeGetTensorImpl());
}

// Null where it is not known: torch.empty() gives none, and what it gives throws when asked. The
// accessor is not const.
const at::QuantizerPtr QuantizerOf(const at::TensorBase& tensor) {
  at::QuantizerPtr quantizer =
      static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl())->quantizer();
  if (dynamic_cast<const at::UnknownQuantizer*>(quantizer.get()) != nullptr) return {};
  return quantizer;
}

template <class T>
ScalarComponent Scalar(std::string_view name, std::string_view dtype, T value) {
  static_assert(sizeof(T) == 8);
  ScalarComponent scalar{name, MakeDType(dtype, 64), {}};
  std::memcpy(scalar.value.data(), &value, sizeof value);
  return scalar;
}

bool VisitQuantised(const at::TensorBase& tensor, const ComponentVisitor& visit) {
  const at::QuantizerPtr quantizer = QuantizerOf(tensor);
  if (quantizer == nullptr) return false;
  switch (quantizer->qscheme()) {
    case at::kPerTensorAffine: {
      const auto& affine = static_cast<const at::PerTensorAffineQuantizer&>(*quantizer);
      visit.scalar(Scalar("scales", "float64", affine.scale()));
      visit.scalar(Scalar("zero_points", "int64", affine.zero_point()));
      return true;
    }
    case at::kPerChannelAffine:
    case at::kPerChannelAffineFloatQParams: {
      const auto& affine = static_cast<const at::PerChannelAffineQuantizer&>(*quantizer);
      visit.tensor("scales", affine.scales());
      visit.tensor("zero_points", affine.zero_points());
      visit.scalar(Scalar("axis", "int64", affine.axis()));
      return true;
    }
    default:
      return false;
  }
}

void VisitCompressed(const at::TensorBase& tensor, bool rows, const ComponentVisitor& visit) {
  const auto& impl = ImplOf<at::SparseCsrTensorImpl>(tensor);
  visit.tensor(rows ? "crow_indices" : "ccol_indices", impl.compressed_indices());
  visit.tensor(rows ? "col_indices" : "row_indices", impl.plain_indices());
  visit.tensor("values", impl.values());
}

}  // namespace

bool VisitComponents(const at::TensorBase& tensor, Layout layout, const ComponentVisitor& visit) {
  switch (layout) {
    case Layout::kSparseCoo: {
      const auto& impl = ImplOf<at::SparseTensorImpl>(tensor);
      visit.tensor("indices", impl.indices());
      visit.tensor("values", impl.values());
      return true;
    }
    case Layout::kSparseCsr:
    case Layout::kSparseBsr:
      VisitCompressed(tensor, true, visit);
      return true;
    case Layout::kSparseCsc:
    case Layout::kSparseBsc:
      VisitCompressed(tensor, false, visit);
      return true;
    case Layout::kNested: {
      const auto& impl = ImplOf<at::native::NestedTensorImpl>(tensor);
      visit.tensor("values", impl.get_unsafe_storage_as_tensor());
      visit.tensor("sizes", impl.get_nested_sizes());
      visit.tensor("strides", impl.get_nested_strides());
      visit.tensor("offsets", impl.get_storage_offsets());
      return true;
    }
    case Layout::kStrided:
      return tensor.is_quantized() && VisitQuantised(tensor, visit);
    default:
      return false;
  }
}

std::string_view SchemeOf(const at::TensorBase& tensor, Layout layout) {
  if (layout == Layout::kSparseCoo)
    return ImplOf<at::SparseTensorImpl>(tensor).coalesced() ? "coalesced" : "uncoalesced";
  if (layout != Layout::kStrided || !tensor.is_quantized()) return "";
  const at::QuantizerPtr quantizer = QuantizerOf(tensor);
  if (quantizer == nullptr) return "unknown quantizer";
  switch (quantizer->qscheme()) {
    case at::kPerTensorAffine:
      return "per_tensor_affine";
    case at::kPerChannelAffine:
      return "per_channel_affine";
    case at::kPerChannelAffineFloatQParams:
      return "per_channel_affine_float_qparams";
    default:
      return "unknown quantizer";
  }
}

}  // namespace tdump::collectors
