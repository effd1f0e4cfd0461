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

// `mantissa` / 2^shift, rounded to nearest even.
uint64_t RoundedShift(uint64_t mantissa, int shift) {
  if (shift > 54) return 0;  // less than half of the smallest number
  const uint64_t odd = (mantissa >> shift) & 1;
  return (mantissa + (uint64_t{1} << (shift - 1)) - 1 + odd) >> shift;
}

// Formats of at most 16 bits: from the bits of the double.
inline uint64_t EncodeSmall(const NumberFormat& f, double value) {
  constexpr int kMantissa = 52, kBias = 1023;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t sign = (bits >> 63) << (f.exponent_bits + f.mantissa_bits);
  const int field = static_cast<int>(bits >> kMantissa) & 0x7FF;
  uint64_t mantissa = bits & ((uint64_t{1} << kMantissa) - 1);
  if (field == 0x7FF) return mantissa != 0 ? NotANumber(f) : sign | TooLarge(f);
  const int least = 1 - f.bias;  // exponent of the smallest normal number
  const int exponent = std::max(field - kBias, least);
  if (exponent > f.bias + 2) return sign | TooLarge(f);
  if (field != 0) mantissa |= uint64_t{1} << kMantissa;
  const int shift = kMantissa - f.mantissa_bits + exponent - (field - kBias);
  uint64_t magnitude =
      (static_cast<uint64_t>(exponent - least) << f.mantissa_bits) + RoundedShift(mantissa, shift);
  if (magnitude > LargestBits(f)) magnitude = TooLarge(f);
  if (f.specials == Specials::kUnsignedZero && magnitude == 0) return 0;
  return sign | magnitude;
}

// With a format that the compiler knows.
template <int kExponentBits, int kMantissaBits>
uint64_t EncodeIeee(double value) {
  constexpr NumberFormat kFormat = {.kind = NumberKind::kFloat,
                                    .bits = 16,
                                    .is_signed = true,
                                    .exponent_bits = kExponentBits,
                                    .mantissa_bits = kMantissaBits,
                                    .bias = (1 << (kExponentBits - 1)) - 1};
  return EncodeSmall(kFormat, value);
}

template <class Unit, class Bits>
void Store(size_t numbers, std::span<std::byte> units, const Bits& bits) {
  for (size_t i = 0; i < numbers; ++i) {
    const auto unit = static_cast<Unit>(bits(i));
    std::memcpy(units.data() + i * sizeof(Unit), &unit, sizeof(Unit));
  }
}

template <class Bits>
void Pack(const DType& dtype, const NumberFormat& format, size_t numbers,
          std::span<std::byte> units, const Bits& bits) {
  const size_t per_unit = static_cast<size_t>(NumbersPerUnit(dtype, format));
  // Complex numbers of more than 32 bits a part do not fit in one word: part by part.
  const size_t packed = format.kind == NumberKind::kComplex ? 1 : per_unit;
  const size_t bytes = dtype.unit_bytes() * packed / per_unit;
  if (packed == 1 && bytes == 1) return Store<uint8_t>(numbers, units, bits);
  if (packed == 1 && bytes == 2) return Store<uint16_t>(numbers, units, bits);
  if (packed == 1 && bytes == 4) return Store<uint32_t>(numbers, units, bits);
  if (packed == 1 && bytes == 8) return Store<uint64_t>(numbers, units, bits);
  for (size_t i = 0; i < numbers; i += packed) {
    uint64_t unit = 0;
    for (size_t k = 0; k < packed; ++k) unit |= bits(i + k) << (format.bits * k);
    std::memcpy(units.data() + i / packed * bytes, &unit, std::min<size_t>(bytes, sizeof(unit)));
  }
}

}  // namespace

void EncodeFloat(const DType& dtype, const NumberFormat& format, std::span<const double> numbers,
                 std::span<std::byte> units) {
  const auto pack = [&](const auto& encode) {
    Pack(dtype, format, numbers.size(), units, [&](size_t i) { return encode(numbers[i]); });
  };
  if (format.bits == 64) return pack([](double x) { return std::bit_cast<uint64_t>(x); });
  if (format.bits == 32)
    return pack(
        [](double x) -> uint64_t { return std::bit_cast<uint32_t>(static_cast<float>(x)); });
  if (format.bits == 16)
    return format.exponent_bits == 8 ? pack(EncodeIeee<8, 7>) : pack(EncodeIeee<5, 10>);
  pack([&](double x) { return EncodeSmall(format, x); });
}

void EncodeInteger(const DType& dtype, const NumberFormat& format,
                   std::span<const __int128> numbers, std::span<std::byte> units) {
  const uint64_t mask = format.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << format.bits) - 1;
  Pack(dtype, format, numbers.size(), units, [&](size_t i) {
    return format.is_bool ? uint64_t{numbers[i] != 0} : static_cast<uint64_t>(numbers[i]) & mask;
  });
}

}  // namespace tdump::compare
