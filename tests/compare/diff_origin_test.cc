// Which operator, parameter or input whole diffs of runs made by hand say it began with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "tests/compare/diff_chain.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DiffOrigin, TheOriginIsTheCallWhoseInputsAgree) {
  FakeRun a(2), b(2);
  Chain(&a, 0, 0, {kGood, kGood, kGood});
  Chain(&a, 1, 0, {kGood, kGood, kGood});
  Chain(&b, 0, 0, {kGood, kGood, kGood});
  Chain(&b, 1, 0, {kGood, kBad, kBad});
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 3u);  // second's output, third's input and output
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->rank, 1);
  EXPECT_EQ(report.origin->name, "second");
  EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
  EXPECT_TRUE(report.origin->certain);
  EXPECT_THAT(report.origin->ranks_agreeing, ElementsAre(0));
  EXPECT_THAT(report.origin->ranks_alike, IsEmpty());
  const std::string text = Text(report);
  EXPECT_THAT(text, HasSubstr("ORIGIN    rank 1, step 0, second, output\n"));
  EXPECT_THAT(text, HasSubstr("inputs agree: 1 of 1, bit for bit\n"));
  EXPECT_THAT(text, HasSubstr("1 of 2 elements outside, max abs 1, max rel 0.2"));
  EXPECT_THAT(text, HasSubstr("worst element [1]   A 4   B 5\n"));
  EXPECT_THAT(text, HasSubstr("only rank 1: rank 0 agrees here\n"));
}

// Outputs alone, as a capture without rules keeps them.
TEST(DiffOrigin, WithoutInputsTheIntervalInWhichItBeganIsGiven) {
  const auto run = [](const std::vector<std::pair<const char*, Tensor>>& outputs) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    for (const auto& [name, out] : outputs)
      pass.End(pass.Begin(name, "", {}), name, "", {{"", out}});
    return run;
  };
  const FakeRun good = run({{"first", kGood}, {"third", kGood}});
  const DiffReport later = DiffOk(good, run({{"first", kGood}, {"third", kBad}}));
  ASSERT_TRUE(later.origin);
  EXPECT_EQ(later.origin->name, "third");
  EXPECT_FALSE(later.origin->certain);
  EXPECT_EQ(later.origin->last_agreeing->name, "first");
  EXPECT_THAT(Joined(Text(later)),
              HasSubstr("its inputs were not recorded: it began between first (agrees) and third "
                        "(differs); capture role input to be sure"));
  EXPECT_THAT(Joined(Text(DiffOk(good, run({{"first", kBad}, {"third", kBad}})))),
              HasSubstr("it began before or in first, the first record that can tell; capture"));
}

TEST(DiffOrigin, AnEnclosingModuleOnlyContainsTheOrigin) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    const Tensor out = run == &a ? kGood : kBad;
    PassBuilder pass = run->Pass(0, 0);
    const uint64_t outer = pass.Begin("block", "", {{"0", kInput}});
    pass.Module("block.inner", kInput, out);
    pass.End(outer, "block", "", {{"", out}});
  }
  EXPECT_EQ(DiffOk(a, b).origin->name, "block.inner");
}

TEST(DiffOrigin, WithoutTheInnerCallTheOuterIsNamed) {
  FakeRun a(1), b(1);
  a.Pass(0, 0).Module("block", kInput, kGood);
  b.Pass(0, 0).Module("block", kInput, kBad);
  EXPECT_EQ(DiffOk(a, b).origin->name, "block");
}

TEST(DiffOrigin, ADifferingInputOfTheModelIsSaidFirst) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 3);
    const Tensor in = run == &a ? kInput : kBad;
    const uint64_t root = pass.Begin(".", "", {{"kwargs.tokens", in}});
    pass.Module("first", in, in);
    pass.End(root, ".", "", {{"", in}});
  }
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kInputs);
  EXPECT_EQ(report.inputs.first_differing_step, 3u);
  EXPECT_THAT(report.inputs.differing, ElementsAre("kwargs.tokens"));
  EXPECT_THAT(Text(report), HasSubstr("inputs    differ from step 3 on: input kwargs.tokens\n"));
  EXPECT_THAT(Text(report),
              HasSubstr("\nINPUTS DIFFER  kwargs.tokens from step 3 on (SQNR -4.1 dB, max abs 3); "
                        "no step before it was\n         compared\n"));
  EXPECT_THAT(Text(report),
              HasSubstr("ORIGIN    rank 0, step 3, the whole model, input kwargs.tokens\n"));
}

// A model that was given `first` and `mask`.
FakeRun Given(const Tensor& first, const Tensor& mask) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  const uint64_t root = pass.Begin(".", "", {{"0", first}, {"kwargs.mask", mask}});
  pass.Module("first", first, kGood);
  pass.End(root, ".", "", {{"", kGood}});
  return run;
}

TEST(DiffOrigin, OfInputsThatDifferByLittleHowToGoOnIsSaid) {
  const Tensor near = Vector<float>("float32", {1, 2.001f}), far = Vector<float>("float32", {1, 9});
  const auto text_of = [&](const Tensor& first, const Tensor& mask) {
    return Joined(Text(DiffOk(Given(kInput, kInput), Given(first, mask))));
  };
  EXPECT_THAT(text_of(near, kInput),
              HasSubstr("INPUTS DIFFER input 0 from step 0 on by little (SQNR 67.0 dB, max abs "
                        "0.0009999); no step before it was compared; to judge what follows by what "
                        "that explains: --allow-failed '^\\.@input#0'"));
  EXPECT_THAT(text_of(near, near), HasSubstr("--allow-failed '^\\.@input#(0|kwargs.mask)'"));
  // Other data, and what was not read: nothing to go on with.
  for (const auto& [first, mask] : {std::pair(far, kInput), {near, far}})
    EXPECT_THAT(text_of(first, mask), Not(HasSubstr("--allow-failed")));
  EXPECT_THAT(text_of(far, kInput), HasSubstr("from step 0 on (SQNR -9.9 dB, max abs 7);"));
  EXPECT_THAT(
      text_of(Vector<double>("float64", {1, 2.001}), kInput),
      AllOf(HasSubstr("input 0 from step 0 on; no step"), Not(HasSubstr("--allow-failed"))));
  EXPECT_THAT(text_of(Vector<int64_t>("int64", {1, 2}), kInput), Not(HasSubstr("--allow-failed")));
}

TEST(DiffOrigin, WhatIsSaidOfInputsThatDifferByLittleIsTaken) {
  const Tensor near = Vector<float>("float32", {1, 2.001f});
  DiffOptions options;
  options.pass.allow_failed = {NameFilter(), Named(".@input#0")};
  const DiffReport report = DiffOk(Given(kInput, kInput), Given(near, kInput), options);
  EXPECT_NE(report.origin ? report.origin->kind : OriginKind::kOperator, OriginKind::kInputs);
  EXPECT_EQ(report.overall, Overall::kSame);
}

TEST(DiffOrigin, AnAllowedInputThatIsFarOffExplainsNothing) {
  const Tensor far = Vector<float>("float32", {1, 9});
  DiffOptions options;
  options.pass.allow_failed = {NameFilter(), Named(".@input#0")};
  const auto given = [](const Tensor& input, const Tensor& out) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const uint64_t root = pass.Begin(".", "", {{"0", input}});
    pass.Module("first", input, out);
    pass.End(root, ".", "", {{"", out}});
    return run;
  };
  const DiffReport report = DiffOk(given(kInput, kGood), given(far, kBad), options);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "first");
  EXPECT_THAT(Joined(Text(report)),
              HasSubstr("inputs 0 of 1 equal, the rest within bounds, or allowed"));
  EXPECT_THAT(
      Joined(Text(report)),
      HasSubstr("an allowed input is too far off (SQNR below 20 dB) to explain what follows"));
}

// A model that returns `logits`, of which one layer is recorded, and a loss beside it.
FakeRun ModelAndLoss(const Tensor& layer, const Tensor& logits, const Tensor& labels) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 3);
  const uint64_t model = pass.Begin(".", "", {{"0", kInput}});
  pass.Module("first", kInput, layer);
  pass.End(model, ".", "", {});
  const uint64_t loss = pass.Begin(".", "", {{"0", logits}, {"1", labels}});
  for (io::Record& record : *pass.records()) {
    if (record.call_begin != loss) continue;
    record.key.root = "CrossEntropyLoss";
    record.key.call = 0;
  }
  pass.End(loss, ".", "", {});
  pass.last_call()->root = "CrossEntropyLoss";
  return run;
}

TEST(DiffOrigin, WhatALossIsGivenOfTheModelIsNoData) {
  const Tensor labels = Vector<int64_t>("int64", {1, 2}), others = Vector<int64_t>("int64", {1, 3});
  const FakeRun good = ModelAndLoss(kGood, kGood, labels);
  const DiffReport unseen = DiffOk(good, ModelAndLoss(kGood, kBad, labels));
  ASSERT_TRUE(unseen.origin);
  EXPECT_EQ(unseen.origin->kind, OriginKind::kInterval);
  EXPECT_FALSE(unseen.origin->certain);
  EXPECT_EQ(unseen.inputs.compared, 2u);  // the model's, and the labels
  const std::string text = Joined(Text(unseen));
  EXPECT_THAT(text, HasSubstr("inputs 2 of 2 equal"));
  EXPECT_THAT(text, HasSubstr("DIFFERS 1 of 5 outside their bound"));
  EXPECT_THAT(text, HasSubstr("between first (agrees) and CrossEntropyLoss input 0 (differs); what "
                              "runs between was not recorded"));

  Tensor one = kGood, other = kBad;  // known by hash
  one.record.payload = other.record.payload = std::nullopt;
  one.record.parts_kept = other.record.parts_kept = static_cast<Parts>(kPartMeta | kPartHash);
  const DiffReport unread =
      DiffOk(ModelAndLoss(kGood, one, labels), ModelAndLoss(kGood, other, labels));
  EXPECT_THAT(Joined(Text(unread)),
              HasSubstr("look closer: what runs before it was not recorded; capture both with a "
                        "rule {role: [input, output], level: hash}"));

  const DiffReport seen = DiffOk(good, ModelAndLoss(kBad, kBad, labels));
  EXPECT_EQ(seen.origin->name, "first");
  EXPECT_THAT(Joined(Text(seen)), HasSubstr("inputs 2 of 2 equal"));

  const DiffReport data = DiffOk(good, ModelAndLoss(kGood, kGood, others));
  EXPECT_THAT(data.inputs.differing, ElementsAre("1 of CrossEntropyLoss"));
}

TEST(DiffOrigin, BetweenTwoRecordsAParameterThatDiffersIsBlamed) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    pass.Param("second", "weight", run == &a ? kGood : kBad);
    pass.Module("first", kInput, kGood);
    pass.End(pass.Begin("second", "", {}), "second", "", {});  // called, nothing kept
    const Tensor later = run == &a ? kGood : kBad;
    pass.Module("third", later, later);
  }
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kParameter);
  EXPECT_EQ(report.origin->name, "second");
  EXPECT_EQ(report.origin->parameter, "second.weight");
  EXPECT_EQ(report.parameters.compared, 1u);
  EXPECT_THAT(Text(report), HasSubstr("weights   0 of 1 parameters equal on every rank\n"
                                      "          not on rank 0: second.weight\n"));
}

// A function without a module was given it, before the module's own record.
TEST(DiffOrigin, AParameterThatAnOperatorWasGivenIsBlamedItself) {
  for (const bool passed : {true, false}) {
    FakeRun a(1), b(1);
    for (FakeRun* run : {&a, &b}) {
      const Tensor weight = run == &a ? kGood : kBad;
      const Tensor given = run == &a || passed ? weight : Vector<float>("float32", {4, 4});
      PassBuilder pass = run->Pass(0, 0);
      pass.Module("first", kInput, kGood);
      const uint64_t call = pass.Begin("linear", "", {{"0", kGood}, {"1", given}});
      pass.End(call, "linear", "", {{"", given}});
      pass.Param("second", "weight", weight);
      pass.Module("second", kGood, given);
    }
    const DiffReport report = DiffOk(a, b);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->kind, passed ? OriginKind::kParameter : OriginKind::kInterval);
    EXPECT_EQ(report.origin->name, passed ? "second" : "linear");
    EXPECT_EQ(report.origin->parameter, passed ? "second.weight" : "");
  }
}

TEST(DiffOrigin, NoOperatorsOwnParameterIsBlamedForWhatGoesIn) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    const Tensor& in = run == &a ? kGood : kBad;
    PassBuilder pass = run->Pass(0, 0);
    pass.Param("second", "weight", run == &a ? kInput : kNear);
    pass.Module("first", kInput, kGood);
    pass.Module("second", in, in);
  }
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kInterval);
  EXPECT_EQ(report.origin->name, "second");
  EXPECT_EQ(report.origin->parameter, "");
}

// Row-parallel linear layer: after the sum over the ranks, both ranks hold the same wrong output.
FakeRun RowParallel(int32_t wrong, bool with_partials) {
  FakeRun run(2);
  for (int32_t rank : {0, 1}) {
    PassBuilder pass = run.Pass(rank, 0);
    pass.Param("layers.1.down", "weight", rank == wrong ? kBad : kGood);
    const uint64_t call = pass.Begin("layers.1.down", "", {{"0", kInput}});
    if (with_partials) pass.Tap("layers.1.down", "partial", rank == wrong ? kBad : kGood);
    pass.End(call, "layers.1.down", "", {{"", wrong >= 0 ? kBad : kGood}});
  }
  return run;
}

TEST(DiffOrigin, AfterAnAllReduceTheRankWhoseWeightDiffersIsNamed) {
  for (const bool with_partials : {false, true}) {
    const DiffReport report = DiffOk(RowParallel(-1, with_partials), RowParallel(1, with_partials));
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->rank, 1) << with_partials;
    EXPECT_EQ(report.origin->path, "layers.1.down");
    EXPECT_EQ(report.origin->parameter, "layers.1.down.weight");
    EXPECT_THAT(with_partials ? report.origin->ranks_agreeing : report.origin->ranks_alike,
                ElementsAre(0));
  }
}

TEST(DiffOrigin, PartialsAloneNameTheRank) {
  FakeRun good = RowParallel(-1, true), bad = RowParallel(1, true);
  DiffOptions options;
  options.pass.select = [](const std::string& name) { return name != "layers.1.down.weight"; };
  const DiffReport report = DiffOk(good, bad, options);
  EXPECT_EQ(report.parameters.pairs, 0u);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->rank, 1);
  EXPECT_EQ(report.origin->name, "layers.1.down");  // a tap computes nothing
  EXPECT_TRUE(report.origin->certain);
  EXPECT_THAT(Text(report), HasSubstr("ORIGIN    rank 1, step 0, layers.1.down, tap partial\n"
                                      "          inputs agree: 1 of 1, bit for bit\n"
                                      "          tap does not: 1 of 2 elements outside"));
}

// Hooks of two ranks run in another order: what counts more is no likelier origin.
TEST(DiffOrigin, RanksOnWhichTheSameBeginsAreNamedTogether) {
  const auto run = [](const std::vector<Tensor>& faulty) {
    FakeRun run(3);
    for (int32_t rank = 0; rank < 3; ++rank) {
      PassBuilder pass = run.Pass(rank, 0);
      const bool early = rank == 1;
      if (!early) pass.Module("other", kInput, kGood);
      pass.Module("norm", kInput, faulty[static_cast<size_t>(rank)]);
      if (early) pass.Module("other", kInput, kGood);
    }
    return run;
  };
  const FakeRun good = run({kGood, kGood, kGood});
  const DiffReport two = DiffOk(good, run({kBad, kBad, kGood}));
  ASSERT_TRUE(two.origin);
  EXPECT_EQ(two.origin->rank, 0);
  EXPECT_THAT(two.origin->ranks, ElementsAre(0, 1));
  EXPECT_THAT(two.origin->ranks_alike, ElementsAre(1));
  EXPECT_EQ(two.origin->row->rank_b, 0);
  EXPECT_EQ(two.growth.rank, 0);
  EXPECT_THAT(Text(two, 3, 3), HasSubstr("ORIGIN    ranks 0-1, step 0, norm, output\n"));
  EXPECT_THAT(Text(two, 3, 3), HasSubstr("only ranks 0-1: rank 2 agrees here\n"));
  const DiffReport all = DiffOk(good, run({kBad, kBad, kBad}));
  EXPECT_THAT(all.origin->ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(Text(all, 3, 3), testing::Not(HasSubstr("only rank")));
  const DiffReport one = DiffOk(good, run({kGood, kGood, kBad}));
  EXPECT_THAT(one.origin->ranks, ElementsAre(2));
  EXPECT_THAT(Text(one, 3, 3), HasSubstr("only rank 2: ranks 0-1 agree here\n"));
}

TEST(DiffOrigin, TheErrorGrowthIsThatOfTheRankOfTheOrigin) {
  const DiffReport report = DiffOk(RowParallel(-1, false), RowParallel(1, false));
  EXPECT_EQ(report.origin->rank, 1);  // by its weight; both hold the wrong sum
  EXPECT_THAT(report.origin->ranks, ElementsAre(1));
  EXPECT_EQ(report.growth.rank, 1);
  EXPECT_EQ(report.growth.points.size(), 1u);
}

TEST(DiffOrigin, TheEarliestStepDecides) {
  FakeRun a(2), b(2);
  for (uint64_t step : {0, 1, 2}) {
    for (int32_t rank : {0, 1}) {
      Chain(&a, rank, step, {kGood, kGood, kGood});
      const bool wrong = (step == 1 && rank == 1) || step == 2;
      Chain(&b, rank, step, {kGood, kGood, wrong ? kBad : kGood});
    }
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.origin->step, 1u);
  EXPECT_EQ(report.origin->rank, 1);
}

TEST(DiffOrigin, ASmallFirstDifferenceIsTheOriginWhereBitsAreReproducible) {
  FakeRun a(2), b(2);
  Chain(&a, 0, 0, {kGood, kGood, kGood});
  Chain(&b, 0, 0, {kGood, kGood, kGood});  // another rank is equal bit by bit
  Chain(&a, 1, 0, {kGood, kGood, kGood});
  Chain(&b, 1, 0, {kNear, kGood, kBad});
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "first");
  EXPECT_TRUE(report.origin->by_bits);
  // Where nothing is known to repeat, noise comes first and the bound decides.
  DiffOptions options;
  options.pairing.ranks = *Spec::Parse("1");
  const DiffReport alone = DiffOk(a, b, options);
  EXPECT_EQ(alone.origin->name, "third");
  ASSERT_TRUE(alone.first_bits);
  EXPECT_EQ(alone.first_bits->name, "first");
}

// Every weight belongs to the whole model, but none is what that was given.
TEST(DiffOrigin, AnInputWithinItsBoundIsNoOriginForAWeightBehindIt) {
  const Tensor wrong = Vector<float>("float32", {2, 2});
  const auto run = [&](const Tensor& input, bool is_wrong) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    pass.Param("norm", "weight", is_wrong ? wrong : Vector<float>("float32", {1, 1}));
    const uint64_t root = pass.Begin(".", "", {{"0", input}});
    pass.Module("norm", input, is_wrong ? kBad : kGood);
    pass.End(root, ".", "", {{"", is_wrong ? kBad : kGood}});
    return run;
  };
  const FakeRun a = run(kGood, false);
  EXPECT_EQ(DiffOk(a, run(kNear, false)).overall, Overall::kSame);
  const DiffReport report = DiffOk(a, run(kNear, true));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "norm");
  EXPECT_THAT(report.origin->parameter, HasSubstr("norm.weight"));
}

}  // namespace
}  // namespace tdump::compare
