#include "compare/foreign/dtypes.h"

#include <string>

#include "core/parse_number.h"

namespace tdump::compare::foreign {
namespace {

// Empty where a format has no such dtype.
struct Row {
  std::string_view torch, storage, safetensors, numpy;
  int bits;
  int per_unit = 1;
};

constexpr Row kRows[] = {
    {"float64", "DoubleStorage", "F64", "f8", 64},
    {"float32", "FloatStorage", "F32", "f4", 32},
    {"float16", "HalfStorage", "F16", "f2", 16},
    {"bfloat16", "BFloat16Storage", "BF16", "", 16},
    {"complex128", "ComplexDoubleStorage", "C128", "c16", 128},
    {"complex64", "ComplexFloatStorage", "C64", "c8", 64},
    {"complex32", "", "", "", 32},
    {"int64", "LongStorage", "I64", "i8", 64},
    {"int32", "IntStorage", "I32", "i4", 32},
    {"int16", "ShortStorage", "I16", "i2", 16},
    {"int8", "CharStorage", "I8", "i1", 8},
    {"uint64", "", "U64", "u8", 64},
    {"uint32", "", "U32", "u4", 32},
    {"uint16", "", "U16", "u2", 16},
    {"uint8", "ByteStorage", "U8", "u1", 8},
    {"bool", "BoolStorage", "BOOL", "b1", 8},
    {"float8_e4m3fn", "", "F8_E4M3", "", 8},
    {"float8_e5m2", "", "F8_E5M2", "", 8},
    {"float8_e4m3fnuz", "", "F8_E4M3FNUZ", "", 8},
    {"float8_e5m2fnuz", "", "F8_E5M2FNUZ", "", 8},
    {"float8_e8m0fnu", "", "F8_E8M0", "", 8},
    {"float4_e2m1fn_x2", "", "F4", "", 4, 2},
    {"qint8", "", "", "", 8},
    {"quint8", "", "", "", 8},
    {"qint32", "", "", "", 32},
};

std::optional<DType> Find(std::string_view Row::*column, std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const Row& row : kRows) {
    if (row.*column == name) return MakeDType(row.torch, row.bits, row.per_unit);
  }
  return std::nullopt;
}

}  // namespace

std::optional<DType> TorchDType(std::string_view name) { return Find(&Row::torch, name); }

std::optional<DType> StorageDType(std::string_view cls) { return Find(&Row::storage, cls); }

std::optional<DType> SafetensorsDType(std::string_view code) {
  return Find(&Row::safetensors, code);
}

std::optional<NumpyDType> ParseNumpyDType(std::string_view descr) {
  if (descr.size() < 2) return std::nullopt;
  const char order = descr.front();
  if (order == '<' || order == '>' || order == '|' || order == '=') descr.remove_prefix(1);
  const std::optional<DType> dtype = Find(&Row::numpy, descr);
  if (!dtype) return std::nullopt;
  return NumpyDType{*dtype, order == '>'};
}

std::optional<NumpyDType> ParseNumpyDType(std::string_view descr, std::string_view torch_name) {
  const std::optional<DType> dtype = TorchDType(torch_name);
  const size_t kind = descr.find_first_of("uV");
  if (!dtype || kind > 1 || ParseNumber<uint32_t>(descr.substr(kind + 1)) != dtype->unit_bytes())
    return ParseNumpyDType(descr);
  return NumpyDType{*dtype, descr.front() == '>'};
}

}  // namespace tdump::compare::foreign
