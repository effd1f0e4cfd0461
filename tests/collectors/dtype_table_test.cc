#include "collectors/torch/dtype_table.h"

#include <gtest/gtest.h>

#include <map>

namespace tdump::collectors {
namespace {

struct Row {
  const char* name;  // torch.<name>
  int bits;
  int elements;  // per unit
  NumberKind kind;
  bool quantised = false;
};

constexpr auto kInteger = NumberKind::kInteger;
constexpr auto kFloat = NumberKind::kFloat;
constexpr auto kComplex = NumberKind::kComplex;

// Written down from torch's documentation of dtypes. torch keeps intN and uintN one to a byte.
const std::map<c10::ScalarType, Row>& Rows() {
  using T = c10::ScalarType;
  static const std::map<T, Row> rows = {
      {T::Byte, {"uint8", 8, 1, kInteger}},
      {T::Char, {"int8", 8, 1, kInteger}},
      {T::Short, {"int16", 16, 1, kInteger}},
      {T::Int, {"int32", 32, 1, kInteger}},
      {T::Long, {"int64", 64, 1, kInteger}},
      {T::Half, {"float16", 16, 1, kFloat}},
      {T::Float, {"float32", 32, 1, kFloat}},
      {T::Double, {"float64", 64, 1, kFloat}},
      {T::ComplexHalf, {"complex32", 32, 1, kComplex}},
      {T::ComplexFloat, {"complex64", 64, 1, kComplex}},
      {T::ComplexDouble, {"complex128", 128, 1, kComplex}},
      {T::Bool, {"bool", 8, 1, kInteger}},
      {T::QInt8, {"qint8", 8, 1, kInteger, true}},
      {T::QUInt8, {"quint8", 8, 1, kInteger, true}},
      {T::QInt32, {"qint32", 32, 1, kInteger, true}},
      {T::BFloat16, {"bfloat16", 16, 1, kFloat}},
      {T::QUInt4x2, {"quint4x2", 4, 2, kInteger, true}},
      {T::QUInt2x4, {"quint2x4", 2, 4, kInteger, true}},
      {T::Bits1x8, {"bits1x8", 1, 8, kInteger}},
      {T::Bits2x4, {"bits2x4", 2, 4, kInteger}},
      {T::Bits4x2, {"bits4x2", 4, 2, kInteger}},
      {T::Bits8, {"bits8", 8, 1, kInteger}},
      {T::Bits16, {"bits16", 16, 1, kInteger}},
      {T::Float8_e5m2, {"float8_e5m2", 8, 1, kFloat}},
      {T::Float8_e4m3fn, {"float8_e4m3fn", 8, 1, kFloat}},
      {T::Float8_e5m2fnuz, {"float8_e5m2fnuz", 8, 1, kFloat}},
      {T::Float8_e4m3fnuz, {"float8_e4m3fnuz", 8, 1, kFloat}},
      {T::UInt16, {"uint16", 16, 1, kInteger}},
      {T::UInt32, {"uint32", 32, 1, kInteger}},
      {T::UInt64, {"uint64", 64, 1, kInteger}},
      {T::UInt1, {"uint1", 1, 1, kInteger}},
      {T::UInt2, {"uint2", 2, 1, kInteger}},
      {T::UInt3, {"uint3", 3, 1, kInteger}},
      {T::UInt4, {"uint4", 4, 1, kInteger}},
      {T::UInt5, {"uint5", 5, 1, kInteger}},
      {T::UInt6, {"uint6", 6, 1, kInteger}},
      {T::UInt7, {"uint7", 7, 1, kInteger}},
      {T::Int1, {"int1", 1, 1, kInteger}},
      {T::Int2, {"int2", 2, 1, kInteger}},
      {T::Int3, {"int3", 3, 1, kInteger}},
      {T::Int4, {"int4", 4, 1, kInteger}},
      {T::Int5, {"int5", 5, 1, kInteger}},
      {T::Int6, {"int6", 6, 1, kInteger}},
      {T::Int7, {"int7", 7, 1, kInteger}},
      {T::Float8_e8m0fnu, {"float8_e8m0fnu", 8, 1, kFloat}},
      {T::Float4_e2m1fn_x2, {"float4_e2m1fn_x2", 4, 2, kFloat}},
      {static_cast<T>(46), {"bcomplex32", 32, 1, kComplex}},  // by number: not in every torch
  };
  return rows;
}

TEST(DtypeTable, EveryScalarTypeOfThisTorch) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (type == c10::ScalarType::Undefined) continue;
    ASSERT_TRUE(Rows().contains(type)) << "a new scalar type: " << type;
    const Row& row = Rows().at(type);
    const ScalarInfo& info = InfoOf(type);
    EXPECT_EQ(info.dtype.view(), row.name);
    EXPECT_EQ(info.dtype.bits_per_element, row.bits) << row.name;
    EXPECT_EQ(info.dtype.elements_per_unit, row.elements) << row.name;
    EXPECT_EQ(info.dtype.unit_bytes(), c10::elementSize(type)) << row.name;
    EXPECT_EQ(info.kind, row.kind) << row.name;
    EXPECT_EQ(info.quantised, row.quantised) << row.name;
  }
}

TEST(DtypeTable, ATypeOfALaterTorchIsNoCrash) {
  EXPECT_EQ(InfoOf(static_cast<c10::ScalarType>(120)).dtype.view(), "");
}

}  // namespace
}  // namespace tdump::collectors
