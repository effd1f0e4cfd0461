#include "collectors/device/strided_source.h"

#include <gtest/gtest.h>

#include <vector>

namespace tdump::collectors {
namespace {

StridedSource Of(std::vector<int64_t> sizes, std::vector<int64_t> strides, uint32_t unit = 4,
                 NumberKind kind = NumberKind::kFloat, bool conj = false, bool neg = false) {
  StridedSource source;
  EXPECT_TRUE(MakeStridedSource(4096, sizes, strides, unit, kind, conj, neg, &source));
  return source;
}

std::vector<std::pair<uint64_t, uint64_t>> Shape(const StridedSource& source) {
  std::vector<std::pair<uint64_t, uint64_t>> shape;
  for (uint32_t i = 0; i < source.dimensions; ++i)
    shape.emplace_back(source.sizes[i], source.strides[i]);
  return shape;
}

using Dimensions = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(StridedSource, AContiguousTensorIsOneRun) {
  const StridedSource source = Of({2, 3, 4}, {12, 4, 1});
  EXPECT_EQ(Shape(source), (Dimensions{{24, 1}}));
  EXPECT_TRUE(source.plain());
  EXPECT_EQ(source.bytes(), 96u);
  EXPECT_TRUE(Of({}, {}).plain());
  EXPECT_EQ(Of({}, {}).units, 1u);
}

TEST(StridedSource, SizeOneAndStrideZeroAreLeftOut) {
  const StridedSource source = Of({5, 1, 4}, {0, 77, 1});  // expanded: stored once
  EXPECT_EQ(Shape(source), (Dimensions{{4, 1}}));
  EXPECT_EQ(source.units, 4u);
  EXPECT_TRUE(source.plain());
  EXPECT_TRUE(Of({1, 1}, {3, 9}).plain());
}

TEST(StridedSource, NeighboursThatLieLikeOneAreMerged) {
  // Rows of a padded matrix: the two outer dimensions are one.
  EXPECT_EQ(Shape(Of({2, 3, 4}, {24, 8, 1})), (Dimensions{{6, 8}, {4, 1}}));
  EXPECT_EQ(Shape(Of({3, 4}, {1, 3})), (Dimensions{{3, 1}, {4, 3}}));  // transposed
  EXPECT_FALSE(Of({3, 4}, {1, 3}).plain());
  EXPECT_FALSE(Of({4}, {2}).plain());
}

TEST(StridedSource, SignsOfEachWidth) {
  EXPECT_EQ(Of({2}, {1}, 4, NumberKind::kFloat, false, true).flip[0], 0x80000000u);
  EXPECT_EQ(Of({2}, {1}, 2, NumberKind::kFloat, false, true).flip[0], 0x8000u);
  const StridedSource conj = Of({2}, {1}, 8, NumberKind::kComplex, true);
  EXPECT_EQ(conj.flip[0], 0x8000000000000000u);
  const StridedSource both = Of({2}, {1}, 8, NumberKind::kComplex, true, true);
  EXPECT_EQ(both.flip[0], 0x80000000u);  // -(a - bi) = -a + bi
  const StridedSource wide = Of({2}, {1}, 16, NumberKind::kComplex, true);
  EXPECT_EQ(wide.flip[0], 0u);
  EXPECT_EQ(wide.flip[1], 0x8000000000000000u);
  EXPECT_EQ(Of({2}, {1}, 4, NumberKind::kComplex, true).flip[0], 0x80000000u);
  const StridedSource integers = Of({2}, {1}, 8, NumberKind::kInteger, false, true);
  EXPECT_EQ(integers.negate, 1u);
  EXPECT_FALSE(integers.plain());
  EXPECT_TRUE(Of({2}, {1}, 8, NumberKind::kFloat, true).plain());  // conj of a real number
}

TEST(StridedSource, WhatDoesNotFitIsRefused) {
  StridedSource source;
  std::vector<int64_t> sizes(17, 2), strides;
  for (int i = 0; i < 17; ++i) strides.push_back(int64_t{3} << (2 * i));
  EXPECT_FALSE(
      MakeStridedSource(0, sizes, strides, 1, NumberKind::kInteger, false, false, &source));
  const int64_t one[] = {1};
  EXPECT_FALSE(MakeStridedSource(0, one, one, 16, NumberKind::kFloat, false, true, &source));
}

}  // namespace
}  // namespace tdump::collectors
