#include "compare/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>

#include "compare/names.h"
#include "core/parse_number.h"

namespace tdump::compare {
namespace {

NumberFormat Float(int exponent_bits, int mantissa_bits, Specials specials = Specials::kIeee) {
  NumberFormat format;
  format.kind = NumberKind::kFloat;
  format.bits = 1 + exponent_bits + mantissa_bits;
  format.is_signed = true;
  format.exponent_bits = exponent_bits;
  format.mantissa_bits = mantissa_bits;
  format.bias = (1 << (exponent_bits - 1)) - 1 + (specials == Specials::kUnsignedZero ? 1 : 0);
  format.specials = specials;
  return format;
}

NumberFormat Integer(int bits, bool is_signed) {
  NumberFormat format;
  format.kind = NumberKind::kInteger;
  format.bits = bits;
  format.is_signed = is_signed;
  return format;
}

// "float8_e4m3fnuz", "float4_e2m1fn_x2": the exponent and mantissa are in the name.
bool ParseMinifloat(std::string_view name, NumberFormat* format) {
  int bits = 0, exponent = 0, mantissa = 0;
  if (!TakePrefix(&name, "float") || !TakeNumber(&name, &bits) || !TakePrefix(&name, "_e") ||
      !TakeNumber(&name, &exponent) || !TakePrefix(&name, "m") || !TakeNumber(&name, &mantissa)) {
    return false;
  }
  if (const size_t packed = name.find('_'); packed != std::string_view::npos)
    name = name.substr(0, packed);
  if (exponent < 1 || exponent > 8 || mantissa < 0 || bits > 8) return false;
  if (name == "fnu" && mantissa == 0) {
    *format = Float(exponent, 0, Specials::kScale);
    format->is_signed = false;
    format->bits = exponent;
  } else if (name == "fnuz") {
    *format = Float(exponent, mantissa, Specials::kUnsignedZero);
  } else if (name == "fn") {
    *format = Float(exponent, mantissa, bits == 8 ? Specials::kNanOnly : Specials::kNone);
  } else if (name.empty()) {
    *format = Float(exponent, mantissa);
  } else {
    return false;
  }
  return format->bits == bits;
}

// "int8", "uint4", and the integers under a quantised tensor: "qint8", "quint4x2" (two a byte).
bool ParseInteger(std::string_view name, NumberFormat* format) {
  if (TakePrefix(&name, "q")) name = name.substr(0, name.find('x'));
  const bool is_unsigned = TakePrefix(&name, "u");
  int bits = 0;
  if (!TakePrefix(&name, "int") || !TakeNumber(&name, &bits) || !name.empty()) return false;
  if (bits < 1 || bits > 64) return false;
  *format = Integer(bits, !is_unsigned);
  return true;
}

uint64_t LoadUnit(const std::byte* bytes, uint32_t unit_bytes) {
  // Little-endian hosts only, as the format's payloads.
  uint64_t value = 0;
  std::memcpy(&value, bytes, std::min<uint32_t>(unit_bytes, 8));
  return value;
}

double DecodeBits(const NumberFormat& f, uint64_t raw) {
  const uint64_t mantissa_mask = (uint64_t{1} << f.mantissa_bits) - 1;
  const uint64_t exponent_mask = (uint64_t{1} << f.exponent_bits) - 1;
  const uint64_t mantissa = raw & mantissa_mask;
  const uint64_t exponent = (raw >> f.mantissa_bits) & exponent_mask;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (f.specials == Specials::kScale) {
    return exponent == exponent_mask ? nan : std::ldexp(1.0, static_cast<int>(exponent) - f.bias);
  }
  const bool negative = (raw >> (f.mantissa_bits + f.exponent_bits)) & 1;
  const double sign = negative ? -1.0 : 1.0;
  if (f.specials == Specials::kUnsignedZero && negative && exponent == 0 && mantissa == 0)
    return nan;
  if (exponent == exponent_mask) {
    if (f.specials == Specials::kIeee)
      return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : nan;
    if (f.specials == Specials::kNanOnly && mantissa == mantissa_mask) return nan;
  }
  const int shift = 1 - f.bias - f.mantissa_bits;
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(mantissa), shift);
  return sign * std::ldexp(static_cast<double>(mantissa | (mantissa_mask + 1)),
                           static_cast<int>(exponent) - 1 + shift);
}

double HalfToDouble(uint16_t half) {
  uint32_t bits = static_cast<uint32_t>(half & 0x7FFF) << 13;
  float value;
  if ((half & 0x7C00) == 0x7C00) {
    value = std::bit_cast<float>(bits | 0x7F80'0000u);
  } else {
    value = std::bit_cast<float>(bits) * 0x1p112f;
  }
  return (half & 0x8000) != 0 ? -value : value;
}

template <class T>
T Load(const std::byte* bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

void DecodeFloatNumbers(const NumberFormat& format, int per_unit, std::span<const std::byte> units,
                        std::span<double> numbers) {
  const std::byte* bytes = units.data();
  const size_t n = numbers.size();
  if (format.bits == 64) {
    std::memcpy(numbers.data(), bytes, n * 8);
  } else if (format.bits == 32) {
    for (size_t i = 0; i < n; ++i) numbers[i] = Load<float>(bytes, i);
  } else if (format.bits == 16 && format.exponent_bits == 8) {
    for (size_t i = 0; i < n; ++i) {
      numbers[i] = std::bit_cast<float>(static_cast<uint32_t>(Load<uint16_t>(bytes, i)) << 16);
    }
  } else if (format.bits == 16) {
    for (size_t i = 0; i < n; ++i) numbers[i] = HalfToDouble(Load<uint16_t>(bytes, i));
  } else {
    const std::array<double, 256> table = SmallTable(format);
    const int packed = per_unit;
    for (size_t i = 0; i < n; ++i) {
      const auto unit = static_cast<uint8_t>(bytes[i / packed]);
      numbers[i] = table[static_cast<uint8_t>(unit >> (format.bits * (i % packed)))];
    }
  }
}

template <class T>
void ConvertAs(const std::byte* bytes, std::span<double> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = Load<T>(bytes, i);
}

// Integers of whole bytes up to four, one in each unit. False: others.
bool DecodeNarrowIntegers(const DType& dtype, const NumberFormat& format, const std::byte* bytes,
                          std::span<double> numbers) {
  if (dtype.unit_bytes() * 8 != static_cast<uint32_t>(format.bits)) return false;
  if (format.is_bool) {
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = bytes[i] != std::byte{0};
    return true;
  }
  switch (format.bits) {
    case 8:
      format.is_signed ? ConvertAs<int8_t>(bytes, numbers) : ConvertAs<uint8_t>(bytes, numbers);
      return true;
    case 16:
      format.is_signed ? ConvertAs<int16_t>(bytes, numbers) : ConvertAs<uint16_t>(bytes, numbers);
      return true;
    case 32:
      format.is_signed ? ConvertAs<int32_t>(bytes, numbers) : ConvertAs<uint32_t>(bytes, numbers);
      return true;
    default:
      return false;
  }
}

}  // namespace

double NumberFormat::UnitRoundoff() const {
  return kind == NumberKind::kFloat || kind == NumberKind::kComplex
             ? std::ldexp(1.0, -(mantissa_bits + 1))
             : 0.0;
}

std::array<double, 256> SmallTable(const NumberFormat& format) {
  std::array<double, 256> table;
  const uint64_t mask = (uint64_t{1} << format.bits) - 1;
  for (uint64_t i = 0; i < 256; ++i) table[i] = DecodeBits(format, i & mask);
  return table;
}

NumberFormat FormatOf(const DType& dtype) {
  const std::string_view name = dtype.view();
  NumberFormat format;
  const auto complex = [](NumberFormat part) {
    part.kind = NumberKind::kComplex;
    return part;
  };
  if (name == "float64" || name == "double")
    format = Float(11, 52);
  else if (name == "float32" || name == "float")
    format = Float(8, 23);
  else if (name == "float16" || name == "half")
    format = Float(5, 10);
  else if (name == "bfloat16")
    format = Float(8, 7);
  else if (name == "complex128")
    format = complex(Float(11, 52));
  else if (name == "complex64")
    format = complex(Float(8, 23));
  else if (name == "complex32")
    format = complex(Float(5, 10));
  else if (name == "bcomplex32")
    format = complex(Float(8, 7));
  else if (name == "bool") {
    format = Integer(8, false);
    format.is_bool = true;
  } else if (!ParseMinifloat(name, &format) && !ParseInteger(name, &format)) {
    return {};
  }
  // The bytes decide: a dtype whose width is not what its name says is not read as a number.
  // Sub-byte integers lie in a byte each or packed.
  const int numbers = NumbersPerUnit(dtype, format);
  const uint32_t needed = (static_cast<uint32_t>(format.bits) * numbers + 7) / 8;
  return needed == dtype.unit_bytes() ? format : NumberFormat{};
}

int NumbersPerUnit(const DType& dtype, const NumberFormat& format) {
  if (format.kind == NumberKind::kComplex) return 2;
  return std::max<int>(1, dtype.elements_per_unit);
}

void DecodeFloat(const DType& dtype, const NumberFormat& format, std::span<const std::byte> units,
                 std::span<double> numbers) {
  if (format.kind != NumberKind::kInteger) {
    return DecodeFloatNumbers(format, NumbersPerUnit(dtype, format), units, numbers);
  }
  if (DecodeNarrowIntegers(dtype, format, units.data(), numbers)) return;
  std::array<__int128, 256> chunk;
  const size_t per_unit = static_cast<size_t>(NumbersPerUnit(dtype, format));
  const size_t step = chunk.size() / per_unit * per_unit;
  for (size_t i = 0; i < numbers.size(); i += step) {
    const size_t n = std::min(step, numbers.size() - i);
    DecodeInteger(dtype, format, units.subspan(i / per_unit * dtype.unit_bytes()),
                  {chunk.data(), n});
    for (size_t k = 0; k < n; ++k) numbers[i + k] = static_cast<double>(chunk[k]);
  }
}

void DecodeInteger(const DType& dtype, const NumberFormat& format, std::span<const std::byte> units,
                   std::span<__int128> numbers) {
  const uint32_t unit_bytes = dtype.unit_bytes();
  const size_t per_unit = static_cast<size_t>(NumbersPerUnit(dtype, format));
  const int shift = 64 - format.bits;
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint64_t raw = LoadUnit(units.data() + i / per_unit * unit_bytes, unit_bytes);
    raw >>= format.bits * (i % per_unit);
    if (format.is_bool)
      numbers[i] = raw != 0;
    else if (format.is_signed)
      numbers[i] = static_cast<int64_t>(raw << shift) >> shift;
    else
      numbers[i] = (raw << shift) >> shift;
  }
}

std::string Int128Text(__int128 value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  auto rest =
      negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string text;
  for (; rest != 0; rest /= 10) text += static_cast<char>('0' + static_cast<int>(rest % 10));
  if (negative) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace tdump::compare
