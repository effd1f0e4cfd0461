#include "compare/flushed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compare/bounds.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

// Within by the usual bound, or as flushed.
bool Within(const Tensor& a, const Tensor& b, Flushed* flushed = nullptr) {
  const Bound bound = LocalBoundOf({.a = a.record.dtype, .b = b.record.dtype}).bound;
  const auto metrics = Measure(a.operand(), b.operand(), bound);
  EXPECT_TRUE(metrics.ok());
  if (metrics->within == metrics->elements) return true;
  if (metrics->nan_mismatch + metrics->inf_mismatch > 0 ||
      !MayBeFlushed(*metrics, a.record.dtype, b.record.dtype))
    return false;
  const auto result = JudgeFlushed(a.operand(), b.operand(), bound, *metrics);
  EXPECT_TRUE(result.ok());
  if (flushed != nullptr) *flushed = *result;
  return result->within;
}

Tensor Floats(const std::vector<float>& numbers) { return Vector<float>("float32", numbers); }

TEST(KnownFaultsD15, ASubnormalNumberMayBeFlushedToZero) {
  Flushed flushed;
  EXPECT_TRUE(Within(Floats({9e-45f}), Floats({0.0f}), &flushed));
  EXPECT_EQ(flushed.elements, 1u);
  EXPECT_EQ(flushed.signs, 0u);
  EXPECT_TRUE(Within(Floats({9e-45f}), Floats({-0.0f}), &flushed));
  EXPECT_EQ(flushed.signs, 1u);
  EXPECT_TRUE(Within(Floats({0.0f}), Floats({-1e-38f}), &flushed));
  EXPECT_EQ(flushed.signs, 1u);
  EXPECT_FALSE(Within(Floats({9e-45f}), Floats({1.0f})));
}

TEST(KnownFaultsD15, SubnormalNumbersAreNotEqualToEachOther) {
  EXPECT_FALSE(Within(Floats({9e-45f}), Floats({1e-40f})));
  EXPECT_FALSE(Within(Floats({1e-39f, 1e-39f}), Floats({1e-39f, 5e-39f})));
  EXPECT_FALSE(Within(Floats({1e-39f}), Floats({-1e-39f})));
  // Two of the least number apart: roundings down there are absolute.
  EXPECT_TRUE(Within(Floats({0x1p-149f * 5}), Floats({0x1p-149f * 7})));
  // One that is flushed does not excuse another.
  EXPECT_FALSE(Within(Floats({9e-45f, 1e-39f}), Floats({0.0f, 5e-39f})));
  // The least normal number is not flushed.
  EXPECT_FALSE(Within(Floats({0x1p-126f}), Floats({0.0f})));
}

TEST(KnownFaultsD15, HoldsInEveryFormat) {
  // The largest subnormal and the least normal number of each.
  const auto both = [](const char* dtype, auto subnormal, auto normal) {
    using T = decltype(subnormal);
    const Tensor zero = Vector<T>(dtype, {T{0}, normal});
    EXPECT_TRUE(Within(Vector<T>(dtype, {subnormal, normal}), zero)) << dtype;
    EXPECT_TRUE(Within(zero, Vector<T>(dtype, {subnormal, normal}))) << dtype;
    EXPECT_FALSE(Within(Vector<T>(dtype, {normal, normal}), zero)) << dtype;
  };
  both("float64", uint64_t{0x000FFFFFFFFFFFFF}, uint64_t{0x0010000000000000});
  both("float32", uint32_t{0x007FFFFF}, uint32_t{0x00800000});
  both("bfloat16", uint16_t{0x007F}, uint16_t{0x0080});
  both("float16", uint16_t{0x03FF}, uint16_t{0x0400});
  // Of e4m3 the least normal number is 8 of the least subnormal, which lie within a few roundings.
  const auto eight = [](uint8_t first) { return Vector<uint8_t>("float8_e4m3fn", {first, 0x38}); };
  EXPECT_TRUE(Within(eight(0x07), eight(0x00)));
}

// Subnormal numbers of float16 reach up to 6e-5, those of float8 to 0.01: gradients are made of
// them. Where nothing but zeros is left they were lost.
TEST(KnownFaultsD15, ATensorOfAShortFormatIsNotFlushedOfAll) {
  const Tensor half = Vector<uint16_t>("float16", {0x03FF, 0x0200, 0x0001});
  EXPECT_FALSE(Within(half, Vector<uint16_t>("float16", {0, 0, 0})));
  EXPECT_FALSE(Within(Vector<uint16_t>("float16", {0, 0, 0}), half));
  EXPECT_FALSE(Within(half, Floats({0, 0, 0})));
  EXPECT_FALSE(Within(Vector<uint8_t>("float8_e5m2", {0x03, 0x02}),
                      Vector<uint8_t>("float8_e5m2", {0x00, 0x80})));
  EXPECT_TRUE(Within(half, Vector<uint16_t>("float16", {0x03FF, 0, 0})));
}

TEST(KnownFaultsD15, StoredBitsStay) {
  const Tensor tiny = Floats({9e-45f});
  const auto metrics = Measure(tiny.operand(), Floats({0.0f}).operand(), {});
  EXPECT_NEAR(metrics->max_abs / 0x1p-149, 6, 1e-9);
  EXPECT_EQ(metrics->worst.b, "0");
}

}  // namespace
}  // namespace tdump::compare
