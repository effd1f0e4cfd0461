#include "compare/report_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "compare/report.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

const Tensor kValue = Vector<float>("float32", {1, 2});
const Tensor kOther = Vector<float>("float32", {3, 4});

std::string FactOf(const DiffReport& report, const std::string& name) {
  for (const Fact& fact : Facts(report)) {
    if (fact.name == name) return fact.text;
  }
  return "";
}

DiffReport ReportOf(const InputReport& inputs) {
  DiffReport report;
  report.counts.paired = 1;
  report.inputs = inputs;
  return report;
}

TEST(ReportLines, InputsThatAreNotJudgedAreNotWithinBounds) {
  const auto text = [](const InputReport& inputs) { return FactOf(ReportOf(inputs), "inputs"); };
  EXPECT_EQ(text({.compared = 4, .equal = 4}), "4 of 4 equal");
  EXPECT_EQ(text({.compared = 4, .equal = 1}), "1 of 4 equal, the rest within bounds");
  EXPECT_EQ(text({.compared = 4, .not_judged = 4}),
            "0 of 4 equal, 4 not judged (values were not kept)");
  EXPECT_EQ(text({.compared = 4, .equal = 1, .not_judged = 2}),
            "1 of 4 equal, 2 not judged (values were not kept), the rest within bounds");
  InputReport hashed = {.compared = 2, .differing_pairs = 2, .differing_by_hash = 2};
  hashed.first_differing_step = 3;
  hashed.differing = {"mask"};
  EXPECT_EQ(text(hashed), "differ by hash from step 3 on: input mask");
  hashed.differing_by_hash = 1;
  EXPECT_EQ(text(hashed), "differ from step 3 on: input mask");
}

// One rank against two of which each has half of the batch, by hash: no hash of the whole is known.
TEST(ReportLines, HashesOfShardsJudgeNothing) {
  const Tensor whole = MakeTensor<float>("float32", {2, 2}, {1, 2, 3, 4});
  const std::vector<Tensor> parts = {MakeTensor<float>("float32", {1, 2}, {1, 2}),
                                     MakeTensor<float>("float32", {1, 2}, {3, 4})};
  const auto run_of = [](const std::vector<Tensor>& inputs) {
    FakeRun run(static_cast<int32_t>(inputs.size()));
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      PassBuilder pass = run.Pass(static_cast<int32_t>(rank), 0);
      const uint64_t model = pass.Begin(".", "", {{"x", inputs[rank]}});
      pass.last()->payload.reset();
      pass.End(model, ".", "", {{"", kValue}});
    }
    return run;
  };
  const DiffReport report = DiffOk(run_of({whole}), run_of(parts));
  EXPECT_EQ(FactOf(report, "inputs"), "0 of 1 equal, 1 not judged (values were not kept)");
}

// One pair of each way to know of it.
TEST(ReportLines, WhatIsSaidOfThePairsAddsUp) {
  const auto run_of = [](bool is_b) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const auto add = [&](const char* name, const Tensor& tensor, Parts kept) {
      pass.Tap(name, "tap", tensor);
      io::Record* record = pass.last();
      record->parts_kept = kPartMeta | kept;
      if ((kept & kPartPayload) == 0) record->payload.reset();
      if ((kept & kPartHash) == 0) record->hash.reset();
      const double mean = is_b && std::string_view(name) == "other statistics" ? 5 : 1.5;
      if ((kept & kPartStats) != 0)
        record->statistics =
            Statistics{.count = 2, .finite = 2, .min = mean, .max = mean, .mean = mean};
    };
    const Tensor& value = is_b ? kOther : kValue;
    const Tensor wide = Vector<double>("float64", {1, 2});
    add("equal", kValue, kPartHash);
    add("read", value, kPartHash | kPartPayload);
    // No other record holds these bytes.
    add("by hash", Vector<float>("float32", {is_b ? 7.0f : 8.0f, 2}), kPartHash);
    add("by hash too", Vector<float>("float32", {is_b ? 9.0f : 10.0f, 2}), kPartHash);
    add("statistics", kValue, kPartStats);
    add("other statistics", value, kPartStats);
    add("other dtype", is_b ? wide : kValue, kPartHash);
    add("other shape", is_b ? Vector<float>("float32", {1, 2, 3}) : kValue, kPartPayload);
    add("nothing", kValue, 0);
    return run;
  };
  const DiffReport report = DiffOk(run_of(false), run_of(true));
  EXPECT_EQ(
      FactOf(report, "paired"),
      "9 records in 1 pass; none without a partner; 1 equal by hash, 1 read; 2 known by hash "
      "alone to differ; 1 agree as far as statistics tell; 1 differ by statistics; 2 of other "
      "shape or dtype, not read; 1 not judged (shape and dtype only)");
}

// A step in which no more than shape and dtype was kept, and one without what is compared.
TEST(ReportLines, StepsInWhichNothingWasJudgedAreNamed) {
  FakeRun run(1);
  for (uint64_t step = 0; step < 5; ++step) {
    PassBuilder pass = run.Pass(0, step);
    if (step == 0) pass.Param("fc", "weight", kValue);
    pass.Module("norm", kValue, kValue);
    if (step != 3) continue;
    for (const uint64_t back : {0, 1}) {
      (pass.last() - back)->hash.reset();
      (pass.last() - back)->payload.reset();
    }
  }
  const DiffReport report = DiffOk(run, run);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(FactOf(report, "judged"),
            "steps 0-2,4 alone\nstep 3: nothing judged: too little was kept on both sides; capture "
            "with level hash or full");
  EXPECT_EQ(RenderVerdict(report, false),
            "SAME  9 of 9 bit for bit; 2 not judged; nothing judged in step 3");

  DiffOptions options;
  options.pass.select = Named("fc");
  EXPECT_EQ(FactOf(DiffOk(run, run, options), "judged"),
            "step 0 alone\nsteps 1-4: nothing judged: only step 0 has records in --select; to see "
            "drift capture weights at every step: {role: [param], level: hash}");
}

TEST(ReportLines, WeightsAreOfTheFirstStepThatHasThem) {
  DiffReport report = ReportOf({});
  report.parameters = {.compared = 3, .pairs = 3, .first_steps = {2}};
  report.steps = {{2, 2}};
  EXPECT_EQ(FactOf(report, "weights"), "3 of 3 parameters equal on every rank");
  report.steps = {{2, 2}, {3, 3}};
  EXPECT_EQ(FactOf(report, "weights"), "3 of 3 parameters equal on every rank at step 2");
  report.parameters.first_steps = {2, 3};
  EXPECT_EQ(FactOf(report, "weights"), "3 of 3 parameters equal on every rank at steps 2-3");
}

TEST(ReportLines, ACommandIsSuggestedOnlyWhereItHasValuesToShow) {
  const SideInfo side = {.label = "b@0", .run = "b"};
  Row row;
  row.key = {.path = "fc"};
  for (const char* kept : {"meta+hash+payload", "meta+slice", "meta+stats+sample"}) {
    row.kept_b = kept;
    EXPECT_EQ(ViewCommand(side, row), "tdump-view 'b@0:0/0/fc@output#' --values 8") << kept;
  }
  for (const char* kept : {"meta+hash", "meta+stats", "meta+hash (payload)"}) {
    row.kept_b = kept;
    EXPECT_EQ(ViewCommand(side, row), "") << kept;
  }
}

TEST(ReportLines, TheCommandShowsTheWorstElement) {
  const auto run_of = [](float last) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    pass.Module("fc", kValue, MakeTensor<float>("float32", {2, 2}, {1, 2, 3, last}));
    return run;
  };
  const DiffReport report = DiffOk(run_of(4), run_of(9));
  ASSERT_TRUE(report.origin && report.origin->row);
  Row row = *report.origin->row;
  const SideInfo side = {.label = "b@0", .run = "b"};
  EXPECT_EQ(ViewCommand(side, row), "tdump-view 'b@0:0/0/fc@output#' --values 8 --at 1,1");
  row.put_together = true;  // a place in the whole tensor is none in a rank's part
  EXPECT_EQ(ViewCommand(side, row), "tdump-view 'b@0:0/0/fc@output#' --values 8");
}

TEST(ReportLines, OfRunsThatWereGivenOtherDataNoGrowthIsShown) {
  const auto run_of = [](const Tensor& input) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const uint64_t model = pass.Begin(".", "", {{"x", input}});
    pass.Module("fc", input, input);
    pass.End(model, ".", "", {{"", input}});
    return run;
  };
  const DiffReport report = DiffOk(run_of(kValue), run_of(kOther));
  ASSERT_TRUE(report.origin);
  ASSERT_EQ(report.origin->kind, OriginKind::kInputs);
  EXPECT_THAT(RenderText(report, {.label = "a"}, {.label = "b"}, false, Style(false)),
              Not(HasSubstr("growth")));
}

// Of 100 elements none is outside.
TEST(ReportLines, ElementsThatAreWithinSayWhatIsNot) {
  Metrics metrics;
  metrics.elements = metrics.compared = 100;
  metrics.within = 100;
  metrics.bits_equal = 40;
  metrics.rms_a = metrics.rms_b = 1;
  metrics.rmse = metrics.max_abs = 0.01;  // 40 dB
  metrics.cosine = 1.001;                 // a gain of 0.001
  Row row;
  row.fails = true;
  row.comparison.evidence = Evidence::kPayload;
  row.comparison.verdict.bitwise = Answer::kDiffers;
  row.comparison.metrics = metrics;
  const auto text = [&](double power, double gain, bool within = false) {
    Explanation explanation;
    explanation.bound = {.power = power, .gain = gain};
    explanation.within = within;
    row.explanation = explanation;
    return ValuesText(row);
  };
  EXPECT_THAT(text(1e-5, 0.1), HasSubstr("60 of 100 elements differ, each within its bound; the "
                                         "error in dB is not, max abs"));
  EXPECT_THAT(text(1e-3, 1e-4), HasSubstr("each within its bound; the factor is not, max abs"));
  EXPECT_THAT(text(1e-5, 1e-4), HasSubstr("the error in dB and the factor are not, max abs"));
  EXPECT_THAT(text(1e-3, 0.1, true), HasSubstr("60 of 100 elements differ, within the bound, max"));
}

}  // namespace
}  // namespace tdump::compare
