// Whole diffs of runs made by hand whose ranks are put together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;

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
  EXPECT_THAT(Text(report, 1, 2), HasSubstr("ranks 0-1 of 2"));
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

// Of what was inferred the report says whether the data bear it out.
TEST(JobDiff, WhatWasInferredSaysWhatItStandsOn) {
  const auto how = [](const FakeRun& ranks) {
    const DiffReport report = DiffOk(OneRank(kWhole), ranks);
    return report.job ? report.job->how_b : std::map<std::string, uint64_t>();
  };
  EXPECT_THAT(how(Ranks({kLeft, kRight})), Contains(Key("concatenated on rank (inferred)")));
  EXPECT_THAT(how(Ranks({Matrix(2, 2, {-9, 4, 0, 7}), Matrix(2, 2, {8, -3, -5, 2})})),
              Contains(Key("concatenated on rank (inferred, the data disagree)")));
  FakeRun unread(2);
  for (const int32_t rank : {0, 1}) {
    PassBuilder pass = unread.Pass(rank, 0);
    pass.Module("fc", kInput, rank == 0 ? kLeft : kRight);
    pass.last()->payload.reset();
  }
  EXPECT_THAT(how(unread), Contains(Key("concatenated on rank (inferred from shapes)")));
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

// Four ranks each, as captures say: all of tp in A, two of tp and two of dp in B.
TEST(JobDiff, AsManyRanksThatLieOtherwiseArePutTogether) {
  const auto run = [](bool is_a, bool with_weights, const std::string& axis = "dp") {
    FakeRun made(4);
    for (const int32_t rank : {0, 1, 2, 3}) {
      const auto column = static_cast<float>(rank + 1);
      const Tensor shard = is_a            ? Matrix(2, 1, {column, column + 4})
                           : rank % 2 == 0 ? kLeft
                                           : kRight;
      made.Place(rank, is_a ? "tp=" + std::to_string(rank)
                            : "tp=" + std::to_string(rank % 2) + " " + axis + "=" +
                                  std::to_string(rank / 2));
      PassBuilder pass = made.Pass(rank, 0);
      if (with_weights) {
        pass.Param("fc", "weight", shard);
        pass.last()->payload = shard.record.payload;
      }
      pass.Module("fc", kInput, shard);
    }
    return made;
  };
  for (const bool with_weights : {false, true}) {
    const DiffReport report = DiffOk(run(true, with_weights), run(false, with_weights));
    EXPECT_EQ(report.overall, Overall::kSame) << report.why_not;
    EXPECT_EQ(report.counts.paired, with_weights ? 3u : 2u);
    EXPECT_THAT(report.notes, Contains("ranks lie otherwise, A tp=4 and B dp=2 tp=2: those of each "
                                       "side are put together"));
  }
}

TEST(JobDiff, RanksThatLieAlikeAreComparedOneByOne) {
  const auto run = [](const std::vector<std::string>& places) {
    FakeRun made(2);
    for (const int32_t rank : {0, 1}) {
      made.Place(rank, places[static_cast<size_t>(rank)]);
      made.Pass(rank, 0).Module("fc", kInput, rank == 0 ? kLeft : kRight);
    }
    return made;
  };
  const FakeRun plain = run({"dp=0", "dp=1"});
  // An axis of one place, another name of the only data parallel axis, places that nobody knows.
  for (const auto& places :
       {std::vector<std::string>{"dp=0 tp=0", "dp=1 tp=0"}, {"fsdp=0", "fsdp=1"}, {"", ""}}) {
    const DiffReport report = DiffOk(plain, run(places));
    EXPECT_FALSE(report.job) << places[1];
    EXPECT_EQ(report.overall, Overall::kSame);
  }
  EXPECT_TRUE(DiffOk(plain, run({"dp=1", "dp=0"})).job);
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

// Without a rank that was killed its part of the batch is missing: nobody was given other data.
TEST(JobDiff, AStepThatOneRankLacksIsNotJudgedByInputs) {
  const auto check = [](const auto& ids, std::string_view dtype) {
    using T = std::remove_cvref_t<decltype(ids.front())>;
    const auto rows = [&](size_t from, size_t count) {
      const std::vector<T> values(ids.begin() + from, ids.begin() + from + count);
      return MakeTensor<T>(std::string(dtype), {static_cast<int64_t>(count)}, values);
    };
    FakeRun a(1), b(2);
    const auto fill = [&](PassBuilder pass, const Tensor& input, const Tensor& out) {
      const uint64_t root = pass.Begin(".", "", {{"0", input}});
      pass.Module("fc", input, out);
      pass.End(root, ".", "", {{"", out}});
    };
    for (const uint64_t step : {0, 1}) {
      fill(a.Pass(0, step), rows(0, 4), Matrix(4, 1, {1, 2, 3, 4}));
      fill(b.Pass(0, step), rows(0, 2), Matrix(2, 1, {1, 2}));
    }
    fill(b.Pass(1, 0), rows(2, 2), Matrix(2, 1, {3, 4}));
    const DiffReport report = DiffOk(a, b);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_FALSE(report.inputs.judging_stopped);
    EXPECT_FALSE(report.inputs.first_differing_step);
    EXPECT_EQ(report.counts.failing, 0u);
    EXPECT_THAT(Joined(Text(report)), HasSubstr("only in A all ranks, step 1: the whole step (4 "
                                                "records); rank 1 of B has no step 1"));
    EXPECT_THAT(Joined(Text(DiffOk(b, a))),
                HasSubstr("only in B all ranks, step 1: the whole step (4 records); rank 1 of A"));
  };
  check(std::vector<int64_t>{5, 6, 7, 8}, "int64");
  check(std::vector<float>{5, 6, 7, 8}, "float32");
}

// Of step 1 of two ranks: one that was killed wrote nothing of it, or lacks it. Its weights are as
// step 0 left them. `factor`: of the weight in B at step 1.
struct Killed {
  bool has_empty_pass = false, is_damaged = false;
  float factor = 1, input_factor = 1;
  bool has_all_inputs = false;  // each rank, as ranks of tensor parallelism

  DiffReport Diff() const {
    FakeRun a(1), b(2);
    const auto fill = [&](PassBuilder pass, const Tensor& input, float scale) {
      const Tensor weight = Vector<float>("float32", {scale, 2 * scale});
      pass.Param("fc", "weight", weight);
      pass.last()->payload = weight.record.payload;
      const uint64_t root = pass.Begin(".", "", {{"0", input}});
      const bool damaged = is_damaged && scale != 1;  // its output
      pass.Module("fc", input, Vector<float>("float32", {1, damaged ? 3.0f : 2.0f}));
      if (damaged) pass.Damage(pass.last()->id);
      pass.End(root, ".", "", {});
    };
    const auto ids = [](std::vector<float> values) { return Vector<float>("float32", values); };
    for (const uint64_t step : {0, 1}) {
      const bool later = step == 1;
      fill(a.Pass(0, step), ids({5, 6, 7, 8}), 1);
      const float first = later ? 5 * input_factor : 5;
      const Tensor all = ids({first, 6, 7, 8});
      fill(b.Pass(0, step), has_all_inputs ? all : ids({first, 6}), later ? factor : 1);
      if (!later) fill(b.Pass(1, step), has_all_inputs ? all : ids({7, 8}), 1);
    }
    if (has_empty_pass) {
      b.Pass(1, 1);
      b.entry(1)->part = true;
    }
    return DiffOk(a, b);
  }
};

TEST(JobDiff, AnUnfinishedPassWithoutRecordsIsNoStep) {
  for (const bool has_empty_pass : {false, true}) {
    const DiffReport report = Killed{.has_empty_pass = has_empty_pass}.Diff();
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_FALSE(report.inputs.first_differing_step);
    EXPECT_THAT(Joined(Text(report)), HasSubstr("rank 1 of B has no step 1"));
  }
}

TEST(JobDiff, OfAStepThatOneRankLacksWeightsAreCompared) {
  const DiffReport same = Killed{}.Diff();
  EXPECT_EQ(same.counts.failing, 0u);
  EXPECT_EQ(same.counts.unpaired_a, 3u);
  const DiffReport differs = Killed{.factor = 2}.Diff();
  EXPECT_EQ(differs.parameters.differing_names, 1u);
  EXPECT_EQ(differs.counts.failing, 1u);
}

TEST(JobDiff, DamageOfAStepThatOneRankLacksIsTold) {
  EXPECT_EQ((Killed{.is_damaged = true, .factor = 1 + 0x1p-20f}.Diff().overall), Overall::kDamaged);
}

TEST(JobDiff, AnInputWithinItsBoundDoesNotDiscardTheStep) {
  const DiffReport report = Killed{.input_factor = 1 + 0x1p-22f, .has_all_inputs = true}.Diff();
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.unpaired_a, 1u);  // the weight of rank 1, not the step
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
