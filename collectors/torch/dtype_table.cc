#include "collectors/torch/dtype_table.h"

#include <array>

namespace tdump::collectors {
namespace {

using c10::ScalarType;
constexpr size_t kTypes = static_cast<size_t>(ScalarType::NumOptions);

struct Packing {
  ScalarType type;
  int bits;
  int elements;
};

// Everything whose element is not simply `itemsize` bytes wide. torch
// stores intN and uintN one to a byte.
constexpr Packing kPacked[] = {
    {ScalarType::UInt1, 1, 1},    {ScalarType::UInt2, 2, 1},
    {ScalarType::UInt3, 3, 1},    {ScalarType::UInt4, 4, 1},
    {ScalarType::UInt5, 5, 1},    {ScalarType::UInt6, 6, 1},
    {ScalarType::UInt7, 7, 1},    {ScalarType::Int1, 1, 1},
    {ScalarType::Int2, 2, 1},     {ScalarType::Int3, 3, 1},
    {ScalarType::Int4, 4, 1},     {ScalarType::Int5, 5, 1},
    {ScalarType::Int6, 6, 1},     {ScalarType::Int7, 7, 1},
    {ScalarType::Bits1x8, 1, 8},  {ScalarType::Bits2x4, 2, 4},
    {ScalarType::Bits4x2, 4, 2},  {ScalarType::QUInt4x2, 4, 2},
    {ScalarType::QUInt2x4, 2, 4}, {ScalarType::Float4_e2m1fn_x2, 4, 2},
};

NumberKind KindOf(ScalarType type) {
  if (c10::isComplexType(type)) return NumberKind::kComplex;
  if (c10::isFloatingType(type)) return NumberKind::kFloat;
  return NumberKind::kInteger;
}

ScalarInfo Make(ScalarType type) {
  ScalarInfo info;
  int bits = static_cast<int>(c10::elementSize(type)) * 8;
  int elements = 1;
  for (const Packing& packed : kPacked) {
    if (packed.type != type) continue;
    bits = packed.bits;
    elements = packed.elements;
  }
  info.dtype = MakeDType(std::string(c10::getDtypeNames(type).first), bits, elements);
  info.kind = KindOf(type);
  info.quantised = c10::isQIntType(type);
  return info;
}

std::array<ScalarInfo, kTypes> MakeAll() {
  std::array<ScalarInfo, kTypes> table;
  for (size_t i = 0; i < kTypes; ++i) {
    const auto type = static_cast<ScalarType>(i);
    if (type == ScalarType::Undefined) continue;
    try {
      table[i] = Make(type);
    } catch (...) {
      table[i].dtype = MakeDType("unknown", 8);
    }
  }
  return table;
}

}  // namespace

const ScalarInfo& InfoOf(c10::ScalarType type) {
  static const std::array<ScalarInfo, kTypes> table = MakeAll();
  const auto i = static_cast<size_t>(type);
  return table[i < kTypes ? i : static_cast<size_t>(ScalarType::Undefined)];
}

}  // namespace tdump::collectors
