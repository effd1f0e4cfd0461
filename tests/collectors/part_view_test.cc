#include "collectors/torch/part_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tdump::collectors {
namespace {

using testing::ElementsAre;

constexpr Parts kSliceOnly = kPartMeta | kPartSlice, kSampleOnly = kPartMeta | kPartSample;

// 0, 1, 2, ... in memory.
struct Memory {
  Memory() : values(64) { std::iota(values.begin(), values.end(), int16_t{0}); }
  StridedView View(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                   int64_t offset = 0) const {
    return {reinterpret_cast<const std::byte*>(values.data() + offset), sizes, strides, 2};
  }
  std::vector<int16_t> values;
};

std::vector<int16_t> CopyOf(const PartView& part) {
  std::vector<int16_t> out(part.bytes() / 2);
  part.CopyTo(reinterpret_cast<std::byte*>(out.data()));
  return out;
}

Keep Asking(Parts parts, std::span<const SliceRange> slice, uint64_t sample = 0) {
  Keep keep(parts);
  keep.slice = slice;
  keep.sample = sample;
  return keep;
}

TEST(PartView, ASliceOfATransposedTensor) {
  const Memory memory;
  const int64_t sizes[] = {4, 3}, strides[] = {1, 4};  // element (i, j) is i + 4 j
  const SliceRange slice[] = {{-2, INT64_MAX, 1}, {0, INT64_MAX, 2}};
  const PartView part(Asking(kSliceOnly, slice), memory.View(sizes, strides), 1 << 20);
  EXPECT_EQ(part.content(), Content::kSlice);
  EXPECT_THAT(CopyOf(part), ElementsAre(2, 10, 3, 11));
  const SliceRange first[] = {{0, 4, INT64_MAX}, {0, 3, INT64_MAX / 2}};
  const PartView one(Asking(kSliceOnly, first), memory.View(sizes, strides, 6), 1 << 20);
  EXPECT_THAT(CopyOf(one), ElementsAre(6));
}

TEST(PartView, ExpandedDimensionsAreCopiedOnce) {
  const Memory memory;
  const int64_t sizes[] = {5, 4}, strides[] = {0, 1};
  const SliceRange slice[] = {{1, 3, 1}, {1, 4, 1}};
  const PartView part(Asking(kSliceOnly, slice), memory.View(sizes, strides), 1 << 20);
  EXPECT_THAT(CopyOf(part), ElementsAre(1, 2, 3));
}

TEST(PartView, AnEmptySlice) {
  const Memory memory;
  const int64_t sizes[] = {5, 4}, strides[] = {4, 1};
  const SliceRange slice[] = {{9, 10, 1}};
  const PartView part(Asking(kSliceOnly, slice), memory.View(sizes, strides), 1 << 20);
  EXPECT_EQ(part.content(), Content::kSlice);
  EXPECT_EQ(part.bytes(), 0u);
}

TEST(PartView, ASampleFollowsLogicalOrder) {
  const Memory memory;
  const int64_t sizes[] = {4, 3}, strides[] = {1, 4};
  const PartView part(Asking(kSampleOnly, {}, 3), memory.View(sizes, strides, 1), 1 << 20);
  EXPECT_EQ(part.content(), Content::kSample);
  // Elements 0, 5 and 11: (0, 0), (1, 2), (3, 2), one further in memory.
  EXPECT_THAT(CopyOf(part), ElementsAre(1, 10, 12));
  const PartView scalar(Asking(kSampleOnly, {}, 3), memory.View({}, {}, 7), 1 << 20);
  EXPECT_THAT(CopyOf(scalar), ElementsAre(7));
}

TEST(PartView, WhateverElseIsAskedNeedsTheWhole) {
  const Memory memory;
  const int64_t sizes[] = {8}, strides[] = {1};
  const SliceRange slice[] = {{0, 2, 1}};
  for (Parts more : {kPartHash, kPartStats, kPartPayload, kPartSample}) {
    const PartView part(Asking(kSliceOnly | more, slice, 2), memory.View(sizes, strides), 1 << 20);
    EXPECT_EQ(part.content(), Content::kWhole);
  }
  EXPECT_EQ(PartView(Asking(kSampleOnly, {}, 8), memory.View(sizes, strides), 8).content(),
            Content::kWhole);
}

}  // namespace
}  // namespace tdump::collectors
