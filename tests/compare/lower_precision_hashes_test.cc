// Runs in another precision of which hashes alone are known: of what a loss beside the model was
// given, as captures have it by default.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "io/statistics.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kNote = "hashes say nothing of values that another precision made (1 pair)";

std::vector<float> Numbers() {
  std::vector<float> numbers;
  for (int i = 0; i < 64; ++i) numbers.push_back(std::sin(static_cast<float>(i)));
  return numbers;
}

// As torch.autocast makes them.
uint16_t Rounded(float x) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(x) + 0x8000) >> 16);
}

// A step: a model, whose input and output are of other dtypes in bfloat16, and a loss that was
// given the output as float32.
struct Job {
  bool bfloat16 = false;
  float output = 1;  // factor
  float input = 1;   // of the model, which is float32
  std::vector<int32_t> targets = {1, 2, 3};
  Parts kept = kPartMeta | kPartHash;  // of what went in
  bool has_output = true;              // in full
};

Tensor With(Parts kept, Tensor tensor) {
  io::Record& record = tensor.record;
  if ((kept & kPartStats) != 0) record.statistics = io::StatisticsOf(record.dtype, tensor.payload);
  record.parts_kept = kept;
  record.payload.reset();
  return tensor;
}

FakeRun RunOf(const Job& job) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  std::vector<float> widened;
  std::vector<uint16_t> patterns;
  for (const float x : Numbers()) {
    patterns.push_back(Rounded(job.output * x));
    widened.push_back(job.bfloat16 ? std::bit_cast<float>(uint32_t{patterns.back()} << 16)
                                   : job.output * x);
  }
  const Tensor output =
      job.bfloat16 ? Vector<uint16_t>("bfloat16", patterns) : Vector<float>("float32", widened);
  pass.Module(".", With(job.kept, Vector<float>("float32", {job.input, 2})),
              job.has_output ? output : With(job.kept, output));
  // Without its last number: no other record has these bytes.
  widened.pop_back();
  pass.End(pass.Begin(".", "",
                      {{"0", With(job.kept, Vector<float>("float32", widened))},
                       {"1", With(job.kept, Vector<int32_t>("int32", job.targets))}}),
           ".", "", {{"", Vector<float>("float32", {0.5f})}});
  pass.last_call()->root = "CrossEntropyLoss";
  for (size_t i = 2; i < pass.records()->size(); ++i) {
    io::Record& record = (*pass.records())[i];
    record.key.root = "CrossEntropyLoss";
    record.key.call = 0;
  }
  return run;
}

DiffReport DiffOf(const Job& b, const Job& a = {}, const char* compute = "bf16") {
  DiffOptions options;
  if (compute != nullptr) options.pass.compute = *ParsePrecision(compute);
  return DiffOk(RunOf(a), RunOf(b), options);
}

TEST(LowerPrecisionHashes, ThoseOfResultsSayNothing) {
  const DiffReport report = DiffOf({.bfloat16 = true});
  EXPECT_EQ(RenderVerdict(report, false), "SAME  4 of 4 within bounds (bitwise 3); 1 not judged");
  EXPECT_THAT(report.notes, Contains(kNote));
  EXPECT_EQ(report.counts.failing_by_hash, 0u);
}

TEST(LowerPrecisionHashes, WhatWasKeptInFullIsJudged) {
  const DiffReport report = DiffOf({.bfloat16 = true, .output = 1.5f});
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin && report.origin->row);
  EXPECT_EQ(report.origin->row->key.role, Role::kOutput);
  EXPECT_EQ(report.counts.failing, 1u);
}

TEST(LowerPrecisionHashes, ThoseOfDataAndOfIntegersTell) {
  for (const Job& job :
       {Job{.bfloat16 = true, .input = 1.5f}, Job{.bfloat16 = true, .targets = {1, 2, 4}}}) {
    const DiffReport report = DiffOf(job);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->kind, OriginKind::kInputs);
  }
}

TEST(LowerPrecisionHashes, WithoutAnotherPrecisionTheyTell) {
  for (const char* compute : {static_cast<const char*>(nullptr), "fp32"})
    EXPECT_EQ(DiffOf({.output = 1 + 0x1p-20f}, {}, compute).counts.failing_by_hash, 1u);
  DiffOptions bits;
  bits.pass.compute = *ParsePrecision("bf16");
  bits.pass.require_bits = true;
  EXPECT_EQ(DiffOk(RunOf({}), RunOf({.bfloat16 = true}), bits).overall, Overall::kDiffers);
}

TEST(LowerPrecisionHashes, StatisticsBesideThemTell) {
  const Parts kept = kPartMeta | kPartHash | kPartStats;
  const DiffReport same = DiffOf({.bfloat16 = true, .kept = kept}, {.kept = kept});
  EXPECT_EQ(same.overall, Overall::kSame);
  EXPECT_EQ(same.counts.by_statistics, 1u);
  EXPECT_EQ(same.counts.not_judged, 0u);
  const DiffReport other = DiffOf({.bfloat16 = true, .output = 1.5f, .kept = kept}, {.kept = kept});
  EXPECT_EQ(other.counts.failing, 2u);
}

TEST(LowerPrecisionHashes, WhereNothingElseWasKeptNothingIsJudged) {
  const auto job = [](bool bfloat16) { return Job{.bfloat16 = bfloat16, .has_output = false}; };
  FakeRun a = RunOf(job(false)), b = RunOf(job(true));
  DiffOptions options;
  options.pass.compute = *ParsePrecision("bf16");
  options.pass.select = [](const std::string& name) { return name == "."; };
  const DiffReport report = DiffOk(a, b, options);
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_EQ(report.why_not,
            "of 1 pair of operators hashes alone were kept on both sides, which say nothing where "
            "the precision is another one; what the model was given and holds does not tell what "
            "it did: capture with level stats or full");
}

}  // namespace
}  // namespace tdump::compare
