#include "compare/origin.h"

#include <gtest/gtest.h>

namespace tdump::compare {
namespace {

enum Difference { kEqual, kBits, kFails };

// Outcome numbers are the order of construction.
struct Timeline {
  std::vector<Observed> observed;

  Timeline& Add(uint64_t order, uint64_t call, bool output, Difference difference,
                bool root_input = false) {
    observed.push_back({order, call, output, root_input, difference == kFails, difference != kEqual,
                        observed.size()});
    return *this;
  }
};

TEST(FindFirst, AnOutputWhoseInputAgreesIsTheOrigin) {
  Timeline t;
  t.Add(1, 1, false, kEqual)
      .Add(2, 1, true, kEqual)
      .Add(3, 3, false, kEqual)
      .Add(4, 3, true, kFails)
      .Add(5, 5, false, kFails);
  const PassFinding finding = FindFirst(&t.observed);
  ASSERT_TRUE(finding.beyond_bound);
  EXPECT_EQ(finding.beyond_bound->outcome, 3u);
  EXPECT_EQ(finding.beyond_bound->kind, OriginKind::kOperator);
  EXPECT_EQ(finding.beyond_bound->inputs_recorded, 1u);
  EXPECT_TRUE(finding.beyond_bound->certain());
  EXPECT_EQ(finding.beyond_bound->last_agreeing, 1u);
}

TEST(FindFirst, TheInnermostCallIsNamedWhateverTheFileOrder) {
  // Outer call 1..6 encloses inner 2..3 (equal) and 4..5 (fails). Given
  // outputs first, as a file may have them.
  Timeline t;
  t.Add(6, 1, true, kFails)
      .Add(5, 4, true, kFails)
      .Add(3, 2, true, kEqual)
      .Add(1, 1, false, kEqual)
      .Add(4, 4, false, kEqual);
  const PassFinding finding = FindFirst(&t.observed);
  EXPECT_EQ(t.observed[finding.beyond_bound->position].call, 4u);
  EXPECT_EQ(finding.beyond_bound->outcome, 1u);
}

TEST(FindFirst, WithoutInputsItIsNotCertain) {
  Timeline t;
  t.Add(2, 1, true, kEqual).Add(4, 3, true, kFails);
  const PassFinding finding = FindFirst(&t.observed);
  EXPECT_EQ(finding.beyond_bound->kind, OriginKind::kOperator);
  EXPECT_FALSE(finding.beyond_bound->certain());
  EXPECT_EQ(finding.beyond_bound->last_agreeing, 0u);
}

TEST(FindFirst, ADifferingInputMeansAnInterval) {
  Timeline t;
  t.Add(2, 1, true, kEqual).Add(5, 5, false, kFails).Add(6, 5, true, kFails);
  const PassFinding finding = FindFirst(&t.observed);
  EXPECT_EQ(finding.beyond_bound->kind, OriginKind::kInterval);
  EXPECT_EQ(finding.beyond_bound->last_agreeing, 0u);
  Timeline root;
  root.Add(1, 1, false, kFails, true).Add(2, 1, true, kFails);
  EXPECT_EQ(FindFirst(&root.observed).beyond_bound->kind, OriginKind::kInputs);
}

TEST(FindFirst, BitsAreFoundApart) {
  Timeline t;
  t.Add(1, 1, false, kEqual).Add(2, 1, true, kBits).Add(3, 3, false, kBits).Add(4, 3, true, kFails);
  const PassFinding finding = FindFirst(&t.observed);
  EXPECT_EQ(finding.bits->outcome, 1u);
  EXPECT_EQ(finding.beyond_bound->outcome, 3u);
  Timeline equal;
  equal.Add(1, 1, true, kEqual);
  EXPECT_FALSE(FindFirst(&equal.observed).bits);
}

Candidate At(uint64_t step, int32_t rank, uint64_t position, uint64_t structure = 9) {
  Candidate candidate{.step = step, .rank = rank, .structure = structure};
  candidate.first.position = position;
  candidate.first.inputs_recorded = 1;
  return candidate;
}

TEST(ChooseOrigin, EarliestStepThenFurthestBackThenRank) {
  EXPECT_EQ(ChooseOrigin(std::vector<Candidate>{At(1, 0, 1), At(0, 3, 50), At(0, 2, 60)}), 1u);
  EXPECT_EQ(ChooseOrigin(std::vector<Candidate>{At(0, 3, 50), At(0, 2, 50)}), 1u);
}

TEST(ChooseOrigin, ItsOwnParameterDecidesAmongRanksThatStandAtTheSameOperator) {
  // Row-parallel layer: rank 1's weight is wrong, and the sum over ranks
  // makes rank 0's output differ as well.
  std::vector<Candidate> candidates = {At(0, 0, 50), At(0, 1, 50)};
  candidates[1].own_parameter = true;
  EXPECT_EQ(ChooseOrigin(candidates), 1u);
}

TEST(ChooseOrigin, PipelineStagesAreNotComparedByPosition) {
  // The second stage only received wrong input, at its very first record.
  std::vector<Candidate> candidates = {At(0, 1, 0, 7), At(0, 0, 40, 8)};
  candidates[0].first.kind = OriginKind::kInterval;
  EXPECT_EQ(ChooseOrigin(candidates), 1u);
}

TEST(ChooseOrigin, TurnsOfStagesDecideWhateverIsCertain) {
  // Stages that hold equal keys, the first one on the last rank. The second was given wrong input.
  std::vector<Candidate> candidates = {At(0, 0, 0), At(0, 1, 40)};
  candidates[0].first.kind = OriginKind::kInputs;
  candidates[0].turn = 1;
  candidates[1].turn = 0;
  EXPECT_EQ(ChooseOrigin(candidates), 1u);
  candidates[1].turn = 1;
  EXPECT_EQ(ChooseOrigin(candidates), 0u);
}

TEST(PathWithin, GoesByWholeNames) {
  EXPECT_TRUE(PathWithin("a.b", "a.b"));
  EXPECT_TRUE(PathWithin("a.b.c", "a.b"));
  EXPECT_FALSE(PathWithin("a.bc", "a.b"));
  EXPECT_FALSE(PathWithin("a", "a.b"));
  EXPECT_TRUE(PathWithin("a", "."));
}

}  // namespace
}  // namespace tdump::compare
