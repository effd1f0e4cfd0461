// What Measure makes of every kind of dtype: values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compare/metrics.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

TEST(Metrics, UnsignedIntegersDoNotWrapAround) {
  const Metrics bytes = MeasureOk(Vector<uint8_t>("uint8", {1}), Vector<uint8_t>("uint8", {254}));
  EXPECT_EQ(bytes.max_abs_text, "253");
  EXPECT_EQ(bytes.max_abs, 253);
  const Metrics bools = MeasureOk(Vector<uint8_t>("bool", {0}), Vector<uint8_t>("bool", {1}));
  EXPECT_EQ(bools.max_abs_text, "1");
  EXPECT_EQ(bools.worst.a, "false");
  const Metrics wide =
      MeasureOk(Vector<uint64_t>("uint64", {0}), Vector<uint64_t>("uint64", {kMax64}));
  EXPECT_EQ(wide.max_abs_text, "18446744073709551615");
  EXPECT_EQ(wide.worst.b, "18446744073709551615");
}

TEST(Metrics, IntegersAreExactBeyondDoubles) {
  const int64_t big = (int64_t{1} << 53);
  const Metrics m =
      MeasureOk(Vector<int64_t>("int64", {big, std::numeric_limits<int64_t>::min()}),
                Vector<int64_t>("int64", {big + 1, std::numeric_limits<int64_t>::max()}));
  EXPECT_EQ(m.max_abs_text, "18446744073709551615");  // 2^64 - 1
  EXPECT_EQ(m.within, 0u);
  const Metrics near =
      MeasureOk(Vector<int64_t>("int64", {big}), Vector<int64_t>("int64", {big + 1}));
  EXPECT_EQ(near.max_abs_text, "1");
  EXPECT_EQ(near.outside(), 1u);
}

TEST(Metrics, IntegersOfUnequalTypes) {
  const Metrics m =
      MeasureOk(Vector<int64_t>("int64", {-1, 7}), Vector<uint64_t>("uint64", {kMax64, 7}));
  EXPECT_EQ(m.max_abs_text, "18446744073709551616");  // 2^64
  EXPECT_EQ(m.within, 1u);
  EXPECT_EQ(m.bits_equal, 0u);  // another dtype has no bits to share
}

TEST(Metrics, A64BitIntegerAgainstAFloatIsExact) {
  // float64 holds 2^53 and 2^63 exactly; the integers are 1 away.
  const Metrics m = MeasureOk(Vector<int64_t>("int64", {(int64_t{1} << 53) + 1}),
                              Vector<double>("float64", {0x1p53}));
  EXPECT_EQ(m.max_abs, 1);
  const Metrics n =
      MeasureOk(Vector<uint64_t>("uint64", {kMax64}), Vector<double>("float64", {0x1p64}));
  EXPECT_EQ(n.max_abs, 1);
}

TEST(Metrics, SubByteIntegers) {
  // int4: 0xF is -1, 0x8 is -8, 0x7 is 7; the upper half of the byte is no part of the number.
  const Metrics m =
      MeasureOk(Vector<uint8_t>("int4", {0x0F, 0x08}), Vector<uint8_t>("int4", {0x07, 0x08}));
  EXPECT_EQ(m.max_abs_text, "8");
  const Metrics u = MeasureOk(Vector<uint8_t>("uint2", {3}), Vector<uint8_t>("uint2", {0}));
  EXPECT_EQ(u.max_abs_text, "3");
}

// 24.0625 lies halfway between two bfloat16 neighbours, 24 and 24.125.
TEST(Metrics, Bfloat16AgainstFloat32) {
  const Metrics m =
      MeasureOk(Vector<float>("float32", {24.0625f}), Vector<uint16_t>("bfloat16", {0x41C0}));
  EXPECT_EQ(m.max_abs, 0.0625);
  EXPECT_EQ(m.worst.b, "24");
}

TEST(Metrics, Float16ExtremesAndSubnormals) {
  // 0x7BFF 65504, 0x0001 2^-24, 0xFC00 -inf, 0x7E00 nan
  const auto half = Vector<uint16_t>("float16", {0x7BFF, 0x0001, 0xFC00, 0x7E00});
  const auto wide =
      Vector<double>("float64", {65504.0, 0x1p-24, -std::numeric_limits<double>::infinity(), NAN});
  const Metrics m = MeasureOk(half, wide);
  EXPECT_EQ(m.within, 4u);
  EXPECT_EQ(m.max_abs, 0);
}

TEST(Metrics, Float8Formats) {
  const auto check = [](const char* dtype, std::vector<uint8_t> bits, std::vector<double> values) {
    const Metrics m = MeasureOk(Vector<uint8_t>(dtype, bits), Vector<double>("float64", values));
    EXPECT_EQ(m.within, bits.size()) << dtype;
    EXPECT_EQ(m.max_abs, 0) << dtype;
    return m;
  };
  check("float8_e4m3fn", {0x7E, 0x01, 0xFF, 0x80, 0x38}, {448, 0x1p-9, NAN, -0.0, 1});
  check("float8_e5m2", {0x7B, 0x01, 0xFC, 0x7D, 0x3C}, {57344, 0x1p-16, -INFINITY, NAN, 1});
  const Metrics fnuz = check("float8_e4m3fnuz", {0x80, 0x00, 0x01, 0x7F}, {NAN, 0, 0x1p-10, 240});
  EXPECT_EQ(fnuz.nan_a, 1u);
  EXPECT_EQ(fnuz.inf_a, 0u);
  EXPECT_EQ(fnuz.zero_sign_mismatch, 0u);
  check("float8_e5m2fnuz", {0x80, 0x7F, 0x01}, {NAN, 57344, 0x1p-17});
  check("float8_e8m0fnu", {0x7F, 0x00, 0xFE, 0xFF}, {1, 0x1p-127, 0x1p127, NAN});
}

TEST(Metrics, PackedFloat4IsTwoElementsAByte) {
  // Codes 0..7: 0 0.5 1 1.5 2 3 4 6, bit 3 the sign; low half first. 0x72: 1, 6. 0x9F: -6, -0.5.
  const auto a = MakeTensor<uint8_t>("float4_e2m1fn_x2", {2}, {0x72, 0x9F});
  const auto b = MakeTensor<float>("float32", {4}, {1, 6, -6, -0.5f});
  EXPECT_EQ(ElementShape(a.record), std::vector<uint64_t>{4});
  const Metrics m = MeasureOk(a, b);
  EXPECT_EQ(m.elements, 4u);
  EXPECT_EQ(m.within, 4u);
  // -0.5 -> 0
  const Metrics n = MeasureOk(a, MakeTensor<uint8_t>("float4_e2m1fn_x2", {2}, {0x72, 0x0F}));
  EXPECT_EQ(n.bits_equal, 3u);
  EXPECT_EQ(n.worst.position, std::vector<uint64_t>{3});
  EXPECT_EQ(n.max_abs, 0.5);
}

TEST(Metrics, ComplexIsMeasuredByModulus) {
  const auto a = MakeTensor<float>("complex64", {2}, {0, 0, 3, 4});
  const auto b = MakeTensor<float>("complex64", {2}, {3, 4, 3, 4});
  const Metrics m = MeasureOk(a, b);
  EXPECT_EQ(m.elements, 2u);
  EXPECT_EQ(m.max_abs, 5);
  EXPECT_EQ(m.max_rel, 1);
  EXPECT_EQ(m.bits_equal, 1u);
  EXPECT_EQ(m.worst.b, "3+4j");
  // A NaN part matches a NaN part only.
  const Metrics n = MeasureOk(MakeTensor<float>("complex64", {1}, {kNaN, 1}),
                              MakeTensor<float>("complex64", {1}, {1, kNaN}));
  EXPECT_EQ(n.within, 0u);
  const Metrics real = MeasureOk(a, Vector<float>("float32", {0, 3}));
  EXPECT_EQ(real.max_abs, 4);
  const Metrics half = MeasureOk(MakeTensor<uint16_t>("bcomplex32", {1}, {0, 0}),
                                 MakeTensor<uint16_t>("bcomplex32", {1}, {0x4040, 0x4080}));
  EXPECT_EQ(half.max_abs, 5);
  EXPECT_EQ(half.worst.b, "3+4j");
}

TEST(Metrics, AnUnknownDtypeIsComparedByBits) {
  const Metrics m =
      MeasureOk(Vector<uint16_t>("bits16", {1, 2}), Vector<uint16_t>("bits16", {1, 3}));
  EXPECT_FALSE(m.numeric);
  EXPECT_EQ(m.bits_equal, 1u);
  EXPECT_EQ(m.outside(), 1u);
  EXPECT_EQ(m.worst.a, "0x0002");
}

// A bfloat16 below 2^-126 has fewer digits: a unit in its last place is 2^-133.
TEST(Metrics, SubnormalNumbersHaveTheUnitOfTheSmallestNormalOne) {
  const Metrics m = MeasureOk(Vector<uint16_t>("bfloat16", {0x0001, 0x0040, 0x0000}),
                              Vector<uint16_t>("bfloat16", {0x0003, 0x0040, 0x8001}));
  EXPECT_EQ(m.max_abs, 0x1p-132);
  EXPECT_EQ(m.max_ulp, 2);
  EXPECT_EQ(m.ulp[0], 1u);  // equal
  EXPECT_EQ(m.ulp[2], 1u);  // 0 and -2^-133
  EXPECT_EQ(m.ulp[3], 1u);
  EXPECT_EQ(m.sign_mismatch, 1u);
}

TEST(Metrics, IntegersOfAnyWidthAreCountedExactly) {
  const Metrics narrow = MeasureOk(Vector<int32_t>("int32", {-2147483647 - 1, 5, 0}),
                                   Vector<int32_t>("int32", {2147483647, 5, -1}));
  EXPECT_EQ(narrow.max_abs_text, "4294967295");
  EXPECT_EQ(narrow.within, 1u);
  EXPECT_EQ(narrow.max_ulp, 4294967295.0);
  EXPECT_EQ(narrow.sign_mismatch, 2u);
  const Metrics mixed =
      MeasureOk(Vector<uint8_t>("uint8", {255, 7}), Vector<int32_t>("int32", {254, 7}));
  EXPECT_EQ(mixed.max_abs_text, "1");
  EXPECT_EQ(mixed.within, 1u);
  EXPECT_EQ(mixed.bits_equal, 0u);
}

}  // namespace
}  // namespace tdump::compare
