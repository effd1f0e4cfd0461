// What the terminal says of whole diffs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "compare/report.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const Tensor kValue = Vector<float>("float32", {1, 2});
const Tensor kOther = Vector<float>("float32", {3, 4});
const Tensor kLabels = Vector<int64_t>("int64", {1, 2});
const Tensor kOtherLabels = Vector<int64_t>("int64", {1, 3});

std::string OneLine(const DiffReport& report) {
  return Joined(
      RenderText(report, {.label = "a"}, {.label = "b"}, /*required_bits=*/false, Style(false)));
}

// A model and a loss beside it, which is a second root.
FakeRun WithLoss(const Tensor& labels) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  pass.Begin(".", "", {{"0", kValue}});
  const uint64_t loss = pass.Begin(".", "", {{"1", labels}});
  pass.last()->key.root = "CrossEntropyLoss";
  pass.End(loss, ".", "", {{"", kValue}});
  pass.last()->key.root = "CrossEntropyLoss";
  return run;
}

TEST(ReportOfRoots, AnInputOfASecondRootIsNamedByIt) {
  const DiffReport tokens = DiffOk(WithLoss(kLabels), WithLoss(kOtherLabels));
  EXPECT_THAT(tokens.inputs.differing, ElementsAre("1 of CrossEntropyLoss"));
  EXPECT_THAT(OneLine(tokens),
              HasSubstr("inputs differ: input 1 of CrossEntropyLoss from step 0 on"));

  const DiffReport weights = DiffOk(WithLoss(kValue), WithLoss(kOther));
  EXPECT_THAT(OneLine(weights),
              AllOf(HasSubstr("INPUTS DIFFER input 1 of CrossEntropyLoss from"),
                    HasSubstr("differ from step 0 on: input 1 of CrossEntropyLoss")));
}

TEST(ReportOfRoots, ALossIsFoundAsItIsPrinted) {
  const FakeRun a = WithLoss(kValue), b = WithLoss(kOther);
  DiffOptions options;
  options.pass.allow_failed = {NameFilter(), Named("CrossEntropyLoss@input#1")};
  EXPECT_EQ(DiffOk(a, b, options).overall, Overall::kSame);
}

FakeRun Layers(size_t count, const Tensor& value, const Tensor& last) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  for (size_t i = 0; i < count; ++i)
    pass.Module("layer." + std::to_string(i), kValue, i + 1 == count ? last : value);
  return run;
}

TEST(ReportOfRows, WhatCountsComesBeforeWhatIsAllowed) {
  DiffOptions options;
  options.pass.allow_failed = [](const std::string& name) { return name != "layer.9"; };
  const FakeRun a = Layers(10, kValue, kValue), b = Layers(10, kOther, kOther);
  DiffReport report = DiffOk(a, b, options);
  ASSERT_EQ(report.failing.size(), 5u);
  EXPECT_EQ(report.failing[0].name, "layer.9");
  EXPECT_FALSE(report.failing[0].allowed);
  EXPECT_EQ(report.failing[1].name, "layer.0");
  EXPECT_THAT(OneLine(report), HasSubstr(" 5 that are allowed: --all"));
  EXPECT_THAT(OneLine(report), Not(HasSubstr("more like this")));
  options.top = 0;
  EXPECT_THAT(OneLine(DiffOk(a, b, options)), Not(HasSubstr("that are allowed")));  // no table
}

TEST(ReportOfRows, UnpairedRecordsThatCountComeFirst) {
  FakeRun a(1), b(1);
  PassBuilder of_a = a.Pass(0, 0), of_b = b.Pass(0, 0);
  of_a.Module("shared", kValue, kValue);
  for (int i = 0; i < 8; ++i) of_a.Tap("allowed", "tap" + std::to_string(i), kValue);
  of_a.Tap("lost", "tap", kValue);
  of_b.Module("shared", kValue, kValue);
  DiffOptions options;
  options.allow_unpaired = Named("allowed");
  options.top = 2;
  const DiffReport report = DiffOk(a, b, options);
  ASSERT_EQ(report.unpaired.size(), 2u);
  EXPECT_EQ(report.unpaired[0].name, "lost/tap");
  EXPECT_EQ(report.unpaired[1].name, "allowed/tap0");
  EXPECT_THAT(OneLine(report), HasSubstr(" 7 that are allowed: --all"));
}

TEST(ReportOfRows, NamesThatWouldBeCutAlikeStayApart) {
  const std::string head = "model.decoder.layers.",
                    tail = ".transformer_block.self_attention.query";
  FakeRun a(1), b(1);
  PassBuilder of_a = a.Pass(0, 0), of_b = b.Pass(0, 0);
  for (const char* layer : {"0", "1"}) {
    of_a.Module(head + layer + tail, kValue, kValue);
    of_b.Module(head + layer + tail, kValue, kOther);
  }
  const std::string text =
      RenderText(DiffOk(a, b), {.label = "a"}, {.label = "b"}, false, Style(false));
  EXPECT_THAT(text, AllOf(HasSubstr("mo…yers.0.tran…tion.query, output"),
                          HasSubstr("mo…yers.1.tran…tion.query, output")));
}

// The line of a table that begins like this.
std::string LineOf(const std::string& text, const std::string& begin) {
  const size_t at = text.find("\n" + begin);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

// In order of rank and time it is the eleventh.
TEST(ReportOfRows, TheOriginsRowComesFirst) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto run_of = [&](float first_of_1, const Tensor& later) {
    FakeRun run(2);
    for (int32_t rank : {0, 1}) {
      PassBuilder pass = run.Pass(rank, 0);
      const Tensor first = Vector<float>("float32", {rank == 1 ? first_of_1 : 1, 2});
      pass.Module("first", kValue, first);
      for (int i = 0; i < 10; ++i) pass.Module("later." + std::to_string(i), kValue, later);
    }
    return run;
  };
  const DiffReport report = DiffOk(run_of(1, kValue), run_of(kNan, kOther));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->rank, 1);
  EXPECT_EQ(report.failing.front().rank_b, 0);
  const std::string text = RenderText(report, {.label = "a"}, {.label = "b"}, false, Style(false));
  const std::string table = text.substr(text.find("\n  rank  step"));
  const std::string row = LineOf(table.substr(table.find('\n', 1)), "     1     0  first, output");
  EXPECT_EQ(table.find(row), table.find('\n', 1) + 1) << table;
  // A NaN on one side has no distance.
  EXPECT_THAT(row, testing::ContainsRegex("50\\.00 % +nan +[a-z-]+ +- "));
  EXPECT_THAT(table, HasSubstr("  16 more like this"));  // 21 fail, 5 are shown
  EXPECT_THAT(Joined(text),
              HasSubstr("1 of 2 elements outside; NaN on one side only 1, Inf 0 (NaN in A 0, in B "
                        "1); where both are finite max abs 0,"));
  EXPECT_THAT(Joined(text), HasSubstr("where both are finite: SQNR exact"));
}

TEST(ReportOfRows, WhereNothingIsFiniteThereAreNoDistances) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const FakeRun a = Layers(1, kValue, kValue),
                b = Layers(1, kValue, Vector<float>("float32", {kNan, kNan}));
  const std::string text = OneLine(DiffOk(a, b));
  EXPECT_THAT(text,
              HasSubstr("NaN on one side only 2, Inf 0 (NaN in A 0, in B 2); none is finite on "
                        "both sides"));
  EXPECT_THAT(text, Not(HasSubstr("SQNR")));
  EXPECT_THAT(text, Not(HasSubstr("max abs 0")));
}

// Outputs of which statistics were kept on one side and hashes on the other.
FakeRun Kept(Parts parts) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  for (const char* name : {"first", "second"}) {
    const uint64_t call = pass.Begin(name, "", {});
    pass.End(call, name, "", {{"", kValue}});
    io::Record* record = pass.last();
    record->parts_kept = kPartMeta | parts;
    record->payload.reset();
    if ((parts & kPartHash) == 0) record->hash.reset();
    if ((parts & kPartStats) != 0) record->statistics = Statistics{};
  }
  return run;
}

TEST(ReportOfKeep, RunsThatKeptOtherPartsAreToldWhichToAdd) {
  const DiffReport report = DiffOk(Kept(kPartStats), Kept(kPartHash));
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_THAT(report.why_not, HasSubstr("A kept stats and B hash: capture A again with level: "
                                        "[stats, hash], or B, or one of them with level full"));
  EXPECT_THAT(DiffOk(Kept(0), Kept(0)).why_not, HasSubstr("capture with level hash or full"));
}

// Statistics that cannot be of the same values: the row has no numbers, and what would give some is
// told.
TEST(ReportOfKeep, RowsWithoutNumbersSayWhatToCapture) {
  const auto run_of = [](double mean) {
    FakeRun run = Kept(kPartStats);
    PassBuilder pass = run.Pass(0, 1);
    const uint64_t call = pass.Begin("layers.0.up", "", {});
    pass.End(call, "layers.0.up", "", {{"", kValue}});
    io::Record* record = pass.last();
    record->parts_kept = kPartMeta | kPartStats;
    record->payload.reset();
    record->hash.reset();
    record->statistics =
        Statistics{.count = 2, .finite = 2, .min = mean, .max = mean, .mean = mean};
    return run;
  };
  const DiffReport report = DiffOk(run_of(1), run_of(2));
  ASSERT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(OneLine(report),
              AllOf(HasSubstr("\"-\": values of 1 row were not kept on both sides; to see elements "
                              "capture both with level: full"),
                    HasSubstr("look closer: its values were not kept on both sides; capture both "
                              "with a rule {name: '^layers.0.up$', role: [output], level: full}")));
}

TEST(ReportOfInputs, WhyNoneWasComparedIsTold) {
  FakeRun a(1), b(1);
  PassBuilder of_a = a.Pass(0, 0), of_b = b.Pass(0, 0);
  const uint64_t model = of_a.Begin(".", "", {{"0", kValue}});
  of_a.End(model, ".", "", {});
  of_a.Param("fc", "weight", kValue);
  of_a.Module("fc", kValue, kValue);
  of_b.Module("fc", kValue, kValue);
  EXPECT_THAT(OneLine(DiffOk(a, b)),
              AllOf(HasSubstr("inputs of the model: none compared: 1 record without a partner"),
                    HasSubstr("weights none compared: 1 record without a partner")));
  DiffOptions selected;
  selected.pass.select = Named("fc");
  EXPECT_THAT(
      OneLine(DiffOk(b, b, selected)),
      AllOf(HasSubstr("inputs of the model: none compared: not recorded, or not in --select"),
            HasSubstr("weights none compared: not recorded, or not in --select")));
  EXPECT_THAT(OneLine(DiffOk(b, b)), HasSubstr("inputs of the model: none recorded"));
}

}  // namespace
}  // namespace tdump::compare
