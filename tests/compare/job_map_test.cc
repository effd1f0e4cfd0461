// Whole diffs of sharded runs whose names differ, through a map.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;

DiffOptions WithMap(const std::string& rules) {
  DiffOptions options;
  options.job = JobOptions{};
  auto map = NameMap::Parse("version: 1\n" + rules, "m.yaml");
  EXPECT_TRUE(map.ok()) << map.status().message();
  if (map.ok()) options.job->map = std::move(*map);
  return options;
}

// B keeps gate and up of a rank in one layer, one after the other.
TEST(JobMap, AFusedLayerIsTakenApartOnEachRank) {
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

TEST(JobMap, PaddingThatTheMapKnowsIsDroppedInAnyOrderOfDimensions) {
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

TEST(JobMap, AMapThatFitsNeitherSideIsAnError) {
  const FakeRun a = OneRank(kWhole);
  const auto report = Diff(a.side(), a.side(),
                           WithMap("sides: {one: {looks_like: [aaa]}, two: {looks_like: [bbb]}}\n"
                                   "rules: [{name: bbb, to: aaa}]"));
  EXPECT_FALSE(report.ok());
}

}  // namespace
}  // namespace tdump::compare
