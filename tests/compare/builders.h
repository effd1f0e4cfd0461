// Records and payloads made by hand, and measured, for the tests of compare/.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "compare/metrics.h"
#include "io/hash.h"
#include "io/records.h"

namespace tdump::compare {

inline DType DTypeOf(const std::string& name) {
  struct Known {
    const char* name;
    int bits, per_unit;
  };
  static constexpr Known kKnown[] = {{"float64", 64, 1},
                                     {"float32", 32, 1},
                                     {"float16", 16, 1},
                                     {"bfloat16", 16, 1},
                                     {"int64", 64, 1},
                                     {"int32", 32, 1},
                                     {"int16", 16, 1},
                                     {"int8", 8, 1},
                                     {"uint64", 64, 1},
                                     {"uint32", 32, 1},
                                     {"uint16", 16, 1},
                                     {"uint8", 8, 1},
                                     {"bool", 8, 1},
                                     {"complex64", 64, 1},
                                     {"complex128", 128, 1},
                                     {"complex32", 32, 1},
                                     {"bcomplex32", 32, 1},
                                     {"int4", 4, 1},
                                     {"uint2", 2, 1},
                                     {"float8_e4m3fn", 8, 1},
                                     {"float8_e5m2", 8, 1},
                                     {"float8_e4m3fnuz", 8, 1},
                                     {"float8_e5m2fnuz", 8, 1},
                                     {"float8_e8m0fnu", 8, 1},
                                     {"float4_e2m1fn_x2", 4, 2},
                                     {"bits16", 16, 1}};
  for (const Known& known : kKnown) {
    if (name == known.name) return MakeDType(name, known.bits, known.per_unit);
  }
  return MakeDType(name, 8);
}

// A tensor in memory: its record, and the canonical payload. Kept in full, with hash.
struct Tensor {
  io::Record record;
  std::vector<std::byte> payload;

  Operand operand() const { return {&record, FromMemory(payload)}; }
};

inline Tensor MakeTensorBytes(const std::string& dtype, std::vector<int64_t> sizes,
                              std::vector<std::byte> payload) {
  Tensor tensor;
  io::Record& record = tensor.record;
  record.dtype = DTypeOf(dtype);
  record.sizes = std::move(sizes);
  record.strides = ContiguousStrides(record.sizes);
  record.parts_asked = record.parts_kept = kLevelFull;
  record.hash = io::HashPayload(payload);
  record.payload = io::PayloadRef{.stored_bytes = payload.size(), .logical_bytes = payload.size()};
  tensor.payload = std::move(payload);
  return tensor;
}

template <class T>
Tensor MakeTensor(const std::string& dtype, std::vector<int64_t> sizes,
                  const std::vector<T>& values) {
  std::vector<std::byte> payload(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(payload.data(), values.data(), payload.size());
  return MakeTensorBytes(dtype, std::move(sizes), std::move(payload));
}

template <class T>
Tensor Vector(const std::string& dtype, const std::vector<T>& values) {
  return MakeTensor<T>(dtype, {static_cast<int64_t>(values.size())}, values);
}

inline Metrics MeasureOk(const Tensor& a, const Tensor& b, const Bound& bound = {}) {
  Result<Metrics> metrics = Measure(a.operand(), b.operand(), bound);
  EXPECT_TRUE(metrics.ok()) << metrics.status().ToString();
  return metrics.ok() ? *metrics : Metrics{};
}

}  // namespace tdump::compare
