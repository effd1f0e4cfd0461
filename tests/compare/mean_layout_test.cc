// Whole diffs in which what the ranks hold is, or may be, a mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

// Half a batch each: the gradients of two ranks average to that of one.
const Tensor kGradient = Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 8});
const Tensor kOfFirstHalf = Matrix(2, 4, {0, 4, 1, 7, 5, 2, 9, 8});
const Tensor kOfSecondHalf = Matrix(2, 4, {2, 0, 5, 1, 5, 10, 5, 8});

FakeRun Gradients(const std::vector<Tensor>& values, const char* dims = "") {
  FakeRun run(static_cast<int32_t>(values.size()));
  for (size_t rank = 0; rank < values.size(); ++rank) {
    PassBuilder pass = run.Pass(static_cast<int32_t>(rank), 0);
    pass.Module("fc", kInput, values[rank]);
    pass.last()->key.role = Role::kParamGrad;
    pass.last()->key.arg = "weight";
    pass.last()->dims = dims;
  }
  return run;
}

TEST(MeanLayout, AMeanIsTakenWhereItIsSaidAndNeverInferred) {
  const FakeRun one = Gradients({kGradient}), two = Gradients({kOfFirstHalf, kOfSecondHalf});
  const DiffReport inferred = DiffOk(one, two);
  EXPECT_EQ(inferred.overall, Overall::kDiffers);
  EXPECT_EQ(DiffOk(one, two, WithDims("@param_grad", "... partial[dp]")).overall,
            Overall::kDiffers);
  const DiffReport said = DiffOk(one, two, WithDims("@param_grad", "... partial[dp:mean]"));
  EXPECT_EQ(said.overall, Overall::kSame);
  EXPECT_EQ(said.counts.bits_equal, 2u);
  EXPECT_THAT(said.job->how_b, Contains(Key("mean of 2 partials on dp (--dims)")));
  const DiffReport annotated =
      DiffOk(one, Gradients({kOfFirstHalf, kOfSecondHalf}, "i o partial[dp:mean]"));
  EXPECT_EQ(annotated.overall, Overall::kSame);
  EXPECT_THAT(annotated.job->how_b, Contains(Key("mean of 2 partials on dp (annotated)")));
  // Also of A; and where one rank's is wrong they differ.
  EXPECT_EQ(DiffOk(two, one, WithDims("@param_grad", "... partial[dp:mean]")).overall,
            Overall::kSame);
  EXPECT_EQ(DiffOk(one, Gradients({kOfFirstHalf, kGradient}),
                   WithDims("@param_grad", "... partial[dp:mean]"))
                .overall,
            Overall::kDiffers);
  // A forgotten division: both hold the sum, of which the mean is the sum.
  const Tensor twice = Matrix(2, 4, {2, 4, 6, 8, 10, 12, 14, 16});
  EXPECT_EQ(DiffOk(one, Gradients({twice, twice})).overall, Overall::kDiffers);
}

TEST(MeanLayout, ASumThatIsTimesTheOtherSideNamesTheMean) {
  const FakeRun one = Gradients({kGradient}), two = Gradients({kOfFirstHalf, kOfSecondHalf});
  const DiffReport report = DiffOk(one, two, WithDims("@param_grad", "i o partial[rank]", 'B'));
  EXPECT_THAT(Joined(Text(report)),
              HasSubstr("B is the sum over the ranks and 2 times A; if what each rank holds is a "
                        "mean, as of its part of the batch: --dims 'B:@param_grad: ... "
                        "partial[rank:mean]'"));
  ASSERT_EQ(report.failing.size(), 1u);
  EXPECT_THAT(report.failing[0].comparison.notes, Contains(HasSubstr("partial[rank:mean]")));
  EXPECT_THAT(
      Joined(Text(DiffOk(two, one, WithDims("@param_grad", "i o partial[rank]", 'A')), 2, 1)),
      HasSubstr("A is the sum over the ranks and 2 times B; if what each rank holds is a "
                "mean, as of its part of the batch: --dims 'A:@param_grad: ... "
                "partial[rank:mean]'"));
  // Of an output its name; and of split dimensions all of them.
  const DiffReport split = DiffOk(Ranks({kWhole}), Ranks({kLeft, kRight, kLeft, kRight}), [] {
    DiffOptions options = WithDims("fc@output", "b h[tp] partial[dp]", 'B');
    options.job->topology_b = "tp=2,dp=2";
    return options;
  }());
  EXPECT_THAT(Joined(Text(split, 1, 4)),
              HasSubstr("--dims 'B:^fc@output: b h[tp] partial[dp:mean]'"));
  // Three times, or nothing like it, is no mean of two; nor are copies.
  const Tensor other = Matrix(2, 4, {3, 2, 8, 5, 10, 16, 12, 16});
  for (const Tensor& rest : {other, Matrix(2, 4, {2, 0, 5, 1, -5, 10, 5, 80})}) {
    EXPECT_THAT(Text(DiffOk(one, Gradients({kOfFirstHalf, rest}),
                            WithDims("@param_grad", "i o partial[dp]", 'B'))),
                Not(HasSubstr(":mean]")));
  }
  const Tensor twice = Matrix(2, 4, {2, 4, 6, 8, 10, 12, 14, 16});
  EXPECT_THAT(Text(DiffOk(one, Gradients({twice, twice}), WithDims("@param_grad", "..."))),
              Not(HasSubstr(":mean]")));
}

// Whatever was inferred in its place: a sum, or copies where the axis is called dp.
TEST(MeanLayout, AMeanThatWouldAgreeIsNamed) {
  const FakeRun one = Gradients({kGradient});
  const auto text = [&](const std::vector<Tensor>& values, const std::string& topology) {
    DiffOptions options;
    if (!topology.empty()) options.job = JobOptions{};
    if (!topology.empty()) options.job->topology_b = topology;
    const DiffReport report = DiffOk(one, Gradients(values), options);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    return Joined(Text(report, 1, static_cast<int32_t>(values.size())));
  };
  const std::string agrees =
      "the mean of what the ranks of B hold agrees with A; if it should, as of parts of the batch: "
      "--dims 'B:@param_grad: ... partial[";
  EXPECT_THAT(text({kOfFirstHalf, kOfSecondHalf}, ""), HasSubstr(agrees + "rank:mean]'"));
  EXPECT_THAT(text({kOfFirstHalf, kOfSecondHalf}, "dp=2"), HasSubstr(agrees + "dp:mean]'"));
  EXPECT_THAT(text({kOfFirstHalf, kOfFirstHalf, kOfSecondHalf, kOfSecondHalf}, "tp=2,dp=2"),
              HasSubstr(agrees + "dp:mean]'"));
  EXPECT_THAT(Joined(Text(DiffOk(Gradients({kOfFirstHalf, kOfSecondHalf}), one), 2, 1)),
              HasSubstr("the mean of what the ranks of A hold agrees with B"));
  EXPECT_THAT(text({kOfFirstHalf, kOfFirstHalf}, "dp=2"), Not(HasSubstr(":mean]")));
  const Tensor twice = Matrix(2, 4, {2, 4, 6, 8, 10, 12, 14, 16});
  EXPECT_THAT(text({twice, twice}, "dp=2"), Not(HasSubstr(":mean]")));
}

// Four ranks, tp=2 and dp=2, of which only dp's are means: the sum is 2 times too large.
TEST(MeanLayout, OfSeveralAxesTheOneOfTheBatchIsNamed) {
  std::vector<Tensor> parts;
  for (const float scale : {0.25f, 0.75f, 0.5f, 0.5f}) {
    std::vector<float> values;
    for (int i = 1; i <= 8; ++i) values.push_back(scale * static_cast<float>(i));
    parts.push_back(Matrix(2, 4, values));
  }
  DiffOptions options = WithDims("@param_grad", "i o partial[dp,tp]", 'B');
  options.job->topology_b = "tp=2,dp=2";
  EXPECT_THAT(Joined(Text(DiffOk(Gradients({kGradient}), Gradients(parts), options), 1, 4)),
              HasSubstr("--dims 'B:@param_grad: ... partial[dp:mean,tp]'"));
  options = WithDims("@param_grad", "... partial[dp:mean,tp]", 'B');
  options.job->topology_b = "tp=2,dp=2";
  EXPECT_EQ(DiffOk(Gradients({kGradient}), Gradients(parts), options).overall, Overall::kSame);
}

}  // namespace
}  // namespace tdump::compare
