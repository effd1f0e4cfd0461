#include "compare/foreign/foreign_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "compare/foreign/gather.h"

namespace tdump::compare::foreign {
namespace {

constexpr uint64_t kMostRepeats = 4096;

bool IsEmpty(const ForeignTensor& tensor) {
  return std::find(tensor.sizes.begin(), tensor.sizes.end(), 0) != tensor.sizes.end();
}

// The dimensions of the canonical payload: those with more than one element that are stored.
std::vector<GatherDim> StoredDims(const ForeignTensor& tensor) {
  std::vector<GatherDim> dims;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 1 || tensor.strides[i] == 0) continue;
    dims.push_back(
        {static_cast<uint64_t>(tensor.sizes[i]), static_cast<uint64_t>(tensor.strides[i])});
  }
  return dims;
}

bool IsContiguous(const std::vector<GatherDim>& dims) {
  uint64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i].size) {
    if (dims[i].stride != step) return false;
  }
  return true;
}

// Bytes of the number a byte order applies to.
uint64_t SwapWidth(const DType& dtype) {
  const uint64_t bytes = dtype.unit_bytes();
  return dtype.view().starts_with("complex") ? bytes / 2 : bytes;
}

ReadBytes Swapped(ReadBytes read, uint64_t width) {
  return [read = std::move(read), width](uint64_t offset, std::span<std::byte> out) -> Status {
    if (offset % width != 0 || out.size() % width != 0)
      return Internal("a read of a part of a number");
    TDUMP_RETURN_IF_ERROR(read(offset, out));
    for (size_t at = 0; at < out.size(); at += width)
      std::reverse(out.begin() + static_cast<ptrdiff_t>(at),
                   out.begin() + static_cast<ptrdiff_t>(at + width));
    return {};
  };
}

}  // namespace

Status CheckView(const ForeignTensor& tensor) {
  const auto bad = [&](std::string_view why) {
    return Corrupt(fmt::format("sizes [{}], strides [{}]: {}", fmt::join(tensor.sizes, ", "),
                               fmt::join(tensor.strides, ", "), why));
  };
  if (tensor.sizes.size() != tensor.strides.size()) return bad("as many strides as sizes expected");
  if (tensor.sizes.size() > 64) return bad("more than 64 dimensions");
  uint64_t last = tensor.first, elements = 1;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] < 0) return bad("a negative size");
    if (tensor.strides[i] < 0) return bad("a negative stride");
    uint64_t reach = 0;
    const auto size = static_cast<uint64_t>(tensor.sizes[i]);
    if (__builtin_mul_overflow(elements, std::max<uint64_t>(size, 1), &elements) ||
        __builtin_mul_overflow(std::max<uint64_t>(size, 1) - 1,
                               static_cast<uint64_t>(tensor.strides[i]), &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return bad("more elements than can be counted");
  }
  const uint64_t unit_bytes = tensor.dtype.unit_bytes();
  if (elements > ~uint64_t{0} / 64 / unit_bytes) return bad("more bytes than can be counted");
  if (IsEmpty(tensor)) return {};
  const uint64_t stored = tensor.storage_bytes / unit_bytes;
  if (last >= stored) {
    return bad(fmt::format("element {} lies outside the storage, which has {} bytes", last,
                           tensor.storage_bytes));
  }
  // Windows overlap (unfold), but not without end.
  if (CanonicalBytes(tensor) / unit_bytes / kMostRepeats > stored)
    return bad(fmt::format("every element more than {} times", kMostRepeats));
  return {};
}

uint64_t CanonicalBytes(const ForeignTensor& tensor) {
  if (IsEmpty(tensor)) return 0;
  uint64_t units = 1;
  for (const GatherDim& dim : StoredDims(tensor)) units *= dim.size;
  return units * tensor.dtype.unit_bytes();
}

Result<ReadBytes> OpenCanonical(const ForeignTensor& tensor) {
  const uint64_t total = CanonicalBytes(tensor);
  if (total == 0) return FromMemory({});
  TDUMP_ASSIGN_OR_RETURN(Bytes storage, tensor.open());
  const std::vector<GatherDim> dims = StoredDims(tensor);
  const uint64_t unit_bytes = tensor.dtype.unit_bytes();
  ReadBytes read;
  if (IsContiguous(dims)) {
    const uint64_t begin = tensor.first * unit_bytes;
    read = [storage = PartOf(std::move(storage), begin, total)](
               uint64_t offset, std::span<std::byte> out) { return storage->ReadAt(offset, out); };
  } else {
    read = Gather(std::move(storage), static_cast<uint32_t>(unit_bytes), tensor.first, dims);
  }
  const uint64_t width = SwapWidth(tensor.dtype);
  return tensor.big_endian && width > 1 ? Swapped(std::move(read), width) : std::move(read);
}

}  // namespace tdump::compare::foreign
