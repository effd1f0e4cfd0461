// What two runs say of themselves before any value is looked at: every note, and the refusal, by
// its text.
#include "compare/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A parameter of zeros.
struct Weight {
  std::string path;
  std::vector<int64_t> sizes;
  std::string dtype = "float32";
  float fill = 0;
  bool by_values = false;  // kept without a hash, as other tools do
};

Tensor TensorOf(const Weight& weight) {
  size_t count = 1;
  for (const int64_t size : weight.sizes) count *= static_cast<size_t>(size);
  if (weight.dtype == "bfloat16")
    return MakeTensor<uint16_t>(weight.dtype, weight.sizes, std::vector<uint16_t>(count));
  return MakeTensor<float>(weight.dtype, weight.sizes, std::vector<float>(count, weight.fill));
}

// Ranks that hold these parameters, and a root of class `cls`.
FakeRun Ranks(const std::vector<std::vector<Weight>>& ranks, const std::string& cls = "Net") {
  FakeRun run(static_cast<int32_t>(ranks.size()));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    PassBuilder pass = run.Pass(static_cast<int32_t>(rank), 0);
    for (const Weight& weight : ranks[rank]) {
      const Tensor tensor = TensorOf(weight);
      pass.Param(weight.path, "weight", tensor);
      if (!weight.by_values) continue;
      pass.last()->hash.reset();
      pass.last()->payload = tensor.record.payload;
    }
    pass.Module(".", Vector<float>("float32", {1}), Vector<float>("float32", {2}));
    pass.last()->cls = cls;
  }
  return run;
}

FakeRun OneRank(const std::vector<Weight>& weights, const std::string& cls = "Net") {
  return Ranks({weights}, cls);
}

std::vector<std::string> NotesOf(const FakeRun& a, const FakeRun& b,
                                 const DiffOptions& options = {}) {
  return DiffOk(a, b, options).signature;
}

DiffOptions Together() {
  DiffOptions options;
  options.job = JobOptions{};
  return options;
}

const std::vector<Weight> kSmall = {{"fc", {4, 4}}, {"norm", {4}}};

// Of runs as ranks that are compared one by one, and of the same put together.
class SignatureNotes : public testing::TestWithParam<bool> {
 protected:
  DiffOptions options() const { return GetParam() ? Together() : DiffOptions(); }
};

TEST_P(SignatureNotes, EqualRunsHaveNone) {
  const FakeRun run = OneRank(kSmall);
  EXPECT_THAT(NotesOf(run, run, options()), IsEmpty());
}

TEST_P(SignatureNotes, WhatRunsSayOfThemselves) {
  FakeRun a = OneRank(kSmall), b = OneRank(kSmall);
  a.identity(0)->versions = "tdump 0.1.0, torch 2.14.0";
  b.identity(0)->versions = "tdump 0.1.0, torch 2.15.0";
  a.identity(0)->boundary = "forward";
  b.identity(0)->boundary = "optimizer";
  a.identity(0)->config_hash = "1f";
  b.identity(0)->config_hash = "2e";
  EXPECT_THAT(
      NotesOf(a, b, options()),
      ElementsAre("versions differ: A tdump 0.1.0, torch 2.14.0, B tdump 0.1.0, torch 2.15.0",
                  "steps end differently: A forward, B optimizer",
                  "captured with different configurations"));
  // What one side does not say differs from nothing.
  for (std::string io::IdentitySection::*field :
       {&io::IdentitySection::versions, &io::IdentitySection::boundary,
        &io::IdentitySection::config_hash})
    (b.identity(0)->*field).clear();
  EXPECT_THAT(NotesOf(a, b, options()), IsEmpty());
}

TEST_P(SignatureNotes, ClassesOfTheModels) {
  EXPECT_THAT(
      NotesOf(OneRank(kSmall, "Bert"), OneRank({{"fc", {4, 4}, "float32", 1}}, "Llama"), options()),
      ElementsAre("model classes differ: A Bert, B Llama"));
}

TEST_P(SignatureNotes, DTypesOfParameters) {
  EXPECT_THAT(
      NotesOf(OneRank(kSmall), OneRank({{"fc", {4, 4}, "bfloat16"}, {"norm", {4}}}), options()),
      ElementsAre("1 of 2 parameters of another dtype: A float32, B bfloat16"));
}

TEST_P(SignatureNotes, ModelsOfDifferentSizesAreRefusedUnlessPartsAreNamed) {
  const FakeRun a = OneRank(kSmall), b = OneRank({{"fc", {6, 6}}, {"norm", {6}}});
  const DiffReport report = DiffOk(a, b, options());
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_EQ(report.why_not,
            "the models are of different sizes: 2 of 2 parameters have another shape, e.g. "
            "fc.weight is [4, 4] in A and [6, 6] in B; compare runs of one model, or name the "
            "parts that are the same with --select");
  DiffOptions named = options();
  named.pass.select = [](const std::string&) { return true; };
  const DiffReport selected = DiffOk(a, b, named);
  EXPECT_EQ(selected.overall, Overall::kDiffers);
  EXPECT_THAT(selected.signature, ElementsAre(HasSubstr("the models are of different sizes")));
  // One of two may be another part of one model.
  EXPECT_EQ(DiffOk(a, OneRank({{"fc", {6, 6}}, {"norm", {4}}}), options()).overall,
            Overall::kDiffers);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SignatureNotes, testing::Bool(),
                         [](const auto& info) { return info.param ? "PutTogether" : "OneByOne"; });

std::vector<Weight> ModelOf(int64_t width) { return {{"fc", {width, width}}, {"norm", {width}}}; }

// One rank against pairs of ranks, tensor parallel: fc is split over columns, norm is a copy.
DiffReport AgainstShards(int64_t width_a, int64_t width_b, int pairs = 1, bool by_values = false) {
  std::vector<std::vector<Weight>> ranks;
  for (int pair = 0; pair < pairs; ++pair) {
    for (const float fill : {0.0f, 1.0f})
      ranks.push_back({{"fc", {width_b, width_b / 2}, "float32", fill, by_values},
                       {"norm", {width_b}, "float32", 0, by_values}});
  }
  return DiffOk(OneRank(ModelOf(width_a)), Ranks(ranks));
}

TEST(Signature, ShardsOfAModelOfAnotherWidthAreRefused) {
  // Of the last the data parallel copies, taken for shards, would have 8 columns.
  const std::vector<DiffReport> reports = {AgainstShards(4, 6),    AgainstShards(4, 8),
                                           AgainstShards(4, 64),   AgainstShards(4, 6, 2),
                                           AgainstShards(8, 4, 2), AgainstShards(8, 4, 2, true)};
  for (const DiffReport& report : reports) {
    EXPECT_EQ(report.overall, Overall::kNotComparable);
    EXPECT_EQ(report.counts.paired, 0u);
    EXPECT_THAT(report.why_not,
                testing::StartsWith("the models are of different sizes: 2 of 2 parameters have "
                                    "another shape, e.g. fc.weight is ["));
  }
  EXPECT_THAT(reports[0].why_not,
              HasSubstr("fc.weight is [4, 4] in A and [6, 3] in B, as one rank holds it; compare"));
}

TEST(Signature, ShardsOfTheSameModelAreNot) {
  for (const DiffReport& report : {AgainstShards(4, 4), AgainstShards(4, 4, 2, true)}) {
    EXPECT_NE(report.overall, Overall::kNotComparable) << report.why_not;
    EXPECT_THAT(report.signature, IsEmpty());
  }
}

// Flat shards need --dims, which the report asks for; they say nothing of the size.
TEST(Signature, ShardsOfOtherDimensionsAreNoOtherSize) {
  const DiffReport report =
      DiffOk(OneRank({{"fc", {4, 4}}}),
             Ranks({{{"fc", {5}, "float32", 1}}, {{"fc", {11}, "float32", 2}}}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unresolved, 1u);
  EXPECT_THAT(report.signature, IsEmpty());
}

// What a map pairs may be fused or padded: that is told. Equal names are the same tensor.
TEST(Signature, WithAMapOnlyEqualNamesRefuse) {
  DiffOptions options = Together();
  options.job->map = *NameMap::Parse(
      "version: 1\nrules: [{name: big, to: fc}, {name: bignorm, to: norm}]", "m.yaml");
  const DiffReport renamed =
      DiffOk(OneRank(kSmall), OneRank({{"big", {6, 6}}, {"bignorm", {6}}}), options);
  EXPECT_EQ(renamed.overall, Overall::kDiffers);
  EXPECT_THAT(renamed.signature,
              ElementsAre("2 of 2 parameters have another shape, e.g. fc.weight is [4, 4] in A and "
                          "[6, 6] in B"));
  const DiffReport equal =
      DiffOk(OneRank(kSmall), OneRank({{"fc", {6, 6}}, {"norm", {6}}, {"big", {6}}}), options);
  EXPECT_EQ(equal.overall, Overall::kNotComparable);
  EXPECT_THAT(equal.why_not, HasSubstr("the models are of different sizes: 2 of 2"));
}

}  // namespace
}  // namespace tdump::compare
