// The other way of compare/element.h: numbers -> units of a dtype.
#pragma once

#include <cstddef>
#include <span>

#include "compare/element.h"

namespace tdump::compare {

// Rounds to nearest, ties to even; what is too large becomes infinity, or NaN in formats without
// it, or the largest number in formats without either. Packed numbers go low bits first.
// Preconditions: kFloat or kComplex, but not Specials::kScale; sizes as in DecodeFloat.
void EncodeFloat(const DType& dtype, const NumberFormat& format, std::span<const double> numbers,
                 std::span<std::byte> units);
// Modulo 2^bits. Precondition: kInteger.
void EncodeInteger(const DType& dtype, const NumberFormat& format,
                   std::span<const __int128> numbers, std::span<std::byte> units);

}  // namespace tdump::compare
