#include "collectors/device/strided_source.h"

namespace tdump::collectors {
namespace {

// Merges the dimension into the one before it where both lie like one.
bool Append(uint64_t size, uint64_t stride, StridedSource* source) {
  if (source->dimensions > 0) {
    const uint32_t last = source->dimensions - 1;
    if (source->strides[last] == size * stride) {
      source->sizes[last] *= size;
      source->strides[last] = stride;
      return true;
    }
  }
  if (source->dimensions == StridedSource::kMaxDimensions) return false;
  source->sizes[source->dimensions] = size;
  source->strides[source->dimensions] = stride;
  ++source->dimensions;
  return true;
}

uint64_t SignBit(uint32_t bytes) { return uint64_t{1} << (8 * bytes - 1); }

// The sign bits of the components of a complex number that `conj` and `neg` turn.
bool FlipComplex(uint32_t unit_bytes, bool conj, bool neg, StridedSource* source) {
  if (unit_bytes != 4 && unit_bytes != 8 && unit_bytes != 16) return false;
  const bool real = neg, imaginary = neg != conj;
  const uint32_t half = unit_bytes / 2;
  if (unit_bytes == 16) {
    source->flip[0] = real ? SignBit(8) : 0;
    source->flip[1] = imaginary ? SignBit(8) : 0;
  } else {
    source->flip[0] = (real ? SignBit(half) : 0) | (imaginary ? SignBit(unit_bytes) : 0);
  }
  return true;
}

bool ResolveSigns(uint32_t unit_bytes, NumberKind kind, bool conj, bool neg,
                  StridedSource* source) {
  if (kind == NumberKind::kComplex)
    return (!conj && !neg) || FlipComplex(unit_bytes, conj, neg, source);
  if (!neg) return true;
  if (unit_bytes != 1 && unit_bytes != 2 && unit_bytes != 4 && unit_bytes != 8) return false;
  if (kind == NumberKind::kInteger)
    source->negate = 1;
  else
    source->flip[0] = SignBit(unit_bytes);
  return true;
}

}  // namespace

bool MakeStridedSource(uint64_t address, std::span<const int64_t> sizes,
                       std::span<const int64_t> strides, uint32_t unit_bytes, NumberKind kind,
                       bool conj, bool neg, StridedSource* source) {
  *source = {};
  source->address = address;
  source->unit_bytes = unit_bytes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto size = static_cast<uint64_t>(sizes[i]);
    const auto stride = static_cast<uint64_t>(strides[i]);
    if (size == 1 || stride == 0) continue;
    if (!Append(size, stride, source)) return false;
    source->units *= size;
  }
  return ResolveSigns(unit_bytes, kind, conj, neg, source);
}

}  // namespace tdump::collectors
