// Value: what the bytes of one element mean. Decoding goes by the dtype's name; one that is not
// known is shown as its bits. Nothing is rounded on the way: integers of any width stay integers
// (uint64 never passes through a double), and every float of at most 64 bits is exact in a double.
//
// Formats: IEEE 754; bfloat16; OCP 8-bit Floating Point Specification (e4m3fn, e5m2); the "fnuz"
// variants (no -0, no infinity, 0x80 is the one NaN); OCP Microscaling Formats (e8m0fnu: 2^(n-127),
// 0xFF is NaN; e2m1fn: neither NaN nor infinity).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/types.h"

namespace tdump::io {

enum class ValueKind : uint8_t { kFloat, kComplex, kSigned, kUnsigned, kBool, kBits };

struct Value {
  ValueKind kind = ValueKind::kBits;
  double real = 0;       // kFloat, kComplex
  double imaginary = 0;  // kComplex
  int64_t integer = 0;   // kSigned
  uint64_t natural = 0;  // kUnsigned, kBool (the raw byte), kBits (the low 64 bits)
  int bits = 0;          // of the element
};

// Decodes the elements of one dtype. Cheap to make, thread-safe.
class ValueDecoder {
 public:
  explicit ValueDecoder(const DType& dtype);

  ValueKind kind() const { return kind_; }
  uint32_t unit_bytes() const { return unit_bytes_; }
  uint32_t elements_per_unit() const { return elements_per_unit_; }

  // `unit`: unit_bytes() little-endian bytes. `element` <
  // elements_per_unit(); element 0 is in the lowest bits.
  Value Decode(std::span<const std::byte> unit, uint32_t element = 0) const;
  // Text that reads back as the same value: "0.1", "-inf", "nan", "18446744073709551615", "true",
  // "1-2j"; bits as "0x" and hexadecimal digits, most significant first.
  std::string Text(std::span<const std::byte> unit, uint32_t element = 0) const;

 private:
  struct FloatFormat {
    int exponent_bits = 0, mantissa_bits = 0, bias = 0;
    enum Specials : uint8_t { kIeee, kFinite, kOneNan, kNegativeZeroNan, kScale } specials = kIeee;
  };
  double DecodeFloat(uint64_t bits) const;
  bool ParseFloat(std::string_view name);
  bool ParseInteger(std::string_view name);

  ValueKind kind_ = ValueKind::kBits;
  uint32_t unit_bytes_;
  uint32_t elements_per_unit_;
  int element_bits_;  // room of an element in the unit
  int value_bits_;    // of them, from the lowest, that are the number; of one part for kComplex
  FloatFormat format_;
};

}  // namespace tdump::io
