// Whole diffs of runs made by hand whose ranks are put together: other numbers of ranks, other
// layouts, pipeline stages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compare/diff.h"
#include "compare/report.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;

Tensor Matrix(int64_t rows, int64_t columns, const std::vector<float>& values) {
  return MakeTensor<float>("float32", {rows, columns}, values);
}

const Tensor kInput = Matrix(2, 2, {1, 2, 3, 4});
const Tensor kWhole = Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 8});
const Tensor kLeft = Matrix(2, 2, {1, 2, 5, 6});  // columns 0-1 of kWhole
const Tensor kRight = Matrix(2, 2, {3, 4, 7, 8});
const Tensor kWrongRight = Matrix(2, 2, {3, 4, 7, 9});

std::string Text(const DiffReport& report, int32_t world_a = 1, int32_t world_b = 2) {
  return RenderText(report, {.label = "a@0", .world = world_a}, {.label = "b@0", .world = world_b},
                    false, Style(false));
}

// Without the breaks of lines.
std::string Joined(const std::string& text) {
  std::string joined;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank || (!joined.empty() && joined.back() != ' ')) joined += blank ? ' ' : c;
  }
  return joined;
}

FakeRun OneRank(const Tensor& out) {
  FakeRun run(1);
  run.Pass(0, 0).Module("fc", kInput, out);
  return run;
}

FakeRun Ranks(const std::vector<Tensor>& outs) {
  FakeRun run(static_cast<int32_t>(outs.size()));
  for (size_t rank = 0; rank < outs.size(); ++rank)
    run.Pass(static_cast<int32_t>(rank), 0).Module("fc", kInput, outs[rank]);
  return run;
}

TEST(JobDiff, ShardsOfTwoRanksAreTheWholeOfOne) {
  const DiffReport report = DiffOk(OneRank(kWhole), Ranks({kLeft, kRight}));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 2u);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  EXPECT_EQ(report.counts.equal_by_hash, 1u);  // the input, which both ranks hold
  EXPECT_EQ(report.counts.read, 1u);
  ASSERT_TRUE(report.job);
  EXPECT_THAT(report.job->ranks_a, ElementsAre(0));
  EXPECT_THAT(report.job->ranks_b, ElementsAre(0, 1));
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("inferred"))));
  EXPECT_THAT(Text(report), HasSubstr("SAME  2 of 2 bit for bit"));
  EXPECT_THAT(Text(report), HasSubstr("ranks 0-1 of 2"));
  EXPECT_THAT(Text(report), HasSubstr("layout    "));
}

// A step may take hours: what is done of it is told, tensor by tensor and pair by pair.
TEST(JobDiff, ProgressMovesWithinAStep) {
  using Doing = Progress::Doing;
  FakeRun one(1), two(2);
  for (uint64_t step = 0; step < 2; ++step) {
    PassBuilder whole = one.Pass(0, step), left = two.Pass(0, step), right = two.Pass(1, step);
    for (const std::string name : {"layers.0", "layers.1", "layers.2"}) {
      whole.Module(name, kInput, kWhole);
      left.Module(name, kInput, kLeft);
      right.Module(name, kInput, kRight);
    }
  }
  std::vector<Progress> told;
  DiffOptions options;
  options.on_progress = [&](const Progress& progress) { told.push_back(progress); };
  const DiffReport report = DiffOk(one, two, options);
  EXPECT_EQ(report.counts.paired, 12u);
  std::vector<size_t> put_together, compared, passes;
  for (const Progress& progress : told) {
    EXPECT_EQ(progress.passes, 2u);
    if (progress.all == 0)
      passes.push_back(progress.passes_done);
    else
      (progress.doing == Doing::kComparing ? compared : put_together).push_back(progress.done);
  }
  EXPECT_THAT(passes, ElementsAre(1, 2));
  EXPECT_THAT(put_together, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(compared, ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6));
}

TEST(JobDiff, EitherSideMayBeTheShardedOne) {
  EXPECT_EQ(DiffOk(Ranks({kLeft, kRight}), OneRank(kWhole)).overall, Overall::kSame);
}

TEST(JobDiff, TheRankThatHoldsTheWrongShardIsNamed) {
  const DiffReport report = DiffOk(OneRank(kWhole), Ranks({kLeft, kWrongRight}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 1u);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->rank, 1);
  EXPECT_EQ(report.origin->rank_a, 0);
  EXPECT_EQ(report.origin->name, "fc");
  EXPECT_TRUE(report.origin->certain);
  EXPECT_THAT(report.origin->row->comparison.metrics->worst.position, ElementsAre(1, 3));
  EXPECT_THAT(Text(report), HasSubstr("ORIGIN    rank 1, step 0, fc, output\n"));
}

TEST(JobDiff, BothSidesMayBeSharded) {
  const std::vector<Tensor> columns = {Matrix(2, 1, {1, 5}), Matrix(2, 1, {2, 6}),
                                       Matrix(2, 1, {3, 7}), Matrix(2, 1, {4, 8})};
  EXPECT_EQ(DiffOk(Ranks({kLeft, kRight}), Ranks(columns)).overall, Overall::kSame);
  std::vector<Tensor> wrong = columns;
  wrong[2] = Matrix(2, 1, {3, 70});
  const DiffReport report = DiffOk(Ranks({kLeft, kRight}), Ranks(wrong));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.origin->rank, 2);
  EXPECT_EQ(report.origin->rank_a, 1);
}

TEST(JobDiff, PartialSumsAreAdded) {
  const Tensor half = Matrix(2, 4, {0, 1, 1, 2, 2, 3, 3, 4});
  const Tensor rest = Matrix(2, 4, {1, 1, 2, 2, 3, 3, 4, 4});
  const DiffReport report = DiffOk(OneRank(kWhole), Ranks({half, rest}));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("sum"))));
}

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

TEST(JobDiff, AMeanIsTakenWhereItIsSaidAndNeverInferred) {
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

TEST(JobDiff, ASumThatIsTimesTheOtherSideNamesTheMean) {
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
TEST(JobDiff, AMeanThatWouldAgreeIsNamed) {
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
TEST(JobDiff, OfSeveralAxesTheOneOfTheBatchIsNamed) {
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

// A sum with zeros would agree, and hide that a rank lost its copy.
TEST(JobDiff, ACopyOfZerosIsNoSummand) {
  const Tensor zeros = Matrix(2, 4, std::vector<float>(8, 0));
  for (const auto& outs : {std::vector<Tensor>{zeros, kWhole}, {kWhole, zeros}}) {
    EXPECT_EQ(DiffOk(OneRank(kWhole), Ranks(outs)).overall, Overall::kDiffers);
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      PassBuilder pass = run.Pass(rank, 0);
      pass.Module("fc", kInput, outs[static_cast<size_t>(rank)]);
      pass.last()->hash.reset();
    }
    EXPECT_EQ(DiffOk(OneRank(kWhole), run).overall, Overall::kDiffers);
  }
  // That it is one can be told.
  EXPECT_EQ(
      DiffOk(OneRank(kWhole), Ranks({zeros, kWhole}), WithDims("fc@output", "x y partial[rank]"))
          .overall,
      Overall::kSame);
  // All of it zero is no question.
  EXPECT_EQ(DiffOk(OneRank(zeros), Ranks({zeros, zeros})).overall, Overall::kSame);
}

TEST(JobDiff, CopiesThatShouldBeEqualAreComparedOneByOne) {
  const Tensor wrong = Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 88});
  for (const int32_t bad : {0, 1, 2}) {
    std::vector<Tensor> outs(3, kWhole);
    outs[static_cast<size_t>(bad)] = wrong;
    const DiffReport report = DiffOk(OneRank(kWhole), Ranks(outs), WithDims("fc", "..."));
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_EQ(report.counts.failing, 1u) << bad;
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->rank, bad);
    EXPECT_THAT(report.origin->row->layout_b, HasSubstr("differ"));
  }
}

TEST(JobDiff, EveryCopyIsComparedHoweverManyDiffer) {
  // All are a few roundings apart, which is within bounds; the last one is wrong.
  std::vector<Tensor> outs;
  for (int rank = 0; rank < 100; ++rank)
    outs.push_back(Matrix(2, 2,
                          {1 + static_cast<float>(rank % 4) * 0x1p-23f,
                           2 + static_cast<float>(rank / 4 % 4) * 0x1p-22f,
                           3 + static_cast<float>(rank / 16 % 4) * 0x1p-22f,
                           4 + static_cast<float>(rank / 64) * 0x1p-21f}));
  outs.back() = Matrix(2, 2, {1, 2, 3, 40});
  const DiffReport report = DiffOk(OneRank(outs.front()), Ranks(outs), WithDims("fc", "..."));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->row->rank_b, 99);
}

TEST(JobDiff, AMissingShardIsAnErrorOfItsOperatorAlone) {
  FakeRun b(2);
  b.Pass(0, 0).Module("fc", kInput, kLeft).Module("norm", kInput, kInput);
  b.Pass(1, 0).Module("norm", kInput, kInput);
  FakeRun a(1);
  a.Pass(0, 0).Module("fc", kInput, kWhole).Module("norm", kInput, kInput);
  const DiffReport report = DiffOk(a, b, WithDims("fc", "b h[tp]"));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.paired, 4u);
  EXPECT_EQ(report.counts.unresolved, 2u);  // input and output of fc
  EXPECT_EQ(report.counts.failing, 2u);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  ASSERT_FALSE(report.failing.empty());
  EXPECT_THAT(report.failing[0].comparison.notes, ElementsAre(HasSubstr("b h[tp]")));
}

TEST(JobDiff, WhatShapesCannotExplainAsksForDims) {
  const DiffReport report =
      DiffOk(OneRank(kWhole), Ranks({Matrix(2, 3, {1, 2, 3, 5, 6, 7}), Matrix(1, 2, {4, 8})}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unresolved, 1u);
  EXPECT_THAT(report.failing[0].comparison.notes[0], HasSubstr("--dims '^fc@output: ...'"));
}

TEST(JobDiff, WhyATensorCouldNotBePutTogetherIsToldWhole) {
  // The text of the dims has a colon.
  const DiffReport report =
      DiffOk(OneRank(kWhole), Ranks({kLeft, kRight}), WithDims("fc@output", "b h[tp:sizes=3+1]"));
  ASSERT_EQ(report.counts.unresolved, 1u);
  const std::string why = report.failing[0].comparison.notes.back();
  EXPECT_THAT(why, HasSubstr("'b h[tp:sizes=3+1]' (--dims)"));
  EXPECT_THAT(report.notes, ElementsAre(why));
  EXPECT_THAT(Joined(Text(report)), HasSubstr("note " + why));
}

TEST(JobDiff, OfManyThatCouldNotBePutTogetherTheFirstAreTold) {
  FakeRun a(1), b(2);
  PassBuilder whole = a.Pass(0, 0), left = b.Pass(0, 0), right = b.Pass(1, 0);
  for (int i = 0; i < 8; ++i) {
    const std::string name = "fc" + std::to_string(i);
    whole.Module(name, kInput, kWhole);
    left.Module(name, kInput, Matrix(2, 3, {1, 2, 3, 5, 6, 7}));
    right.Module(name, kInput, Matrix(1, 2, {4, 8}));
  }
  DiffOptions options;
  options.top = 5;
  const DiffReport report = DiffOk(a, b, options);
  ASSERT_EQ(report.counts.unresolved, 8u);
  ASSERT_EQ(report.notes.size(), 6u);
  EXPECT_THAT(report.notes[4], HasSubstr("--dims '^fc4@output: ...'"));
  EXPECT_EQ(report.notes[5], "3 more could not be put together: --all, or --jsonl FILE");
}

TEST(JobDiff, UnevenShardsFollowTheirShapes) {
  const DiffReport report =
      DiffOk(OneRank(kWhole), Ranks({Matrix(2, 3, {1, 2, 3, 5, 6, 7}), Matrix(2, 1, {4, 8})}));
  EXPECT_EQ(report.overall, Overall::kSame);
}

TEST(JobDiff, DimsOfBothSidesReorderDimensions) {
  // A holds [b, h], B [h, b] split over h.
  DiffOptions options = WithDims("fc", "b h", 'A');
  options.job->dims.push_back({'B', Named("fc"), *Dims::Parse("h[tp] b")});
  const Tensor input = Matrix(2, 2, {1, 3, 2, 4});
  FakeRun b(2);
  b.Pass(0, 0).Module("fc", Matrix(1, 2, {1, 3}), Matrix(2, 2, {1, 5, 2, 6}));
  b.Pass(1, 0).Module("fc", Matrix(1, 2, {2, 4}), Matrix(2, 2, {3, 7, 4, 8}));
  const DiffReport report = DiffOk(OneRank(kWhole), b, options);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  FakeRun wrong(2);
  wrong.Pass(0, 0).Module("fc", Matrix(1, 2, {1, 3}), Matrix(2, 2, {1, 5, 2, 6}));
  wrong.Pass(1, 0).Module("fc", Matrix(1, 2, {2, 4}), Matrix(2, 2, {3, 7, 4, 9}));
  const DiffReport differs = DiffOk(OneRank(kWhole), wrong, options);
  EXPECT_EQ(differs.origin->rank, 1);
  EXPECT_THAT(differs.origin->row->comparison.metrics->worst.position, ElementsAre(1, 3));
}

// Ranks whose output of fc says itself how it is shared.
FakeRun Annotated(const std::vector<Tensor>& outs, const std::function<void(io::Record*)>& say) {
  FakeRun run(static_cast<int32_t>(outs.size()));
  for (size_t rank = 0; rank < outs.size(); ++rank) {
    PassBuilder pass = run.Pass(static_cast<int32_t>(rank), 0);
    pass.Module("fc", kInput, outs[rank]);
    say(pass.last());
  }
  return run;
}
FakeRun WithRecordDims(const std::vector<Tensor>& outs, const std::string& dims) {
  return Annotated(outs, [&](io::Record* record) { record->dims = dims; });
}

// Rank 0 has columns 0 and 2: nothing that shapes suggest.
const Tensor kEven = Matrix(2, 2, {1, 3, 5, 7}), kOdd = Matrix(2, 2, {2, 4, 6, 8});

TEST(JobDiff, WhatTheCaptureSaysOfDimsHolds) {
  EXPECT_EQ(DiffOk(OneRank(kWhole), Ranks({kEven, kOdd})).overall, Overall::kDiffers);
  const FakeRun striped = WithRecordDims({kEven, kOdd}, "b h[tp:striped]");
  const DiffReport report = DiffOk(OneRank(kWhole), striped);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("(annotated)"))));
  // Also where the data would say something else.
  const DiffReport wrong =
      DiffOk(OneRank(kWhole), WithRecordDims({kLeft, kRight}, "b h[tp:striped]"));
  EXPECT_EQ(wrong.overall, Overall::kDiffers);
  EXPECT_EQ(wrong.counts.failing, 1u);
  // What the user says goes before it.
  EXPECT_EQ(DiffOk(OneRank(kWhole), WithRecordDims({kLeft, kRight}, "b h[tp:striped]"),
                   WithDims("fc@output", "b h[tp]"))
                .overall,
            Overall::kSame);
}

TEST(JobDiff, AnAnnotationThatContradictsTheShapesFailsItsOperator) {
  for (const char* dims : {"b=3 h[tp]", "b h[tp:sizes=3+1]"}) {
    const DiffReport report = DiffOk(OneRank(kWhole), WithRecordDims({kLeft, kRight}, dims));
    EXPECT_EQ(report.overall, Overall::kDiffers) << dims;
    EXPECT_EQ(report.counts.paired, 2u);
    EXPECT_EQ(report.counts.unresolved, 1u) << dims;
    EXPECT_EQ(report.counts.bits_equal, 1u);  // its input
    ASSERT_EQ(report.failing.size(), 1u);
    EXPECT_THAT(report.failing[0].comparison.notes.back(),
                HasSubstr(std::string("'") + dims + "' (annotated)"));
  }
}

TEST(JobDiff, PlacementsOfADTensorAreFollowed) {
  // Four ranks of a mesh whose first axis, the slowest, is dp: ranks 0 and 2 hold the left half.
  const auto run = [](const std::vector<Tensor>& outs, const char* placements) {
    return Annotated(outs, [&](io::Record* record) {
      record->placements = placements;
      record->mesh = "DeviceMesh((dp=2, tp=2), 'cuda', stride=(2, 1))";
      record->global_shape = {2, 4};
    });
  };
  const char* columns = "(Replicate(), Shard(dim=1))";
  const DiffReport report = DiffOk(OneRank(kWhole), run({kLeft, kRight, kLeft, kRight}, columns));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("(annotated)"))));
  // Another order of the same shards contradicts the mesh.
  EXPECT_EQ(DiffOk(OneRank(kWhole), run({kLeft, kLeft, kRight, kRight}, columns)).overall,
            Overall::kDiffers);
  // The copy of one dp rank is wrong.
  const DiffReport wrong =
      DiffOk(OneRank(kWhole), run({kLeft, kRight, kLeft, kWrongRight}, columns));
  EXPECT_EQ(wrong.overall, Overall::kDiffers);
  ASSERT_TRUE(wrong.origin);
  EXPECT_EQ(wrong.origin->rank, 3);
  // The mean over dp.
  const Tensor less = Matrix(2, 2, {0, 1, 4, 5}), more = Matrix(2, 2, {2, 3, 6, 7});
  EXPECT_EQ(
      DiffOk(OneRank(kWhole), run({less, kRight, more, kRight}, "(Partial(avg), Shard(dim=1))"))
          .overall,
      Overall::kSame);
  EXPECT_EQ(
      DiffOk(OneRank(kWhole), run({less, kRight, more, kRight}, "(Partial(sum), Shard(dim=1))"))
          .overall,
      Overall::kDiffers);
  // Rows over dp, sums over tp.
  const Tensor top = Matrix(1, 4, {1, 1, 1, 1}), of_top = Matrix(1, 4, {0, 1, 2, 3});
  const Tensor bottom = Matrix(1, 4, {5, 5, 5, 5}), of_bottom = Matrix(1, 4, {0, 1, 2, 3});
  EXPECT_EQ(
      DiffOk(OneRank(kWhole), run({top, of_top, bottom, of_bottom}, "(Shard(dim=0), Partial(sum))"))
          .overall,
      Overall::kSame);
}

// Experts that got 3, 0 and 1 tokens.
TEST(JobDiff, ARankMayHoldNoTokens) {
  const Tensor tokens = Matrix(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto ranks = [](float last) {
    return Ranks({Matrix(3, 2, {1, 2, 3, 4, 5, 6}), Matrix(0, 2, {}), Matrix(1, 2, {7, last})});
  };
  const DiffOptions options = WithDims("fc@output", "t[ep] h");
  const DiffReport report = DiffOk(OneRank(tokens), ranks(8), options);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  const DiffReport wrong = DiffOk(OneRank(tokens), ranks(9), options);
  ASSERT_TRUE(wrong.origin);
  EXPECT_EQ(wrong.origin->rank, 2);
  EXPECT_THAT(wrong.origin->row->comparison.metrics->worst.position, ElementsAre(3, 1));
}

// Context parallel: of 8 pieces rank i of 4 holds pieces i and 7 - i.
TEST(JobDiff, ZigzagOfContextParallelRanksIsUndone) {
  const auto column = [](const std::vector<float>& values) {
    return Matrix(static_cast<int64_t>(values.size()), 1, values);
  };
  const Tensor whole = column({0, 10, 20, 30, 40, 50, 60, 70});
  const std::vector<Tensor> shards = {column({0, 70}), column({10, 60}), column({20, 50}),
                                      column({30, 40})};
  for (const FakeRun& run : {WithRecordDims(shards, "s[cp:zigzag] h"), Ranks(shards)}) {
    const DiffReport report = DiffOk(OneRank(whole), run);
    EXPECT_EQ(report.overall, Overall::kSame);
    EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("zig"))));
  }
  EXPECT_EQ(DiffOk(OneRank(whole), WithRecordDims(shards, "s[cp] h")).overall, Overall::kDiffers);
  std::vector<Tensor> wrong = shards;
  wrong[2] = column({20, 55});
  const DiffReport report = DiffOk(OneRank(whole), WithRecordDims(wrong, "s[cp:zigzag] h"));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->rank, 2);
  EXPECT_THAT(report.origin->row->comparison.metrics->worst.position, ElementsAre(5, 0));
}

TEST(JobDiff, ARuleMayBeAboutOneRole) {
  // By name alone the rule is about the input as well, which every rank holds.
  EXPECT_EQ(DiffOk(OneRank(kWhole), Ranks({kLeft, kRight}), WithDims("fc", "b h[tp]")).counts.shape,
            1u);
  EXPECT_EQ(
      DiffOk(OneRank(kWhole), Ranks({kLeft, kRight}), WithDims("fc@output", "b h[tp]")).overall,
      Overall::kSame);
  // And of other numbers of dimensions it says nothing.
  EXPECT_EQ(DiffOk(OneRank(kWhole), Ranks({kLeft, kRight}), WithDims("fc", "b s h[tp]")).overall,
            Overall::kSame);
}

TEST(JobDiff, DimensionsAreNotReorderedUnasked) {
  const DiffReport report =
      DiffOk(OneRank(kWhole), Ranks({Matrix(2, 2, {1, 5, 2, 6}), Matrix(2, 2, {3, 7, 4, 8})}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
}

TEST(JobDiff, ShapesThatDifferStayDifferent) {
  const Tensor three = MakeTensor<float>("float32", {3}, {1, 2, 3});
  const Tensor column = MakeTensor<float>("float32", {3, 1}, {1, 2, 3});
  const DiffReport report = DiffOk(OneRank(three), Ranks({column, column}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.shape, 1u);
}

TEST(JobDiff, WithHashesAloneCopiesAreJudgedAndShardsAreNot) {
  FakeRun a(1), b(2);
  a.Pass(0, 0)
      .Param("norm", "weight", kInput)
      .Param("fc", "weight", kWhole)
      .Module("m", kInput, kInput);
  b.Pass(0, 0)
      .Param("norm", "weight", kInput)
      .Param("fc", "weight", kLeft)
      .Module("m", kInput, kInput);
  b.Pass(1, 0)
      .Param("norm", "weight", kInput)
      .Param("fc", "weight", kRight)
      .Module("m", kInput, kInput);
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.not_judged, 1u);
  EXPECT_EQ(report.counts.equal_by_hash, 3u);
}

TEST(JobDiff, AWeightNamesItsRankWhereEveryRankHasTheWrongSum) {
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

// F12: stages of a pipeline that number their layers from 0 on.
FakeRun Stages(const std::vector<std::vector<Tensor>>& layers, bool with_coordinates) {
  FakeRun run(static_cast<int32_t>(layers.size()));
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    const auto rank = static_cast<int32_t>(stage);
    if (with_coordinates) run.Place(rank, "pp=" + std::to_string(stage));
    PassBuilder pass = run.Pass(rank, 0);
    for (size_t layer = 0; layer < layers[stage].size(); ++layer)
      pass.Module("layers." + std::to_string(layer), kInput, layers[stage][layer]);
  }
  return run;
}

FakeRun Layers(const std::vector<Tensor>& layers) { return Stages({layers}, false); }

Tensor Value(float value) { return Matrix(2, 2, {value, value, value, value}); }

TEST(JobDiff, StagesThatCountFromZeroGetTheNumbersOfTheModel) {
  const FakeRun whole = Layers({Value(1), Value(2), Value(3)});
  const DiffReport report = DiffOk(whole, Stages({{Value(1), Value(2)}, {Value(3)}}, true));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 6u);
  EXPECT_THAT(report.notes, Contains(HasSubstr("layer 0 of the last stage is layer 2")));
  const DiffReport wrong = DiffOk(whole, Stages({{Value(1), Value(2)}, {Value(4)}}, true));
  EXPECT_EQ(wrong.overall, Overall::kDiffers);
  EXPECT_EQ(wrong.origin->rank, 1);
}

TEST(JobDiff, OfWhatEveryStageHoldsTheEndsAreTheModels) {
  FakeRun a(1), b(2);
  PassBuilder whole = a.Pass(0, 0);
  const uint64_t root = whole.Begin("decoder", "", {{"0", Value(1)}});
  whole.Module("decoder.layers.0", Value(1), Value(2))
      .Module("decoder.layers.1", Value(2), Value(3));
  whole.End(root, "decoder", "", {{"", Value(3)}});
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, "pp=" + std::to_string(rank));
    const float in = static_cast<float>(rank + 1);
    PassBuilder pass = b.Pass(rank, 0);
    const uint64_t outer = pass.Begin("decoder", "", {{"0", Value(in)}});
    pass.Module("decoder.layers.0", Value(in), Value(in + 1));
    pass.End(outer, "decoder", "", {{"", Value(in + 1)}});
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 6u);
}

TEST(JobDiff, AWeightThatTwoStagesShareIsOne) {
  FakeRun a(1), b(2);
  a.Pass(0, 0)
      .Param("embedding", "weight", kWhole)
      .Module("layers.0", kInput, kInput)
      .Module("layers.1", kInput, kInput);
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, "pp=" + std::to_string(rank));
    b.Pass(rank, 0).Param("embedding", "weight", kWhole).Module("layers.0", kInput, kInput);
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.equal_by_hash, 5u);
}

TEST(JobDiff, StagesAreNotPairedByNameAlone) {
  // Nobody says that the ranks are stages: rank 1's layers.0 is no copy of rank 0's, and the layers
  // that only A has stay alone.
  const DiffReport report =
      DiffOk(Layers({Value(1), Value(2)}), Stages({{Value(1)}, {Value(2)}}, false));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_EQ(report.counts.failing, 1u);
  EXPECT_EQ(report.failing[0].rank_b, 1);
  // Both hold the same: no digest differs, and still layers.1 is missing.
  const DiffReport equal =
      DiffOk(Layers({Value(1), Value(1)}), Stages({{Value(1)}, {Value(1)}}, false));
  EXPECT_EQ(equal.overall, Overall::kDiffers);
  EXPECT_EQ(equal.counts.unpaired_a, 2u);
}

// Rank 1's layers.0 is layer 1 of the model: no copy of rank 0's, whatever it is called.
TEST(JobDiff, RanksOfTwoStagesAreNotCompared) {
  const FakeRun run = Stages({{Value(1)}, {Value(2)}}, true);
  const auto of = [&](int32_t a, int32_t b, const DiffOptions& options = {}) {
    const auto report = Diff(run.side(a), run.side(b), options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : DiffReport();
  };
  for (const DiffReport& report : {of(0, 1), of(0, 1, WithDims("fc", "..."))}) {
    EXPECT_EQ(report.overall, Overall::kNotComparable);
    EXPECT_EQ(report.counts.paired, 0u);
    EXPECT_EQ(report.why_not,
              "run is stage 0 of a pipeline (pp) and run stage 1: their layers are not the same; "
              "name ranks of one stage, or compare the whole runs");
  }
  EXPECT_EQ(of(1, 1).overall, Overall::kSame);
  // Nobody says that the ranks are stages.
  const FakeRun unknown = Stages({{Value(1)}, {Value(2)}}, false);
  EXPECT_EQ(Diff(unknown.side(0), unknown.side(1), {})->overall, Overall::kDiffers);
  // What the user selects may be the same: tied embeddings.
  DiffOptions selected;
  selected.pass.select = [](const std::string&) { return true; };
  EXPECT_NE(of(0, 1, selected).overall, Overall::kNotComparable);
  EXPECT_THAT(of(0, 1, selected).notes, Contains(HasSubstr("stage 0 of a pipeline")));
  // A map may say which layer it is.
  DiffOptions mapped;
  mapped.job = JobOptions{};
  mapped.job->map = *NameMap::Parse("version: 1\nrules: [{name: layers, to: layers}]", "m.yaml");
  EXPECT_NE(of(0, 1, mapped).overall, Overall::kNotComparable);
}

TEST(JobDiff, ChunksOfAnInterleavedPipelineComeInTheirOrder) {
  FakeRun b(2);
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, "pp=" + std::to_string(rank));
    PassBuilder pass = b.Pass(rank, 0);
    for (const uint32_t chunk : {0u, 1u}) {
      // Chunk c of stage s is the (c * 2 + s)-th.
      pass.Module("layers.0", kInput, Value(static_cast<float>(chunk * 2 + rank)));
      pass.last()->key.chunk = (pass.last() - 1)->key.chunk = chunk;
      pass.last()->key.call = (pass.last() - 1)->key.call = 0;
    }
  }
  const DiffReport report = DiffOk(Layers({Value(0), Value(1), Value(2), Value(3)}), b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 8u);
  EXPECT_EQ(report.counts.bits_equal, 8u);
}

TEST(JobDiff, GlobalNumbersStay) {
  FakeRun b(2);
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, "pp=" + std::to_string(rank));
    b.Pass(rank, 0).Module("layers." + std::to_string(rank), kInput,
                           Value(static_cast<float>(rank)));
  }
  const DiffReport report = DiffOk(Layers({Value(0), Value(1)}), b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.notes, IsEmpty());
}

TEST(JobDiff, AnErrorOfAnEarlierStageComesFirst) {
  // Rank 1 (stage 1) counts its own time: its calls have smaller numbers than rank 0's last one.
  FakeRun a(1), b(2);
  PassBuilder whole = a.Pass(0, 0);
  for (const char* name : {"layers.0", "layers.1", "layers.2", "layers.3"})
    whole.Module(name, kInput, kInput);
  b.Place(0, "pp=0");
  b.Place(1, "pp=1");
  PassBuilder first = b.Pass(0, 0), second = b.Pass(1, 0);
  first.Module("layers.0", kInput, kInput).Module("layers.1", kInput, Value(5));
  second.Module("layers.2", kInput, Value(6)).Module("layers.3", kInput, kInput);
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.counts.failing, 2u);
  EXPECT_EQ(report.origin->name, "layers.1");
  EXPECT_EQ(report.origin->rank, 0);
}

TEST(JobDiff, ADamagedShardIsDamage) {
  FakeRun b(2);
  b.Pass(0, 0).Module("fc", kInput, kLeft);
  PassBuilder pass = b.Pass(1, 0);
  pass.Module("fc", kInput, kRight);
  pass.Damage(pass.last()->id);
  const DiffReport report = DiffOk(OneRank(kWhole), b, WithDims("fc", "b h[tp]"));
  EXPECT_EQ(report.overall, Overall::kDamaged);
}

TEST(JobDiff, OneRankAgainstOneRankNeedsNoLayout) {
  const FakeRun a = OneRank(kLeft), b = Ranks({kLeft, kRight});
  const auto report = Diff(a.side(), b.side(0), {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->overall, Overall::kSame);
  EXPECT_FALSE(report->job);
}

TEST(JobDiff, AStepThatOneSideLacksIsListed) {
  FakeRun a(1), b(2);
  for (const uint64_t step : {0, 1}) a.Pass(0, step).Module("fc", kInput, kInput);
  for (const int32_t rank : {0, 1}) b.Pass(rank, 0).Module("fc", kInput, kInput);
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_THAT(Text(report), HasSubstr("only in A   all ranks, step 1: the whole step (2 records)"));
}

DiffOptions WithMap(const std::string& rules) {
  DiffOptions options;
  options.job = JobOptions{};
  auto map = NameMap::Parse("version: 1\n" + rules, "m.yaml");
  EXPECT_TRUE(map.ok()) << map.status().message();
  if (map.ok()) options.job->map = std::move(*map);
  return options;
}

// B keeps gate and up of a rank in one layer, one after the other.
TEST(JobDiff, AFusedLayerIsTakenApartOnEachRank) {
  FakeRun a(1), b(2);
  a.Pass(0, 0)
      .Module("gate", kInput, Matrix(2, 2, {1, 2, 3, 4}))
      .Module("up", kInput, Matrix(2, 2, {5, 6, 7, 8}));
  b.Pass(0, 0).Module("gate_up", kInput, Matrix(2, 2, {1, 5, 3, 7}));
  b.Pass(1, 0).Module("gate_up", kInput, Matrix(2, 2, {2, 6, 4, 8}));
  const std::string rule = "rules: [{name: gate_up, split: equal, to: [gate, up]}]";
  const DiffReport report = DiffOk(a, b, WithMap(rule));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 4u);
  EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u);
  // Either run may be A.
  EXPECT_EQ(DiffOk(b, a, WithMap(rule)).overall, Overall::kSame);

  FakeRun wrong(2);
  wrong.Pass(0, 0).Module("gate_up", kInput, Matrix(2, 2, {1, 5, 3, 7}));
  wrong.Pass(1, 0).Module("gate_up", kInput, Matrix(2, 2, {2, 6, 4, 80}));
  const DiffReport differs = DiffOk(a, wrong, WithMap(rule));
  ASSERT_TRUE(differs.origin);
  EXPECT_EQ(differs.origin->rank, 1);
  EXPECT_EQ(differs.origin->row->name_a, "up");
  EXPECT_EQ(differs.origin->row->name, "gate_up");
}

TEST(JobDiff, PaddingThatTheMapKnowsIsDroppedInAnyOrderOfDimensions) {
  // A: [b, v], v = 3; B: [v, b] over two ranks, padded to 4.
  FakeRun a(1), b(2);
  a.Pass(0, 0).Module("head", kInput, Matrix(2, 3, {1, 2, 3, 4, 5, 6}));
  b.Pass(0, 0).Module("out", kInput, Matrix(2, 2, {1, 4, 2, 5}));
  b.Pass(1, 0).Module("out", kInput, Matrix(2, 2, {3, 6, 99, 99}));
  const DiffOptions options = WithMap(
      "sides: {one: {looks_like: [head]}, two: {looks_like: [out]}}\n"
      "rules:\n"
      "  - {name: head, of: one, role: output, to: head, dims: 'b v'}\n"
      "  - {name: out, role: output, to: head, padded: true, dims: 'v[tp] b'}\n"
      "  - {name: out, to: head}\n");
  const DiffReport report = DiffOk(a, b, options);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("1 row of padding dropped"))));
}

TEST(JobDiff, AMapThatFitsNeitherSideIsAnError) {
  const FakeRun a = OneRank(kWhole);
  const auto report = Diff(a.side(), a.side(),
                           WithMap("sides: {one: {looks_like: [aaa]}, two: {looks_like: [bbb]}}\n"
                                   "rules: [{name: bbb, to: aaa}]"));
  EXPECT_FALSE(report.ok());
}

TEST(JobDiff, RunsOfOtherNamesAreNotComparableWhateverTheyWereGiven) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    const uint64_t root = pass.Begin(".", "", {{"ids", kInput}});
    pass.Module(run == &a ? "mine" : "yours", kInput, kWhole);
    pass.End(root, ".", "", {});
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_EQ(report.why_not, "1 of 3 paired: A has names like mine, B like yours");
}

}  // namespace
}  // namespace tdump::compare
