#include "compare/compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

TEST(ParsePrecision, KnowsUnitRoundoffs) {
  struct Case {
    const char* text;
    double operands, others;
  };
  // Explicit mantissa bits: float64 52, float32 23, tf32 and float16 10, bfloat16 7, e4m3 3,
  // e5m2 2, e2m1 1; one more counts, for rounding to nearest.
  const Case cases[] = {{"fp64", 0x1p-53, 0x1p-53},   {"fp32", 0x1p-24, 0x1p-24},
                        {"tf32", 0x1p-11, 0x1p-24},   {"fp16", 0x1p-11, 0x1p-11},
                        {"bf16", 0x1p-8, 0x1p-8},     {"bfloat16", 0x1p-8, 0x1p-8},
                        {"fp8", 0x1p-4, 0x1p-8},      {"float8_e4m3fn", 0x1p-4, 0x1p-8},
                        {"fp8_e5m2", 0x1p-3, 0x1p-8}, {"fp4", 0x1p-2, 0x1p-8}};
  for (const Case& c : cases) {
    const auto precision = ParsePrecision(c.text);
    ASSERT_TRUE(precision.ok()) << c.text;
    EXPECT_EQ(precision->operands, c.operands) << c.text;
    EXPECT_EQ(precision->others, c.others) << c.text;
  }
}

TEST(ParsePrecision, NamesWhatThereIs) {
  for (const char* text : {"", "fp7", "FP8", "bf16 "}) {
    const auto precision = ParsePrecision(text);
    ASSERT_FALSE(precision.ok()) << text;
    EXPECT_THAT(precision.status().message(),
                testing::HasSubstr("expected one of fp64, fp32, tf32, fp16, bf16, fp8,"));
  }
}

TEST(PrecisionFor, IsTheFinestThatAllowsThePair) {
  const auto name = [](const char* a, const char* b) {
    return std::string(PrecisionFor(DTypeOf(a), DTypeOf(b)));
  };
  EXPECT_EQ(name("float32", "bfloat16"), "bf16");
  EXPECT_EQ(name("bfloat16", "float32"), "bf16");
  EXPECT_EQ(name("float32", "float16"), "fp16");
  EXPECT_EQ(name("float16", "bfloat16"), "bf16");
  EXPECT_EQ(name("float64", "float32"), "fp32");
  EXPECT_EQ(name("bfloat16", "float8_e4m3fn"), "fp8");
  EXPECT_EQ(name("bfloat16", "float8_e5m2"), "fp8_e5m2");
  EXPECT_EQ(name("complex128", "complex64"), "fp32");
  EXPECT_EQ(name("int8", "float32"), "");
  EXPECT_EQ(name("int8", "int32"), "");
  EXPECT_EQ(name("float32", "complex64"), "");
}

TEST(Explains, NeverAnIntegerAgainstAFloatNorACoarserDtype) {
  const auto explains = [](const char* precision, const char* a, const char* b) {
    return Explains(*ParsePrecision(precision), DTypeOf(a), DTypeOf(b));
  };
  EXPECT_TRUE(explains("bf16", "float32", "bfloat16"));
  EXPECT_TRUE(explains("bf16", "float16", "bfloat16"));
  EXPECT_TRUE(explains("fp8", "float32", "bfloat16"));
  EXPECT_TRUE(explains("fp8", "bfloat16", "float8_e4m3fn"));
  EXPECT_FALSE(explains("bf16", "bfloat16", "float8_e4m3fn"));
  EXPECT_FALSE(explains("fp8", "bfloat16", "float8_e5m2"));
  EXPECT_FALSE(explains("fp32", "float32", "bfloat16"));
  EXPECT_FALSE(explains("bf16", "int64", "bfloat16"));
  EXPECT_FALSE(explains("bf16", "int64", "int32"));
  EXPECT_FALSE(explains("bf16", "float32", "complex64"));
}

}  // namespace
}  // namespace tdump::compare
