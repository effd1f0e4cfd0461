// What the bytes of one element mean as a number. Works from the dtype's name and width alone, so
// that formats nobody has listed ("float8_e3m4", "int5") are read too; a name that says nothing is
// kOpaque and compared by its bits only.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/types.h"

namespace tdump::compare {

enum class NumberKind : uint8_t { kOpaque, kInteger, kFloat, kComplex };

// How a float format spells NaN and infinity.
enum class Specials : uint8_t {
  kIeee,          // exponent all ones: infinity, or NaN with a mantissa
  kNanOnly,       // "fn": no infinity, NaN is everything but the sign ones
  kUnsignedZero,  // "fnuz": no infinity, no -0; NaN is the sign bit alone
  kNone,          // "fn" below 8 bits (OCP microscaling): every pattern is finite
  kScale,         // e8m0: a power of two without sign or zero, NaN is all ones
};

struct NumberFormat {
  NumberKind kind = NumberKind::kOpaque;
  int bits = 0;  // of one number: of the real part for kComplex
  bool is_signed = false;
  bool is_bool = false;
  int exponent_bits = 0, mantissa_bits = 0, bias = 0;
  Specials specials = Specials::kIeee;

  // Largest relative error of rounding to nearest (Higham, Accuracy and Stability, 2.2):
  // 2^-(mantissa_bits + 1); 0 for integers.
  double UnitRoundoff() const;
};

NumberFormat FormatOf(const DType& dtype);

// Numbers of one unit: 2 for float4_e2m1fn_x2 and for complex dtypes (real, imaginary), else 1.
int NumbersPerUnit(const DType& dtype, const NumberFormat& format);

// Every pattern of a float format of at most 8 bits; the bits above are not looked at.
std::array<double, 256> SmallTable(const NumberFormat& format);

// Units -> numbers; `numbers.size()` is a multiple of NumbersPerUnit and `units` holds as many.
// Packed numbers come low bits first. DecodeFloat: exact for kFloat and kComplex up to 64 bits and
// for integers up to 53 bits.
void DecodeFloat(const DType& dtype, const NumberFormat& format, std::span<const std::byte> units,
                 std::span<double> numbers);
// DecodeInteger: exact, any width up to 64.
void DecodeInteger(const DType& dtype, const NumberFormat& format, std::span<const std::byte> units,
                   std::span<__int128> numbers);

std::string Int128Text(__int128 value);

}  // namespace tdump::compare
