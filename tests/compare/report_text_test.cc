// What the terminal says of whole diffs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
  EXPECT_THAT(text, AllOf(HasSubstr("mod…ayers.0.transf….query, output"),
                          HasSubstr("mod…ayers.1.transf….query, output")));
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
