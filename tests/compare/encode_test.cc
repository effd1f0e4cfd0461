#include "compare/encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

std::vector<std::byte> Encoded(const std::string& dtype, const std::vector<double>& numbers) {
  const DType type = DTypeOf(dtype);
  const NumberFormat format = FormatOf(type);
  std::vector<std::byte> units(numbers.size() / static_cast<size_t>(NumbersPerUnit(type, format)) *
                               type.unit_bytes());
  EncodeFloat(type, format, numbers, units);
  return units;
}

uint64_t BitsOf(const std::string& dtype, double number) {
  uint64_t bits = 0;
  const auto bytes = Encoded(dtype, {number});
  std::memcpy(&bits, bytes.data(), bytes.size());
  return bits;
}

// Every pattern of every format of at most 16 bits is its own nearest number.
TEST(EncodeFloat, IsTheInverseOfDecode) {
  for (const std::string dtype : {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
                                  "float8_e4m3fnuz", "float8_e5m2fnuz"}) {
    SCOPED_TRACE(dtype);
    const DType type = DTypeOf(dtype);
    const NumberFormat format = FormatOf(type);
    for (uint64_t pattern = 0; pattern < uint64_t{1} << format.bits; ++pattern) {
      double number = 0;
      DecodeFloat(type, format, {reinterpret_cast<const std::byte*>(&pattern), type.unit_bytes()},
                  {&number, 1});
      if (std::isnan(number)) {
        const uint64_t nan = BitsOf(dtype, number);
        double again = 0;
        DecodeFloat(type, format, {reinterpret_cast<const std::byte*>(&nan), type.unit_bytes()},
                    {&again, 1});
        EXPECT_TRUE(std::isnan(again)) << pattern;
      } else {
        ASSERT_EQ(BitsOf(dtype, number), pattern) << number;
      }
    }
  }
}

// Worked out from the formats: float16 has 10 bits of mantissa, the largest is 65504, the smallest
// 2^-24; float8_e4m3fn ends at 448 without infinity.
TEST(EncodeFloat, RoundsToNearestEvenAndOverflows) {
  EXPECT_EQ(BitsOf("float16", 1 + 0x1p-11), 0x3C00u);  // a tie, to even
  EXPECT_EQ(BitsOf("float16", 1 + 0x1p-11 + 0x1p-40), 0x3C01u);
  EXPECT_EQ(BitsOf("float16", 1 + 3 * 0x1p-11), 0x3C02u);  // a tie, to even
  EXPECT_EQ(BitsOf("float16", 0x1p-25), 0x0000u);          // a tie with 0
  EXPECT_EQ(BitsOf("float16", 0x1.8p-25), 0x0001u);
  EXPECT_EQ(BitsOf("float16", 65519.9), 0x7BFFu);
  EXPECT_EQ(BitsOf("float16", 65520), 0x7C00u);  // infinity
  EXPECT_EQ(BitsOf("float16", -1e300), 0xFC00u);
  EXPECT_EQ(BitsOf("float16", -0.0), 0x8000u);
  EXPECT_EQ(BitsOf("float8_e4m3fn", 448), 0x7Eu);
  EXPECT_EQ(BitsOf("float8_e4m3fn", 480), 0x7Fu);  // NaN
  EXPECT_EQ(BitsOf("float8_e4m3fnuz", -0.0), 0x00u);
  EXPECT_EQ(BitsOf("float8_e4m3fnuz", 1e9), 0x80u);  // NaN
  EXPECT_EQ(BitsOf("float64", 0.1), std::bit_cast<uint64_t>(0.1));
  EXPECT_EQ(BitsOf("float32", 0.1), std::bit_cast<uint32_t>(0.1f));
}

TEST(EncodeFloat, PacksTwoNumbersInAUnit) {
  // e2m1: 1.5 is 0b0011, -6 is 0b1111; the largest number stands for what is larger.
  EXPECT_EQ(Encoded("float4_e2m1fn_x2", {1.5, -6})[0], std::byte{0xF3});
  EXPECT_EQ(Encoded("float4_e2m1fn_x2", {99, 0})[0], std::byte{0x07});
}

}  // namespace
}  // namespace tdump::compare
