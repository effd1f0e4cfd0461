#include "io/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace tdump::io {
namespace {

template <class T>
std::string Text(std::string_view dtype, T unit, int bits = sizeof(T) * 8, int per_unit = 1,
                 uint32_t element = 0) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &unit, sizeof unit);
  return ValueDecoder(MakeDType(dtype, bits, per_unit)).Text(bytes, element);
}

double Float8(std::string_view dtype, uint8_t bits) {
  const std::byte byte{bits};
  return ValueDecoder(MakeDType(dtype, 8)).Decode({&byte, 1}).real;
}

TEST(Value, IntegersNeverPassThroughADouble) {
  EXPECT_EQ(Text("uint64", uint64_t{0}), "0");
  EXPECT_EQ(Text("uint64", uint64_t{1} << 63), "9223372036854775808");
  EXPECT_EQ(Text("uint64", ~uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(Text("int64", INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(Text("int64", (int64_t{1} << 53) + 1), "9007199254740993");
  EXPECT_EQ(Text("uint16", uint16_t{65535}), "65535");
  EXPECT_EQ(Text("int8", int8_t{-128}), "-128");
}

TEST(Value, FloatsReadBackExactly) {
  EXPECT_EQ(Text("float32", 0.1f), "0.1");
  EXPECT_EQ(Text("float64", 0.1), "0.1");
  EXPECT_EQ(Text("float32", -0.0f), "-0");
  EXPECT_EQ(Text("float32", INFINITY), "inf");
  EXPECT_EQ(Text("float32", -INFINITY), "-inf");
  EXPECT_EQ(Text("float32", NAN), "nan");
  EXPECT_EQ(Text("float16", uint16_t{0x3C00}), "1");
  EXPECT_EQ(Text("float16", uint16_t{0x0001}), "5.9604645e-08");  // 2^-24
  EXPECT_EQ(Text("float16", uint16_t{0x7BFF}), "65504");
  EXPECT_EQ(Text("float16", uint16_t{0xFC00}), "-inf");
  EXPECT_EQ(Text("bfloat16", uint16_t{0x3DF8}), "0.12109375");
  EXPECT_EQ(Text("bfloat16", uint16_t{0x7F80}), "inf");
}

// Largest, smallest and special values as the formats' own documents give them.
TEST(Value, EightBitFloats) {
  EXPECT_EQ(Float8("float8_e4m3fn", 0x7E), 448);
  EXPECT_EQ(Float8("float8_e4m3fn", 0x01), std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(Float8("float8_e4m3fn", 0x7F)));
  EXPECT_TRUE(std::isnan(Float8("float8_e4m3fn", 0xFF)));
  EXPECT_EQ(Float8("float8_e5m2", 0x7B), 57344);
  EXPECT_EQ(Float8("float8_e5m2", 0x7C), INFINITY);
  EXPECT_TRUE(std::isnan(Float8("float8_e5m2", 0x7D)));
  EXPECT_EQ(Float8("float8_e5m2", 0x01), std::ldexp(1, -16));
  EXPECT_EQ(Float8("float8_e4m3fnuz", 0x7F), 240);
  EXPECT_EQ(Float8("float8_e4m3fnuz", 0x01), std::ldexp(1, -10));
  EXPECT_TRUE(std::isnan(Float8("float8_e4m3fnuz", 0x80)));
  EXPECT_EQ(Float8("float8_e5m2fnuz", 0x7F), 57344);
  EXPECT_TRUE(std::isnan(Float8("float8_e5m2fnuz", 0x80)));
  EXPECT_EQ(Float8("float8_e8m0fnu", 0x7F), 1);
  EXPECT_EQ(Float8("float8_e8m0fnu", 0x00), std::ldexp(1, -127));
  EXPECT_EQ(Float8("float8_e8m0fnu", 0xFE), std::ldexp(1, 127));
  EXPECT_TRUE(std::isnan(Float8("float8_e8m0fnu", 0xFF)));
}

TEST(Value, PackedElementsComeLowBitsFirst) {
  const uint8_t unit = 0xF7;  // 0x7 = 6, 0xF = -6
  EXPECT_EQ(Text("float4_e2m1fn_x2", unit, 4, 2, 0), "6");
  EXPECT_EQ(Text("float4_e2m1fn_x2", unit, 4, 2, 1), "-6");
  EXPECT_EQ(Text("float4_e2m1fn_x2", uint8_t{0x81}, 4, 2, 0), "0.5");
  EXPECT_EQ(Text("float4_e2m1fn_x2", uint8_t{0x81}, 4, 2, 1), "-0");
  EXPECT_EQ(Text("quint4x2", uint8_t{0xA3}, 4, 2, 0), "3");
  EXPECT_EQ(Text("quint4x2", uint8_t{0xA3}, 4, 2, 1), "10");
}

TEST(Value, SubByteIntegers) {
  EXPECT_EQ(Text("int4", uint8_t{0x0F}, 4), "-1");
  EXPECT_EQ(Text("int4", uint8_t{0x07}, 4), "7");
  EXPECT_EQ(Text("uint4", uint8_t{0x0F}, 4), "15");
  EXPECT_EQ(Text("int1", uint8_t{0x01}, 1), "-1");
  EXPECT_EQ(Text("uint1", uint8_t{0x01}, 1), "1");
  EXPECT_EQ(Text("uint7", uint8_t{0x7F}, 7), "127");
}

TEST(Value, ComplexNumbers) {
  struct {
    float re, im;
  } single{1.5f, -2.0f};
  EXPECT_EQ(Text("complex64", single), "1.5-2j");
  struct {
    double re, im;
  } full{0.1, INFINITY};
  EXPECT_EQ(Text("complex128", full), "0.1+infj");
  struct {
    uint16_t re, im;
  } half{0x3C00, 0xC000};
  EXPECT_EQ(Text("complex32", half), "1-2j");
  struct {
    uint16_t re, im;
  } brain{0x3F80, 0x4000};
  EXPECT_EQ(Text("bcomplex32", brain), "1+2j");
}

TEST(Value, BooleansAndBits) {
  EXPECT_EQ(Text("bool", uint8_t{0}), "false");
  EXPECT_EQ(Text("bool", uint8_t{1}), "true");
  EXPECT_EQ(Text("bool", uint8_t{2}), "0x02");
  EXPECT_EQ(Text("bits16", uint16_t{0x0ABC}), "0x0abc");
  EXPECT_EQ(Text("posit16", uint16_t{0xBEEF}), "0xbeef");
  EXPECT_EQ(Text("bits1x8", uint8_t{0x81}, 1, 8, 7), "0x1");
  struct {
    uint64_t low, high;
  } wide{0x0123456789ABCDEF, 0xFEDCBA9876543210};
  EXPECT_EQ(Text("float128", wide), "0xfedcba98765432100123456789abcdef");
}

// A name that does not fit its width is not believed.
TEST(Value, ANameThatLiesIsShownAsBits) {
  EXPECT_EQ(Text("float64", uint32_t{1}), "0x00000001");
  EXPECT_EQ(Text("int32", uint16_t{1}), "0x0001");
  EXPECT_EQ(Text("float8_e9m9fn", uint8_t{1}), "0x01");
  EXPECT_EQ(Text("float8_e4m3", uint8_t{0x78}), "inf");
}

}  // namespace
}  // namespace tdump::io
