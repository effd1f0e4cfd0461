#include "compare/tensor_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/compare/sources.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(UnitsOf, TellsWhatDoesNotFit) {
  uint64_t units = 7;
  EXPECT_TRUE(UnitsOf({}, &units));
  EXPECT_EQ(units, 1u);
  EXPECT_TRUE(UnitsOf({3, 4}, &units));
  EXPECT_EQ(units, 12u);
  EXPECT_FALSE(UnitsOf({uint64_t{1} << 33, uint64_t{1} << 33}, &units));
  EXPECT_TRUE(UnitsOf({uint64_t{1} << 33, uint64_t{1} << 33, 0}, &units));
  EXPECT_EQ(units, 0u);
}

TEST(SourceOf, ExpandsWhatThePayloadStoresOnce) {
  Tensor tensor = MakeTensor<int32_t>("int32", {2, 3}, {5, 6, 7});
  tensor.record.strides = {0, 1};
  const Source source = SourceOf(tensor.record, FromMemory(tensor.payload));
  EXPECT_THAT(source->shape(), ElementsAre(2, 3));
  EXPECT_THAT(IntsOf(source), ElementsAre(5, 6, 7, 5, 6, 7));
}

TEST(BytesOf, GivesAnyBytesAndRefusesThoseBeyondTheEnd) {
  const ReadBytes read = BytesOf(Ints({2}, {0x03020100, 0x07060504}));
  std::vector<std::byte> bytes(3);
  ASSERT_TRUE(read(3, bytes).ok());
  EXPECT_THAT(bytes, ElementsAre(std::byte{3}, std::byte{4}, std::byte{5}));
  EXPECT_FALSE(read(6, bytes).ok());
  EXPECT_FALSE(read(~uint64_t{0}, bytes).ok());
}

// [[0 1 | 4 5], [2 3 | 6 7]] from two halves.
TEST(AssembledTensor, ConcatenatesAlongTheLastDimension) {
  const auto whole =
      AssembledTensor::Make({2, 4}, {Counting({2, 2}), Counting({2, 2}, 4)},
                            {{{0, 0}, {2, 2}, 0, 0, {2, 1}}, {{0, 2}, {2, 2}, 1, 0, {2, 1}}});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_THAT(IntsOf(*whole), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_THAT(IntsOf(*whole, 3), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
}

TEST(AssembledTensor, TransposesAndSlices) {
  // Columns 1 and 2 of a [3, 4], as rows.
  const auto whole =
      AssembledTensor::Make({2, 3}, {Counting({3, 4})}, {{{0, 0}, {2, 3}, 0, 1, {1, 4}}});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_THAT(IntsOf(*whole), ElementsAre(1, 5, 9, 2, 6, 10));
  EXPECT_THAT(IntsOf(*whole, 1), ElementsAre(1, 5, 9, 2, 6, 10));
}

TEST(AssembledTensor, AScalarAndATensorWithoutElements) {
  const auto scalar = AssembledTensor::Make({}, {Counting({}, 9)}, {{{}, {}, 0, 0, {}}});
  ASSERT_TRUE(scalar.ok());
  EXPECT_THAT(IntsOf(*scalar), ElementsAre(9));
  const auto empty = AssembledTensor::Make({0, 3}, {Counting({0, 3})}, {});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ((*empty)->units(), 0u);
}

TEST(AssembledTensor, RefusesOverlapHolesAndPiecesBeyondTheirShard) {
  const std::vector<Source> source = {Counting({4})};
  const auto why = [&](std::vector<Box> boxes) {
    return AssembledTensor::Make({4}, source, std::move(boxes)).status().message();
  };
  EXPECT_THAT(why({{{0}, {3}, 0, 0, {1}}, {{2}, {2}, 0, 2, {1}}}),
              HasSubstr("two pieces hold element [2]"));
  EXPECT_THAT(why({{{0}, {1}, 0, 0, {1}}, {{2}, {2}, 0, 2, {1}}}),
              HasSubstr("no piece holds element [1] of [4]"));
  EXPECT_THAT(why({{{0}, {4}, 0, 1, {1}}}), HasSubstr("reaches beyond its shard, which is [4]"));
  EXPECT_THAT(why({{{0}, {4}, 0, 0, {uint64_t{1} << 63}}}), HasSubstr("reaches beyond its shard"));
  EXPECT_THAT(why({{{1}, {4}, 0, 0, {1}}}), HasSubstr("reaches beyond [4]"));
  EXPECT_THAT(why({{{0}, {4}, 1, 0, {1}}}), HasSubstr("number of dimensions"));
  EXPECT_THAT(
      AssembledTensor::Make({8}, {source[0], MakeSource<float>("float32", {4}, {0, 0, 0, 0})},
                            {{{0}, {4}, 0, 0, {1}}, {{4}, {4}, 1, 0, {1}}})
          .status()
          .message(),
      HasSubstr("int32 and float32"));
}

// Against an index computed element by element: a [64, 96, 40] from pieces of a [40, 64, 96] and a
// [64, 96, 40], in reads of any size.
TEST(AssembledTensor, EveryElementOfALargeTensorIsWhereItBelongs) {
  const uint64_t n = 64, m = 96, k = 40, part = 13;
  const auto whole =
      AssembledTensor::Make({n, m, k}, {Counting({k, n, m}), Counting({n, m, k}, 1'000'000)},
                            {{{0, 0, 0}, {n, m, part}, 0, 0, {m, 1, n * m}},
                             {{0, 0, part}, {n, m, k - part}, 1, part, {m * k, k, 1}}});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  std::mt19937 random(5);
  for (const uint64_t step : {uint64_t{7}, uint64_t{4096}, n * m * k}) {
    const std::vector<int32_t> values = IntsOf(*whole, step);
    for (int sample = 0; sample < 5000; ++sample) {
      const uint64_t i = random() % n, j = random() % m, l = random() % k;
      const uint64_t right = l < part ? l * n * m + i * m + j : 1'000'000 + (i * m + j) * k + l;
      ASSERT_EQ(values[(i * m + j) * k + l], static_cast<int32_t>(right))
          << i << " " << j << " " << l;
    }
  }
}

TEST(AssembledTensor, ReadsItsSourcesInLargePieces) {
  auto left = std::make_shared<MemorySource<int32_t>>("int32", Shape{512, 64},
                                                      std::vector<int32_t>(512 * 64, 1));
  auto right = std::make_shared<MemorySource<int32_t>>("int32", Shape{512, 64},
                                                       std::vector<int32_t>(512 * 64, 2));
  const auto whole = AssembledTensor::Make(
      {512, 128}, {left, right},
      {{{0, 0}, {512, 64}, 0, 0, {64, 1}}, {{0, 64}, {512, 64}, 1, 0, {64, 1}}});
  ASSERT_TRUE(whole.ok());
  IntsOf(*whole);
  EXPECT_LE(left->reads, 8u);  // 128 KiB, of which there are 512 runs
  EXPECT_LE(right->reads, 8u);
}

TEST(AssembledTensor, AnErrorOfASourceIsTheReads) {
  const auto broken =
      std::make_shared<MemorySource<int32_t>>("int32", Shape{4, 4}, std::vector<int32_t>(3));
  for (const std::vector<uint64_t>& stride : {std::vector<uint64_t>{4, 1}, {1, 4}}) {
    const auto whole = AssembledTensor::Make({4, 4}, {broken}, {{{0, 0}, {4, 4}, 0, 0, stride}});
    ASSERT_TRUE(whole.ok());
    std::vector<std::byte> out(64);
    EXPECT_EQ((*whole)->Read(0, out).code(), StatusCode::kCorrupt);
  }
}

TEST(SummedTensor, AddsInDoubleAndRoundsOnce) {
  // 2^24 + 1 + 1: in float32 one by one the ones would be lost.
  const auto sum = SummedTensor::Make({MakeSource<float>("float32", {2}, {0x1p24f, 0.5f}),
                                       MakeSource<float>("float32", {2}, {1, 0.25f}),
                                       MakeSource<float>("float32", {2}, {1, -0.0f})});
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ((*sum)->dtype(), DTypeOf("float32"));
  EXPECT_THAT(ReadAll<float>(**sum), ElementsAre(0x1p24f + 2, 0.75f));
}

TEST(SummedTensor, RoundsBFloat16ToNearestEven) {
  // 256 + 1 lies between the bfloat16 neighbours 256 and 258: to the even one, 256 (0x4380).
  // 258 + 1 between 258 and 260: 260 (0x4382).
  const auto sum = SummedTensor::Make({MakeSource<uint16_t>("bfloat16", {2}, {0x4380, 0x4381}),
                                       MakeSource<uint16_t>("bfloat16", {2}, {0x3F80, 0x3F80})});
  ASSERT_TRUE(sum.ok());
  EXPECT_THAT(ReadAll<uint16_t>(**sum), ElementsAre(0x4380, 0x4382));
}

TEST(SummedTensor, DividesTheSumBeforeItRounds) {
  // (2^24 + 1 + 1) / 3 and 1/3, each the float32 nearest to it.
  const auto mean = SummedTensor::Make({MakeSource<float>("float32", {3}, {0x1p24f, 1, -0.0f}),
                                        MakeSource<float>("float32", {3}, {1, 0, -0.0f}),
                                        MakeSource<float>("float32", {3}, {1, 0, -0.0f})},
                                       3);
  ASSERT_TRUE(mean.ok());
  const std::vector<float> values = ReadAll<float>(**mean);
  EXPECT_THAT(values, ElementsAre(5592406.0f, 1.0f / 3, 0.0f));
  EXPECT_TRUE(std::signbit(values[2]));
  // In bfloat16 256 + 258 rounds to 514 -> 512 or 516; their mean is 257 -> 256.
  const auto rounded = SummedTensor::Make({MakeSource<uint16_t>("bfloat16", {1}, {0x4380}),
                                           MakeSource<uint16_t>("bfloat16", {1}, {0x4381})},
                                          2);
  ASSERT_TRUE(rounded.ok());
  EXPECT_THAT(ReadAll<uint16_t>(**rounded), ElementsAre(0x4380));
  EXPECT_THAT(SummedTensor::Make({Counting({2}), Counting({2})}, 2).status().message(),
              HasSubstr("mean of partial results of dtype int32"));
}

TEST(SummedTensor, KeepsNanInfinityAndTheSignOfZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = HUGE_VALF;
  const auto sum = SummedTensor::Make({MakeSource<float>("float32", {4}, {nan, inf, -0.0f, inf}),
                                       MakeSource<float>("float32", {4}, {1, 1, -0.0f, -inf})});
  ASSERT_TRUE(sum.ok());
  const std::vector<float> values = ReadAll<float>(**sum);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], inf);
  EXPECT_TRUE(std::signbit(values[2]));
  EXPECT_TRUE(std::isnan(values[3]));
}

TEST(SummedTensor, IntegersAreExactAndWrap) {
  const int64_t big = (int64_t{1} << 53) + 1;
  const auto sum = SummedTensor::Make(
      {MakeSource<int64_t>("int64", {2}, {big, std::numeric_limits<int64_t>::max()}),
       MakeSource<int64_t>("int64", {2}, {2, 1})});
  ASSERT_TRUE(sum.ok());
  EXPECT_THAT(ReadAll<int64_t>(**sum), ElementsAre(big + 2, std::numeric_limits<int64_t>::min()));
}

TEST(SummedTensor, ComplexNumbersArePartByPart) {
  const auto sum = SummedTensor::Make({MakeSource<double>("complex128", {1}, {1, 2}),
                                       MakeSource<double>("complex128", {1}, {0.5, -4})});
  ASSERT_TRUE(sum.ok());
  std::vector<double> value(2);
  ASSERT_TRUE((*sum)->Read(0, std::as_writable_bytes(std::span(value))).ok());
  EXPECT_THAT(value, ElementsAre(1.5, -2));
}

TEST(SummedTensor, RefusesOtherShapesDtypesAndOpaqueOnes) {
  const Source ints = Counting({4});
  EXPECT_THAT(SummedTensor::Make({ints, Counting({2, 2})}).status().message(),
              HasSubstr("[4] and [2, 2]"));
  EXPECT_THAT(SummedTensor::Make({ints, MakeSource<float>("float32", {4}, {1, 2, 3, 4})})
                  .status()
                  .message(),
              HasSubstr("int32 and float32"));
  EXPECT_THAT(SummedTensor::Make({MakeSource<uint16_t>("bits16", {1}, {1})}).status().message(),
              HasSubstr("bits16 cannot be summed"));
}

}  // namespace
}  // namespace tdump::compare
