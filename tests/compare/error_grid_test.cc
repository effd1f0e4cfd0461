#include "compare/error_grid.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ErrorGrid GridOf(const Tensor& a, const Tensor& b) {
  const auto grid = MeasureErrorGrid(a.operand(), b.operand());
  EXPECT_TRUE(grid.ok()) << grid.status().message();
  return grid.ok() ? *grid : ErrorGrid{};
}

TEST(ErrorGridTest, EachElementHasItsBlockWhereThereAreFew) {
  const ErrorGrid grid = GridOf(MakeTensor<float>("float32", {2, 3}, {1, 2, 3, 4, 5, 6}),
                                MakeTensor<float>("float32", {2, 3}, {1, 2.5f, 3, 0, 5, 6}));
  EXPECT_EQ(grid.height, 2u);
  EXPECT_EQ(grid.width, 3u);
  EXPECT_EQ(grid.rows, 2u);
  EXPECT_EQ(grid.columns, 3u);
  EXPECT_THAT(grid.max_abs, ElementsAre(0, 0.5, 0, 4, 0, 0));
}

TEST(ErrorGridTest, LeadingDimensionsAreFoldedByTheLargest) {
  const ErrorGrid grid = GridOf(MakeTensor<float>("float32", {2, 1, 2}, {0, 0, 0, 0}),
                                MakeTensor<float>("float32", {2, 1, 2}, {1, 7, 3, 2}));
  EXPECT_EQ(grid.dimensions, 3u);
  EXPECT_THAT(grid.max_abs, ElementsAre(3, 7));
}

// Against the definition, for sizes that the blocks do not divide, and beyond the table of columns.
TEST(ErrorGridTest, BlocksCoverEveryElementOnce) {
  for (const auto& [height, width] :
       std::vector<std::pair<uint64_t, uint64_t>>{{33, 65}, {100, 130}, {3, 5000}, {1, 9001}}) {
    std::vector<float> a(height * width, 0), b(height * width);
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>((i * 7919) % 10007);
    const std::vector<int64_t> sizes = {static_cast<int64_t>(height), static_cast<int64_t>(width)};
    const ErrorGrid grid = GridOf(MakeTensor("float32", sizes, a), MakeTensor("float32", sizes, b));
    ASSERT_EQ(grid.rows, std::min(kGridRows, height));
    ASSERT_EQ(grid.columns, std::min(kGridColumns, width));
    for (uint64_t i = 0; i < grid.rows; ++i) {
      for (uint64_t k = 0; k < grid.columns; ++k) {
        float most = 0;
        for (uint64_t y = i * height / grid.rows; y < (i + 1) * height / grid.rows; ++y) {
          for (uint64_t x = k * width / grid.columns; x < (k + 1) * width / grid.columns; ++x)
            most = std::max(most, b[y * width + x]);
        }
        ASSERT_EQ(grid.at(i, k), most) << height << "x" << width << ": " << i << ", " << k;
      }
    }
  }
}

TEST(ErrorGridTest, SpecialValuesThatMeetOthersAreInfinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const ErrorGrid grid = GridOf(Vector<float>("float32", {kNan, kNan, inf, inf, 1}),
                                Vector<float>("float32", {kNan, 1, inf, -inf, inf}));
  EXPECT_EQ(grid.height, 1u);
  EXPECT_THAT(grid.max_abs, ElementsAre(0, kInfinity, 0, kInfinity, kInfinity));
}

TEST(ErrorGridTest, AnyPairOfDtypes) {
  // 1 and -2 as bfloat16, and as float8_e4m3fn.
  EXPECT_THAT(
      GridOf(Vector<uint16_t>("bfloat16", {0x3F80, 0xC000}), Vector<float>("float32", {1.25f, -2}))
          .max_abs,
      ElementsAre(0.25, 0));
  EXPECT_THAT(
      GridOf(Vector<uint8_t>("float8_e4m3fn", {0x38, 0xC0}), Vector<int32_t>("int32", {4, -2}))
          .max_abs,
      ElementsAre(3, 0));
  // |(3 + 4i) - 0|; a real number meets a complex one.
  const Tensor complex = MakeTensor<float>("complex64", {2}, {3, 4, 1, 0});
  EXPECT_THAT(GridOf(complex, Vector<float>("float32", {0, 1})).max_abs, ElementsAre(5, 0));
  // Two numbers in a byte: 0.5 and 1, low bits first; 4-bit numbers 1 and 2 are 0.5 and 1.
  EXPECT_THAT(GridOf(Vector<uint8_t>("float4_e2m1fn_x2", {0x21}),
                     Vector<uint8_t>("float4_e2m1fn_x2", {0x20}))
                  .max_abs,
              ElementsAre(0.5, 0));
}

TEST(ErrorGridTest, EmptyScalarAndExpanded) {
  EXPECT_TRUE(
      GridOf(MakeTensor<float>("float32", {0, 3}, {}), MakeTensor<float>("float32", {0, 3}, {}))
          .max_abs.empty());
  EXPECT_THAT(
      GridOf(MakeTensor<float>("float32", {}, {1}), MakeTensor<float>("float32", {}, {3})).max_abs,
      ElementsAre(2));
  // Stored once on both sides, whatever its size says: walked once.
  Tensor a = MakeTensor<float>("float32", {2}, {1, 2}),
         b = MakeTensor<float>("float32", {2}, {1, 5});
  for (Tensor* tensor : {&a, &b}) {
    tensor->record.sizes = {int64_t{1} << 40, 2};
    tensor->record.strides = {0, 1};
  }
  const ErrorGrid grid = GridOf(a, b);
  EXPECT_EQ(grid.height, 1u);
  EXPECT_THAT(grid.max_abs, ElementsAre(0, 3));
}

TEST(ErrorGridTest, WhatIsNoNumberIsRefused) {
  const Tensor bits = Vector<uint16_t>("bits16", {1, 2});
  EXPECT_EQ(MeasureErrorGrid(bits.operand(), bits.operand()).status().code(),
            StatusCode::kUnsupported);
}

TEST(ErrorGridTest, ADamagedPayloadIsAnError) {
  const Tensor a = Vector<float>("float32", {1, 2});
  const ReadBytes fails = [](uint64_t, std::span<std::byte>) { return Corrupt("x.tdp: digest"); };
  EXPECT_EQ(MeasureErrorGrid(a.operand(), {&a.record, fails}).status().code(),
            StatusCode::kCorrupt);
}

}  // namespace
}  // namespace tdump::compare
