// The weight that is why an operator differs, where ranks hold parts of it, or copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;

// A column-parallel operator: the columns of its weight and of its output, in parts. Of the weight
// rank 1 is farther off, of the output rank 0.
TEST(JoinedWeights, AWeightInPartsIsNamedWhicheverRankIsFarthestOff) {
  const auto run = [](const std::vector<Tensor>& weights, const std::vector<Tensor>& outs) {
    FakeRun made(static_cast<int32_t>(weights.size()));
    for (size_t rank = 0; rank < weights.size(); ++rank) {
      PassBuilder pass = made.Pass(static_cast<int32_t>(rank), 0);
      pass.Param("fc", "weight", weights[rank]);
      pass.last()->payload = weights[rank].record.payload;
      pass.Module("fc", kInput, outs[rank]);
    }
    return made;
  };
  const Tensor left = Matrix(2, 2, {1, 2.5f, 5, 6}), right = Matrix(2, 2, {3, 4, 7, 28});
  const Tensor far = Matrix(2, 2, {1, 52, 5, 6}), near = Matrix(2, 2, {3, 4, 7, 8.5f});
  const FakeRun one = run({kWhole}, {kWhole});
  const DiffReport report = DiffOk(one, run({left, right}, {far, near}));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->rank, 0);
  EXPECT_EQ(report.origin->parameter, "fc.weight");
  ASSERT_TRUE(report.origin->parameter_row);
  EXPECT_EQ(report.origin->parameter_row->rank_b, 1);
  EXPECT_THAT(Joined(Text(report, 1, 2)), HasSubstr("its parameter differs: fc.weight: 2 of 8"));
  // Of copies it is another rank's.
  const DiffReport copies = DiffOk(one, run({kWhole, Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 80})},
                                            {Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 8.5f}), kWhole}));
  ASSERT_TRUE(copies.origin);
  EXPECT_EQ(copies.origin->name, "fc");
  EXPECT_EQ(copies.origin->rank, 0);
  EXPECT_EQ(copies.origin->parameter, "");
}

TEST(JoinedWeights, AWeightNamesItsRankWhereEveryRankHasTheWrongSum) {
  const auto run = [](int32_t world, const std::vector<Tensor>& weights, const Tensor& out) {
    FakeRun made(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      PassBuilder pass = made.Pass(rank, 0);
      pass.Param("fc", "weight", weights[static_cast<size_t>(rank)]);
      pass.last()->payload = io::PayloadRef{.stored_bytes = 16, .logical_bytes = 16};
      if (world == 1) pass.last()->payload->stored_bytes = pass.last()->payload->logical_bytes = 32;
      pass.Module("fc", kInput, out);
    }
    return made;
  };
  const Tensor wrong_sum = Matrix(2, 2, {1, 2, 3, 40});
  const DiffReport report =
      DiffOk(run(1, {kWhole}, kInput), run(2, {kLeft, kWrongRight}, wrong_sum));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "fc");
  EXPECT_EQ(report.origin->parameter, "fc.weight");
  EXPECT_EQ(report.origin->rank, 1);
}

}  // namespace
}  // namespace tdump::compare
