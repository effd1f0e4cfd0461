#include "compare/sampled_error.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "compare/infer_layout.h"
#include "tests/compare/job_runs.h"
#include "tests/compare/sources.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;

using Numbers = std::vector<float>;

Numbers Noise(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Numbers values(count);
  for (float& value : values) value = normal(random);
  return values;
}

Source Floats(Shape shape, Numbers values) {
  return MakeSource<float>("float32", std::move(shape), std::move(values));
}

// The gradient of an embedding: rows that are not zero, each with one number throughout.
constexpr uint64_t kRows = 60'000, kWidth = 8;
using Rows = std::map<uint64_t, float>;
Numbers Embedding(const Rows& rows) {
  Numbers values(kRows * kWidth);
  for (const auto& [row, number] : rows)
    std::fill_n(values.begin() + static_cast<ptrdiff_t>(row * kWidth), kWidth, number);
  return values;
}
double ErrorOf(const Rows& a, const Rows& b) {
  const Shape shape = {kRows, kWidth};
  return *SampledError(*Floats(shape, Embedding(a)), *Floats(shape, Embedding(b)));
}
// No block of the sample, one in 468 rows, has these: each is 64 rows long.
constexpr uint64_t kUnseen = 200, kAlsoUnseen = 400;

TEST(SampledError, IsRelativeToTheLargerSide) {
  const auto error = SampledError(*Floats({2}, {3, 4}), *Floats({2}, {3, 1}));
  EXPECT_DOUBLE_EQ(*error, 3.0 / 5.0);
  EXPECT_TRUE(std::isnan(*SampledError(*Floats({2}, {0, 0}), *Floats({2}, {0, 0}))));
  EXPECT_EQ(*SampledError(*Floats({2}, {NAN, 2}), *Floats({2}, {1, 2})), 0);
  EXPECT_EQ(*SampledError(*Ints({2}, {1, 2}), *Floats({2}, {1, 2})), 0);
  EXPECT_FALSE(SampledError(*Floats({2}, {1, 1}), *Floats({1}, {1})).ok());
}

TEST(SampledError, LooksAtWhatIsNotZero) {
  EXPECT_EQ(ErrorOf({{kUnseen, 3}}, {{kUnseen, 3}}), 0);
  EXPECT_DOUBLE_EQ(ErrorOf({{kUnseen, 3}}, {{kUnseen, 4}}), 1.0 / 4.0);
  // One of them alone holds it, beside what both do.
  EXPECT_DOUBLE_EQ(ErrorOf({{kUnseen, 3}}, {{kUnseen, 3}, {kAlsoUnseen, 4}}), 4.0 / 5.0);
  EXPECT_NEAR(ErrorOf({{kUnseen, 3}, {kAlsoUnseen, 4}}, {{kUnseen, 3}}), 4.0 / std::sqrt(34), 1e-9);
  // Row 0 is in the sample.
  EXPECT_GT(ErrorOf({{0, 3}}, {{0, 3}, {kUnseen, 4}}), 0.5);
}

TEST(SampledError, OfNothingButZerosThereIsNothingToMeasure) {
  EXPECT_TRUE(std::isnan(ErrorOf({}, {})));
  EXPECT_TRUE(std::isnan(ErrorOf({{kUnseen, -0.0f}}, {})));
  EXPECT_EQ(ErrorOf({}, {{kUnseen, 3}}), 1);
}

TEST(NumberBlocks, AreFoundOnce) {
  MemorySource<float> tensor("float32", {kRows, kWidth},
                             Embedding({{kUnseen, 1}, {kAlsoUnseen, -0.0f}, {kRows - 1, 2}}));
  NumberBlocks blocks;
  const auto first = blocks.Of(tensor);
  EXPECT_THAT(std::vector<uint64_t>(first->begin(), first->end()),
              ElementsAre(kUnseen * kWidth / 512 * 512, (kRows - 1) * kWidth / 512 * 512));
  const size_t reads = tensor.reads;
  EXPECT_EQ(blocks.Of(tensor)->size(), 2u);
  EXPECT_EQ(tensor.reads, reads);
  EXPECT_THAT(*NumberBlocks().Of(*Floats({kRows, kWidth}, Embedding({}))), IsEmpty());
}

TEST(NumberBlocks, OfManySomeAreTakenAllOverTheTensor) {
  Rows rows;
  for (uint64_t row = 0; row < kRows; row += 64) rows[row] = 1;  // one in each block
  const auto source = Floats({kRows, kWidth}, Embedding(rows));
  NumberBlocks blocks;
  const auto found = blocks.Of(*source);
  EXPECT_GE(found->size(), 128u);
  EXPECT_LT(found->size(), 256u);
  EXPECT_EQ(found->front(), 0u);
  EXPECT_GT(found->back(), kRows * kWidth * 9 / 10);
}

bool MayBe(const std::vector<Numbers>& held, const Shape& shape) {
  std::vector<Shard> shards;
  std::vector<Source> sources;
  for (const Numbers& values : held) {
    sources.push_back(Floats(shape, values));
    shards.push_back({static_cast<int32_t>(shards.size()), sources.back()->dtype(), shape});
  }
  const auto plan = PlanUnshard(
      shards, *Dims::Parse("... partial[tp]"),
      *Topology::Parse(fmt::format("tp={}", held.size()), static_cast<int32_t>(held.size())));
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  const auto copies =
      MayBeCopies(*plan, [&](size_t shard) { return Result<Source>(sources[shard]); });
  return copies.ok() && *copies;
}

TEST(MayBeCopies, TellsWhatRanksWithCopiesHold) {
  const Numbers zeros(12), x = Noise(12, 6), y = Noise(12, 7);
  const auto may_be = [](const std::vector<Numbers>& held) { return MayBe(held, {3, 4}); };
  EXPECT_FALSE(may_be({x, y}));
  EXPECT_TRUE(may_be({x, x}));
  EXPECT_TRUE(may_be({x, y, x, y}));
  EXPECT_TRUE(may_be({x, zeros}));
  EXPECT_FALSE(may_be({x, y, zeros, zeros}));  // as experts without a token
  EXPECT_FALSE(may_be({zeros, zeros}));
}

TEST(MayBeCopies, TellsItOfGradientsOfFewRows) {
  const Numbers x = Embedding({{kUnseen, 1}}), y = Embedding({{kAlsoUnseen, 2}}),
                z = Embedding({{0, 3}, {kUnseen, 1}}), zeros = Embedding({});
  const auto may_be = [](const std::vector<Numbers>& held) { return MayBe(held, {kRows, kWidth}); };
  EXPECT_FALSE(may_be({x, y}));
  EXPECT_FALSE(may_be({x, z}));
  EXPECT_FALSE(may_be({x, y, zeros, zeros}));
  EXPECT_TRUE(may_be({x, x}));
  EXPECT_TRUE(may_be({x, zeros}));
  EXPECT_TRUE(may_be({z, z}));
}

// One process against two that share its batch: each has the gradient of its own tokens.
FakeRun Trained(const std::vector<std::vector<uint64_t>>& rows_of_ranks, bool hashed) {
  FakeRun run(static_cast<int32_t>(rows_of_ranks.size()));
  for (size_t i = 0; i < rows_of_ranks.size(); ++i) {
    Rows rows;
    for (const uint64_t row : rows_of_ranks[i]) rows[row] = static_cast<float>(1 + row % 3);
    const auto rank = static_cast<int32_t>(i);
    run.Place(rank, fmt::format("dp={}", rank));
    PassBuilder pass = run.Pass(rank, 0);
    const uint64_t call = pass.Begin("embed", "", {});
    pass.End(call, "embed", "", {{"weight", Matrix(kRows, kWidth, Embedding(rows))}});
    pass.last()->key.role = Role::kParamGrad;
    if (!hashed) pass.last()->hash.reset();
  }
  return run;
}

TEST(MayBeCopies, GradientsOfFewRowsAreAddedUp) {
  const std::vector<uint64_t> all = {0, kUnseen, kAlsoUnseen};
  for (const bool hashed : {true, false}) {
    SCOPED_TRACE(hashed);
    const FakeRun one = Trained({all}, hashed);
    for (const auto& rows : {std::vector<uint64_t>{0}, {kUnseen}, {0, kAlsoUnseen}}) {
      std::vector<uint64_t> rest;
      for (const uint64_t row : all)
        if (std::find(rows.begin(), rows.end(), row) == rows.end()) rest.push_back(row);
      const DiffReport report = DiffOk(one, Trained({rows, rest}, hashed));
      EXPECT_EQ(report.overall, Overall::kSame) << rows.back();
      EXPECT_THAT(report.job->how_b, Contains(Key("sum of 2 partials on dp (inferred)")));
    }
    // What one rank lost is no summand, nor what both hold.
    const auto overall = [&](const std::vector<uint64_t>& first,
                             const std::vector<uint64_t>& second) {
      return DiffOk(one, Trained({first, second}, hashed)).overall;
    };
    EXPECT_EQ(overall(all, {}), Overall::kDiffers);
    EXPECT_EQ(overall(all, {kUnseen}), Overall::kDiffers);
    EXPECT_EQ(overall({0}, {kUnseen}), Overall::kDiffers);
    EXPECT_EQ(overall(all, all), Overall::kSame);
  }
}

}  // namespace
}  // namespace tdump::compare
