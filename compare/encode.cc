#include "compare/encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tdump::compare {
namespace {

uint64_t NotANumber(const NumberFormat& f) {
  const uint64_t mantissa = (uint64_t{1} << f.mantissa_bits) - 1;
  const uint64_t exponent = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  switch (f.specials) {
    case Specials::kIeee:
      return exponent | (uint64_t{1} << (f.mantissa_bits - 1));
    case Specials::kUnsignedZero:
      return uint64_t{1} << (f.exponent_bits + f.mantissa_bits);
    default:  // of kNone, which has none, the largest number
      return exponent | mantissa;
  }
}

// What stands for a magnitude beyond the largest number; without its sign.
uint64_t TooLarge(const NumberFormat& f) {
  if (f.specials == Specials::kIeee)
    return ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  return NotANumber(f);
}

uint64_t LargestBits(const NumberFormat& f) {
  const uint64_t all = (uint64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1;
  switch (f.specials) {
    case Specials::kIeee:
      return TooLarge(f) - 1;
    case Specials::kNanOnly:
      return all - 1;
    default:
      return all;
  }
}

uint64_t EncodeBits(const NumberFormat& f, double value) {
  if (f.bits == 64) return std::bit_cast<uint64_t>(value);
  if (f.bits == 32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const uint64_t sign = uint64_t{std::signbit(value)} << (f.exponent_bits + f.mantissa_bits);
  if (std::isnan(value)) return NotANumber(f);
  uint64_t magnitude = 0;
  if (std::isinf(value)) {
    magnitude = TooLarge(f);
  } else if (value != 0) {
    const int least = 1 - f.bias;  // exponent of the smallest normal number
    const int exponent = std::max(std::ilogb(value), least);
    if (exponent > f.bias + 2) return sign | TooLarge(f);
    const double mantissa = std::nearbyint(std::ldexp(std::abs(value), f.mantissa_bits - exponent));
    magnitude = (static_cast<uint64_t>(exponent - least) << f.mantissa_bits) +
                static_cast<uint64_t>(mantissa);
    if (magnitude > LargestBits(f)) magnitude = TooLarge(f);
  }
  if (f.specials == Specials::kUnsignedZero && magnitude == 0) return 0;
  return sign | magnitude;
}

template <class Bits>
void Pack(const DType& dtype, const NumberFormat& format, size_t numbers,
          std::span<std::byte> units, const Bits& bits) {
  const size_t per_unit = static_cast<size_t>(NumbersPerUnit(dtype, format));
  // Complex numbers of more than 32 bits a part do not fit in one word: part by part.
  const size_t packed = format.kind == NumberKind::kComplex ? 1 : per_unit;
  const size_t bytes = dtype.unit_bytes() * packed / per_unit;
  for (size_t i = 0; i < numbers; i += packed) {
    uint64_t unit = 0;
    for (size_t k = 0; k < packed; ++k) unit |= bits(i + k) << (format.bits * k);
    std::memcpy(units.data() + i / packed * bytes, &unit, std::min<size_t>(bytes, sizeof(unit)));
  }
}

}  // namespace

void EncodeFloat(const DType& dtype, const NumberFormat& format, std::span<const double> numbers,
                 std::span<std::byte> units) {
  Pack(dtype, format, numbers.size(), units,
       [&](size_t i) { return EncodeBits(format, numbers[i]); });
}

void EncodeInteger(const DType& dtype, const NumberFormat& format,
                   std::span<const __int128> numbers, std::span<std::byte> units) {
  const uint64_t mask = format.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << format.bits) - 1;
  Pack(dtype, format, numbers.size(), units, [&](size_t i) {
    return format.is_bool ? uint64_t{numbers[i] != 0} : static_cast<uint64_t>(numbers[i]) & mask;
  });
}

}  // namespace tdump::compare
