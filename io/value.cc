#include "io/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/parse_number.h"

namespace tdump::io {
namespace {

// `count` <= 64 bits from bit `first` on; bytes beyond the unit count as 0.
uint64_t TakeBits(std::span<const std::byte> unit, uint64_t first, int count) {
  uint64_t bits = 0;
  for (int got = 0; got < count;) {
    const uint64_t at = first + got;
    if (at / 8 >= unit.size()) break;
    const int skip = static_cast<int>(at % 8);
    bits |= (static_cast<uint64_t>(unit[at / 8]) >> skip) << got;
    got += 8 - skip;
  }
  return count >= 64 ? bits : bits & ((uint64_t{1} << count) - 1);
}

std::string Hex(std::span<const std::byte> unit, uint64_t first, int count) {
  const int digits = std::max(1, (count + 3) / 4);
  std::string text = "0x";
  for (int digit = digits; digit-- > 0;) {
    const int width = std::min(4, count - 4 * digit);
    text += "0123456789abcdef"[width > 0 ? TakeBits(unit, first + 4 * digit, width) : 0];
  }
  return text;
}

std::string FloatText(double value, bool single) {
  if (std::isnan(value)) return "nan";
  return single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
}

bool Take(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

}  // namespace

ValueDecoder::ValueDecoder(const DType& dtype)
    : unit_bytes_(dtype.unit_bytes()),
      elements_per_unit_(std::max<uint32_t>(1, dtype.elements_per_unit)),
      element_bits_(dtype.bits_per_element),
      value_bits_(dtype.bits_per_element) {
  const std::string_view name = dtype.view();
  const auto ieee = [&](std::string_view wanted, ValueKind kind, int exponent, int mantissa) {
    const int bits = (1 + exponent + mantissa) * (kind == ValueKind::kComplex ? 2 : 1);
    if (name != wanted || bits != element_bits_) return false;
    kind_ = kind;
    value_bits_ = 1 + exponent + mantissa;
    format_ = {exponent, mantissa, (1 << (exponent - 1)) - 1, FloatFormat::kIeee};
    return true;
  };
  if (ieee("float64", ValueKind::kFloat, 11, 52) || ieee("float32", ValueKind::kFloat, 8, 23) ||
      ieee("float16", ValueKind::kFloat, 5, 10) || ieee("bfloat16", ValueKind::kFloat, 8, 7) ||
      ieee("complex128", ValueKind::kComplex, 11, 52) ||
      ieee("complex64", ValueKind::kComplex, 8, 23) ||
      ieee("complex32", ValueKind::kComplex, 5, 10) ||
      ieee("bcomplex32", ValueKind::kComplex, 8, 7)) {
    return;
  }
  if (name == "bool" && element_bits_ == 8)
    kind_ = ValueKind::kBool;
  else if (!ParseFloat(name))
    ParseInteger(name);
}

// "float8_e4m3fnuz", "float4_e2m1fn_x2": layout and special values are in the name.
bool ValueDecoder::ParseFloat(std::string_view name) {
  int bits = 0;
  FloatFormat format;
  if (!Take(&name, "float") || !TakeNumber(&name, &bits) || !Take(&name, "_e") ||
      !TakeNumber(&name, &format.exponent_bits) || !Take(&name, "m") ||
      !TakeNumber(&name, &format.mantissa_bits)) {
    return false;
  }
  if (const size_t packed = name.find("_x"); packed != std::string_view::npos)
    name = name.substr(0, packed);
  if (bits < 2 || bits > 16 || format.exponent_bits < 1 || format.mantissa_bits < 0 ||
      format.mantissa_bits > bits)
    return false;
  int sign_bits = 1;
  format.bias = (1 << (std::min(format.exponent_bits, 16) - 1)) - 1;
  if (name == "fnu") {
    format.specials = FloatFormat::kScale;
    sign_bits = 0;
  } else if (name == "fnuz") {
    format.specials = FloatFormat::kNegativeZeroNan;
    ++format.bias;
  } else if (name == "fn") {
    format.specials = bits < 8 ? FloatFormat::kFinite : FloatFormat::kOneNan;
  } else if (!name.empty()) {
    return false;
  }
  if (sign_bits + format.exponent_bits + format.mantissa_bits != bits || bits > element_bits_)
    return false;
  kind_ = ValueKind::kFloat;
  value_bits_ = bits;
  format_ = format;
  return true;
}

// "int5", "uint64", "quint4x2", "qint32" (the integers under a quantised tensor).
bool ValueDecoder::ParseInteger(std::string_view name) {
  Take(&name, "q");
  const bool is_unsigned = Take(&name, "u");
  int bits = 0;
  if (!Take(&name, "int") || !TakeNumber(&name, &bits) || bits < 1 || bits > 64) return false;
  if ((!name.empty() && name[0] != 'x') || bits > std::max(element_bits_, 8)) return false;
  kind_ = is_unsigned ? ValueKind::kUnsigned : ValueKind::kSigned;
  value_bits_ = bits;
  return true;
}

double ValueDecoder::DecodeFloat(uint64_t bits) const {
  const FloatFormat& f = format_;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const uint64_t exponent_mask = (uint64_t{1} << f.exponent_bits) - 1;
  const uint64_t mantissa_mask = (uint64_t{1} << f.mantissa_bits) - 1;
  const uint64_t mantissa = bits & mantissa_mask;
  const uint64_t exponent = (bits >> f.mantissa_bits) & exponent_mask;
  const bool negative = ((bits >> (f.mantissa_bits + f.exponent_bits)) & 1) != 0;
  if (f.specials == FloatFormat::kScale) {
    return exponent == exponent_mask ? kNan : std::ldexp(1.0, static_cast<int>(exponent) - f.bias);
  }
  if (f.specials == FloatFormat::kNegativeZeroNan && negative && exponent == 0 && mantissa == 0)
    return kNan;
  if (exponent == exponent_mask) {
    if (f.specials == FloatFormat::kOneNan && mantissa == mantissa_mask) return kNan;
    if (f.specials == FloatFormat::kIeee && mantissa != 0) return kNan;
    if (f.specials == FloatFormat::kIeee) {
      return negative ? -std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::infinity();
    }
  }
  const double fraction =
      static_cast<double>(exponent == 0 ? mantissa : mantissa | (mantissa_mask + 1));
  const double magnitude =
      std::ldexp(fraction, std::max<int>(exponent, 1) - f.bias - f.mantissa_bits);
  return negative ? -magnitude : magnitude;
}

Value ValueDecoder::Decode(std::span<const std::byte> unit, uint32_t element) const {
  Value value;
  value.kind = kind_;
  value.bits = element_bits_;
  const uint64_t first = static_cast<uint64_t>(element) * element_bits_;
  const uint64_t bits = TakeBits(unit, first, std::min(value_bits_, 64));
  switch (kind_) {
    case ValueKind::kFloat:
      value.real = DecodeFloat(bits);
      break;
    case ValueKind::kComplex:
      value.real = DecodeFloat(bits);
      value.imaginary = DecodeFloat(TakeBits(unit, first + value_bits_, value_bits_));
      break;
    case ValueKind::kSigned:
      value.integer = static_cast<int64_t>(bits << (64 - value_bits_)) >> (64 - value_bits_);
      break;
    case ValueKind::kUnsigned:
    case ValueKind::kBool:
    case ValueKind::kBits:
      value.natural = bits;
      break;
  }
  return value;
}

std::string ValueDecoder::Text(std::span<const std::byte> unit, uint32_t element) const {
  const Value value = Decode(unit, element);
  const bool single = value_bits_ <= 32;
  switch (kind_) {
    case ValueKind::kFloat:
      return FloatText(value.real, single);
    case ValueKind::kComplex: {
      const std::string imaginary = FloatText(value.imaginary, single);
      return FloatText(value.real, single) + (imaginary[0] == '-' ? "" : "+") + imaginary + "j";
    }
    case ValueKind::kSigned:
      return fmt::format("{}", value.integer);
    case ValueKind::kUnsigned:
      return fmt::format("{}", value.natural);
    case ValueKind::kBool:
      if (value.natural < 2) return value.natural == 1 ? "true" : "false";
      break;
    case ValueKind::kBits:
      break;
  }
  return Hex(unit, static_cast<uint64_t>(element) * element_bits_, element_bits_);
}

}  // namespace tdump::io
