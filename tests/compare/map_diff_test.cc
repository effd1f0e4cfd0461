// Whole diffs of runs whose names, fused parts and orders of dimensions differ, through a map.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

constexpr const char* kMap =
    "sides:\n"
    "  split: {looks_like: 'q_proj', activations: 'b s h'}\n"
    "  fused: {looks_like: 'qkv', activations: 's b h'}\n"
    "heads: {head_dim: 1}\n"
    "rules:\n"
    "  - name: qkv\n"
    "    split: qkv_groups\n"
    "    to: {q: q_proj, k: k_proj, v: v_proj}\n"
    "    dims: {param: 'o[tp] i', output: 's b h[tp]'}\n"
    "  - {name: out, to: head, padded: true, dims: {output: 's b h[tp]'}}\n"
    "  - {name: extra, skip: true}\n";

Tensor Floats(std::vector<int64_t> sizes, const std::vector<float>& values) {
  return MakeTensor<float>("float32", std::move(sizes), values);
}

const Tensor kInput = Floats({2, 2}, {1, 2, 3, 4});

// Logits [batch 2, sequence 2, vocabulary 3], each value its place.
const Tensor kLogits = Floats({2, 2, 3}, {0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112});

// Two sequences of one token, [2, 1, ...]; the second one's values are 100 higher.
FakeRun Split() {
  FakeRun run(1);
  run.Pass(0, 0)
      .Module("q_proj", kInput, Floats({2, 1, 4}, {1, 2, 3, 4, 101, 102, 103, 104}))
      .Module("k_proj", kInput, Floats({2, 1, 2}, {5, 6, 105, 106}))
      .Module("v_proj", kInput, Floats({2, 1, 2}, {7, 8, 107, 108}))
      .Module("head", kInput, kLogits);
  return run;
}

// Two ranks, a group each; logits [sequence, batch, 2 of 4], the fourth column padding.
FakeRun Fused(float k_of_rank_1 = 106) {
  FakeRun run(2);
  for (const int32_t rank : {0, 1}) run.Place(rank, "tp=" + std::to_string(rank));
  run.Pass(0, 0)
      .Module("qkv", kInput, Floats({1, 2, 4}, {1, 2, 5, 7, 101, 102, 105, 107}))
      .Module("out", kInput, Floats({2, 2, 2}, {0, 1, 100, 101, 10, 11, 110, 111}))
      .Module("extra", kInput, kInput);
  run.Pass(1, 0)
      .Module("qkv", kInput, Floats({1, 2, 4}, {3, 4, 6, 8, 103, 104, k_of_rank_1, 108}))
      .Module("out", kInput, Floats({2, 2, 2}, {2, 9, 102, 9, 12, 9, 112, 9}))
      .Module("extra", kInput, kInput);
  return run;
}

DiffOptions Mapped() {
  DiffOptions options;
  options.job = JobOptions{};
  options.job->map = *NameMap::Parse(kMap, "m.yaml");
  return options;
}

// Nothing was damaged either.
DiffReport DiffWhole(const FakeRun& a, const FakeRun& b, const DiffOptions& options) {
  DiffReport report = DiffOk(a, b, options);
  for (const io::Damage& damage : report.damage) ADD_FAILURE() << damage.what;
  return report;
}

TEST(MapDiff, FusedShardedPaddedAndPermutedIsTheSame) {
  for (const bool swapped : {false, true}) {
    const FakeRun split = Split(), fused = Fused();
    const DiffReport report =
        swapped ? DiffWhole(fused, split, Mapped()) : DiffWhole(split, fused, Mapped());
    EXPECT_EQ(report.overall, Overall::kSame);
    EXPECT_EQ(report.counts.paired, 8u);  // inputs and outputs of q, k, v and the head
    EXPECT_EQ(report.counts.bits_equal, 8u);
    EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u);
    ASSERT_TRUE(report.job);
    EXPECT_EQ(report.job->map, swapped ? "m.yaml: A has fused names, B split names"
                                       : "m.yaml: A has split names, B fused names");
    const auto& how = swapped ? report.job->how_a : report.job->how_b;
    EXPECT_THAT(how, Contains(Key(HasSubstr("k of qkv"))));
    EXPECT_THAT(how, Contains(Key(HasSubstr("1 row of padding dropped"))));
    EXPECT_THAT(report.notes, Contains(swapped ? "2 tensors of A only, as the map says: "
                                                 "extra@input#0, extra@output#"
                                               : "2 tensors of B only, as the map says: "
                                                 "extra@input#0, extra@output#"));
  }
}

TEST(MapDiff, AWrongElementOfAPartIsFoundOnItsRank) {
  const DiffReport report = DiffWhole(Split(), Fused(60), Mapped());
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 1u);
  ASSERT_EQ(report.failing.size(), 1u);
  EXPECT_EQ(report.failing[0].rank_b, 1);
  EXPECT_THAT(report.failing[0].comparison.metrics->worst.position, ElementsAre(1, 0, 1));
  EXPECT_EQ(report.failing[0].comparison.metrics->worst.b, "60");
}

TEST(MapDiff, ARunWithoutTheMapsNamesIsAnError) {
  FakeRun other(1);
  other.Pass(0, 0).Module("x", kInput, kInput);
  const FakeRun split = Split();
  const auto report = Diff(split.side(), other.side(), Mapped());
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.status().message(), HasSubstr("m.yaml: B has no fused names; it has x"));
}

// One record pairs, and more than that do not: the comparison stands, and a note says what may
// help.
TEST(MapDiff, ForNamesThatMostlyFindNoPartnerAMapIsAdvised) {
  FakeRun a(1), b(1);
  PassBuilder left = a.Pass(0, 0), right = b.Pass(0, 0);
  left.Module("same", kInput, kInput);
  right.Module("same", kInput, kInput);
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) left.Module(name, kInput, kInput);
  for (const char* name : {"a.qkv", "b.qkv", "c.qkv"}) right.Module(name, kInput, kInput);
  DiffOptions options;
  options.shipped_maps = [] { return std::vector{*NameMap::Parse(kMap, "split-fused")}; };
  const DiffReport report = DiffWhole(a, b, options);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(report.notes, Contains(HasSubstr("B looks like fused names: try --map split-fused")));
  // Nothing of the kind where only some are alone.
  FakeRun c(1);
  c.Pass(0, 0)
      .Module("same", kInput, kInput)
      .Module("too", kInput, kInput)
      .Module("a.qkv", kInput, kInput);
  FakeRun d(1);
  d.Pass(0, 0)
      .Module("same", kInput, kInput)
      .Module("too", kInput, kInput)
      .Module("q_proj", kInput, kInput);
  EXPECT_THAT(DiffWhole(d, c, options).notes, Not(Contains(HasSubstr("--map"))));
}

}  // namespace
}  // namespace tdump::compare
