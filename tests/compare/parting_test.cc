// Whole diffs of runs that were given other tokens: what is compared even so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

const Tensor kValue = Vector<float>("float32", {1, 2});
const Tensor kOther = Vector<float>("float32", {3, 4});

Tensor Tokens(int64_t first) {
  return Vector<int64_t>("int64", {first, first + 1, first + 2, first + 3});
}

// A step that was given these tokens, with a parameter, a buffer, and what the optimizer keeps.
struct Given {
  int64_t tokens = 0;
  Tensor weight = kValue, buffer = kValue, kept = kValue;
};

void AddStep(FakeRun* run, int32_t rank, uint64_t step, const Given& given) {
  PassBuilder pass = run->Pass(rank, step);
  pass.Param("fc", "weight", given.weight).Param("fc", "mean", given.buffer);
  pass.last()->key.role = Role::kState;
  const uint64_t model = pass.Begin(".", "", {{"input_ids", Tokens(given.tokens)}});
  const Tensor result = Vector<float>("float32", {static_cast<float>(given.tokens), 1});
  pass.Module("fc", result, result);
  pass.End(model, ".", "", {{"", result}});
  pass.Param("fc", "weight.exp_avg", given.kept);
  pass.last()->key.role = Role::kState;
}

FakeRun RunOf(const std::vector<std::vector<Given>>& ranks) {
  FakeRun run(static_cast<int32_t>(ranks.size()));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t step = 0; step < ranks[rank].size(); ++step)
      AddStep(&run, static_cast<int32_t>(rank), step, ranks[rank][step]);
  }
  return run;
}

TEST(Parting, WeightsAreComparedAtTheStepThatWasGivenOtherTokens) {
  const DiffReport report =
      DiffOk(RunOf({{{.tokens = 0}}}), RunOf({{{.tokens = 9, .kept = kOther}}}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.paired, 3u);  // the tokens, the parameter, the buffer
  EXPECT_EQ(report.parameters.compared, 1u);
  EXPECT_EQ(report.parameters.buffers_compared, 1u);
  EXPECT_EQ(report.parameters.differing_names, 0u);
  const std::string text = Text(report);
  EXPECT_THAT(text,
              HasSubstr("weights   1 of 1 parameters and 1 of 1 buffers equal on every rank"));
  EXPECT_THAT(text, HasSubstr("DIFFERS  inputs differ: token ids from step 0 on, no step judged; "
                              "weights agree\n"));
  EXPECT_THAT(text, Not(HasSubstr("growth")));
}

TEST(Parting, AWeightThatDiffersIsNamed) {
  const FakeRun a = RunOf({{{.tokens = 0}}});
  const DiffReport report = DiffOk(a, RunOf({{{.tokens = 9, .weight = kOther}}}));
  EXPECT_EQ(report.parameters.differing_names, 1u);
  EXPECT_THAT(Text(report), HasSubstr("not on rank 0: fc.weight\n"));
  EXPECT_THAT(Text(report), HasSubstr("no step judged; 1 parameter differs by hash"));
  const DiffReport buffer = DiffOk(a, RunOf({{{.tokens = 9, .buffer = kOther}}}));
  EXPECT_THAT(Text(buffer), HasSubstr("no step judged; 1 buffer differs by hash"));
}

TEST(Parting, AWeightWhoseValuesDifferIsNamedInTheSameWords) {
  FakeRun a(1), b(1);
  for (const auto& [run, weight, tokens] : {std::tuple(&a, kValue, 0), std::tuple(&b, kOther, 9)}) {
    PassBuilder pass = run->Pass(0, 0);
    pass.Param("fc", "weight", weight);
    pass.last()->payload = weight.record.payload;
    pass.Module(".", Tokens(tokens), kValue);
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.counts.failing, 2u);
  EXPECT_THAT(Text(report), HasSubstr("no step judged; 1 parameter differs\n"));
}

TEST(Parting, WeightsOfEveryRankAreComparedThere) {
  const std::vector<Given> equal = {{.tokens = 0}, {.tokens = 1}, {.tokens = 2}};
  const Given parted = {.tokens = 9};
  const DiffReport report = DiffOk(
      RunOf({equal, equal}),
      RunOf({{equal[0], parted, parted}, {equal[0], {.tokens = 1, .weight = kOther}, parted}}));
  EXPECT_EQ(report.inputs.first_differing_step, 1u);
  EXPECT_EQ(report.inputs.passes_not_judged, 3u);
  ASSERT_EQ(report.parameters.differing.size(), 1u);
  EXPECT_EQ(report.parameters.differing[0].rank, 1);
  EXPECT_EQ(report.parameters.differing[0].step, 1u);
  EXPECT_THAT(Text(report), HasSubstr("not on rank 1 from step 1 on: fc.weight\n"));
  // Of step 0 of both ranks the parameter, the buffer, what the optimizer keeps and 4 values; of
  // step 1 the tokens of rank 0, and weights, of which one differs.
  EXPECT_THAT(RenderVerdict(report, false), HasSubstr("; 1 parameter differs by hash"));
  EXPECT_THAT(RenderVerdict(report, false), HasSubstr(": 17 same within bounds"));
}

// Reports list 1,000 weights, and count all.
TEST(Parting, AllPairsThatAgreeAreCountedHoweverManyWeightsDiffer) {
  constexpr int kWeights = 1200;
  for (const bool by_hash : {false, true}) {
    FakeRun a(1), b(1);
    for (FakeRun* run : {&a, &b}) {
      for (const uint64_t step : {0, 1}) {
        const bool parted = run == &b && step == 1;
        PassBuilder pass = run->Pass(0, step);
        for (int i = 0; i < kWeights; ++i) {
          const Tensor& weight = parted && i > 0 ? kOther : kValue;
          pass.Param("fc", "weight" + std::to_string(i), weight);
          if (!by_hash) pass.last()->payload = weight.record.payload;
        }
        pass.Module(".", Tokens(parted ? 9 : 0), kValue);
      }
    }
    const DiffReport report = DiffOk(a, b);
    // Of step 0 the weights, the tokens and the result; of step 1 one weight.
    EXPECT_EQ(report.counts.agreeing, 1203u);
    EXPECT_EQ(report.counts.failing, by_hash ? 1u : 1200u);
    const std::string text = RenderVerdict(report, false);
    EXPECT_THAT(text, HasSubstr("DIFFERS  inputs differ: "));
    EXPECT_THAT(text, HasSubstr("; 1,199 parameters differ"));
    EXPECT_THAT(text, HasSubstr(": 1,203 same within bounds"));
  }
}

TEST(Parting, TheRuleThatDecidesOnAWeightIsKnown) {
  auto rules = std::make_shared<BoundRules>();
  rules->Add({.matches = Named("weight"), .roles = {Role::kParam}});
  rules->Add({.roles = {Role::kOutput}});  // of no output anything is said
  DiffOptions options;
  options.pass.rules = rules;
  const FakeRun a = RunOf({{{.tokens = 0}}}), b = RunOf({{{.tokens = 9}}});
  EXPECT_THAT(DiffOk(a, b, options).rules_used, testing::UnorderedElementsAre(rules->At(0)));
  EXPECT_THAT(DiffOk(a, a, options).rules_used,
              testing::UnorderedElementsAre(rules->At(0), rules->At(1)));
}

TEST(Parting, DamageOfAnotherRankIsTold) {
  FakeRun a(2), b(2);
  for (FakeRun* run : {&a, &b}) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      PassBuilder pass = run->Pass(rank, 0);
      pass.Param("fc", "weight", run == &a ? kValue : kOther);
      pass.last()->payload = kValue.record.payload;
      if (run == &b && rank == 1) pass.Damage(1);
      const uint64_t model = pass.Begin(".", "", {{"input_ids", Tokens(run == &a ? 0 : 9)}});
      pass.End(model, ".", "", {{"", kValue}});
    }
  }
  EXPECT_EQ(DiffOk(a, b).overall, Overall::kDamaged);
}

// The embedding is given them flat, in their dtype.
FakeRun GivenAs(const Tensor& tokens, const Tensor& result = kValue,
                const Tensor& embedded = kValue) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  const uint64_t model = pass.Begin(".", "", {{"input_ids", tokens}});
  Tensor flat = tokens;
  flat.record.sizes = {static_cast<int64_t>(tokens.record.numel())};
  flat.record.strides = {1};
  pass.Module("embed", flat, embedded);
  pass.Module("fc", kValue, result);
  pass.End(model, ".", "", {});
  return run;
}

// As `--steps auto` takes them.
TEST(Parting, TokensThatAreEqualInValueAreTheSameInAnyDtypeAndShape) {
  const FakeRun a = GivenAs(MakeTensor<int64_t>("int64", {2, 2}, {7, 8, 9, 300}));
  for (const Tensor& tokens : {MakeTensor<int32_t>("int32", {2, 2}, {7, 8, 9, 300}),
                               MakeTensor<int64_t>("int64", {4}, {7, 8, 9, 300}),
                               MakeTensor<uint16_t>("uint16", {4}, {7, 8, 9, 300}),
                               MakeTensor<int64_t>("int64", {2, 1, 2}, {7, 8, 9, 300})}) {
    const DiffReport same = DiffOk(a, GivenAs(tokens));
    EXPECT_EQ(same.overall, Overall::kSame) << Text(same);
    EXPECT_EQ(same.counts.read + same.counts.equal_by_hash, same.counts.paired);
    EXPECT_EQ(same.inputs.equal, same.inputs.compared);
    EXPECT_THAT(same.notes, testing::Contains(HasSubstr("integer inputs of another dtype or shape "
                                                        "are equal")));
    // A fault behind them is judged, and the origin.
    const DiffReport faulty = DiffOk(a, GivenAs(tokens, kOther));
    EXPECT_EQ(faulty.overall, Overall::kDiffers);
    EXPECT_FALSE(faulty.inputs.judging_stopped);
    ASSERT_TRUE(faulty.origin);
    EXPECT_EQ(faulty.origin->kind, OriginKind::kOperator);
    EXPECT_EQ(faulty.origin->name, "fc");
    // So is the embedding, which was given the same.
    const DiffReport embedded = DiffOk(a, GivenAs(tokens, kValue, kOther));
    ASSERT_TRUE(embedded.origin);
    EXPECT_EQ(embedded.origin->kind, OriginKind::kOperator);
    EXPECT_EQ(embedded.origin->name, "embed");
  }
}

// Only their number of dimensions may differ where none is flat.
TEST(Parting, TokensOfAnotherBatchAreOtherInputs) {
  const FakeRun row = GivenAs(MakeTensor<int64_t>("int64", {1, 4}, {7, 8, 9, 300}));
  const DiffReport report =
      DiffOk(row, GivenAs(MakeTensor<int64_t>("int64", {4, 1}, {7, 8, 9, 300})));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.inputs.equal, 0u);
}

TEST(Parting, TokensOfAnotherDtypeHaveNoEqualBits) {
  const FakeRun a = GivenAs(MakeTensor<int64_t>("int64", {2, 2}, {7, 8, 9, 300}));
  const FakeRun narrow = GivenAs(MakeTensor<int32_t>("int32", {2, 2}, {7, 8, 9, 300}));
  const DiffReport same = DiffOk(a, narrow);
  EXPECT_EQ(same.counts.bits_equal, 3u);  // what fc was given and returned, and embed returned
  EXPECT_THAT(Text(same), HasSubstr("within bounds (bitwise "));
  DiffOptions bits;
  bits.pass.require_bits = true;
  EXPECT_EQ(DiffOk(a, narrow, bits).overall, Overall::kDiffers);
  EXPECT_EQ(DiffOk(a, GivenAs(MakeTensor<int64_t>("int64", {4}, {7, 8, 9, 300})), bits).overall,
            Overall::kDiffers);
}

// One that says nothing of shapes changes nothing.
TEST(Parting, ARuleLeavesEqualTokensAllowed) {
  const auto rules = std::make_shared<BoundRules>();
  rules->Add({.matches = {}, .where = "1"});
  DiffOptions options;
  options.pass.rules = rules;
  const FakeRun a = GivenAs(MakeTensor<int64_t>("int64", {2, 2}, {7, 8, 9, 300}));
  const FakeRun flat = GivenAs(MakeTensor<int64_t>("int64", {4}, {7, 8, 9, 300}));
  EXPECT_EQ(DiffOk(a, flat, options).overall, Overall::kSame);
}

// The shape of an index is meaning.
TEST(Parting, IndicesOfAnOperatorInAnotherShapeDiffer) {
  const auto indexed = [](const Tensor& index) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const uint64_t model = pass.Begin(".", "", {{"x", kValue}});
    pass.Module("gather", index, kValue);
    pass.End(model, ".", "", {});
    return run;
  };
  const FakeRun a = indexed(MakeTensor<int64_t>("int64", {1, 2}, {0, 1}));
  EXPECT_EQ(DiffOk(a, indexed(MakeTensor<int64_t>("int64", {2}, {0, 1}))).overall,
            Overall::kDiffers);
  EXPECT_EQ(DiffOk(a, indexed(MakeTensor<int32_t>("int32", {1, 2}, {0, 1}))).overall,
            Overall::kSame);
}

// They are read a few thousand at a time.
TEST(Parting, ManyTokensAreComparedToTheLast) {
  for (const int64_t count : {4096, 10001}) {
    std::vector<int64_t> wide(static_cast<size_t>(count));
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<int64_t>(i * 7);
    std::vector<int32_t> narrow(wide.begin(), wide.end());
    const FakeRun a = GivenAs(Vector<int64_t>("int64", wide));
    EXPECT_EQ(DiffOk(a, GivenAs(Vector<int32_t>("int32", narrow))).overall, Overall::kSame);
    const Tensor flat = MakeTensor<int32_t>("int32", {1, count}, narrow);
    EXPECT_EQ(DiffOk(a, GivenAs(flat)).overall, Overall::kSame);
    ++narrow.back();
    const Tensor other = MakeTensor<int32_t>("int32", {1, count}, narrow);
    EXPECT_TRUE(DiffOk(a, GivenAs(other)).inputs.judging_stopped);
  }
}

TEST(Parting, OfAnotherDtypeOtherValuesAreOtherTokens) {
  const FakeRun a = GivenAs(MakeTensor<int64_t>("int64", {2, 2}, {7, 8, 9, 300}));
  for (const Tensor& tokens : {MakeTensor<int32_t>("int32", {2, 2}, {7, 8, 9, 301}),
                               MakeTensor<uint8_t>("uint8", {2, 2}, {7, 8, 9, 300 % 256}),
                               MakeTensor<int64_t>("int64", {4}, {7, 8, 300, 9}),
                               MakeTensor<int64_t>("int64", {1, 4}, {7, 8, 9, 300}),
                               MakeTensor<int64_t>("int64", {3}, {7, 8, 9})}) {
    const DiffReport report = DiffOk(a, GivenAs(tokens));
    EXPECT_TRUE(report.inputs.judging_stopped);
    EXPECT_THAT(Text(report), HasSubstr("inputs differ: token ids from step 0 on"));
  }
}

// What an operator makes has the dtype and shape that it is to have.
TEST(Parting, IntegersThatWereMadeDifferInDtypeAndShape) {
  const auto made = [](const Tensor& result) {
    FakeRun run(1);
    run.Pass(0, 0).Module("argmax", kValue, result);
    return run;
  };
  const FakeRun a = made(MakeTensor<int64_t>("int64", {2}, {1, 2}));
  EXPECT_EQ(DiffOk(a, made(MakeTensor<int32_t>("int32", {2}, {1, 2}))).overall, Overall::kDiffers);
  EXPECT_EQ(DiffOk(a, made(MakeTensor<int64_t>("int64", {1, 2}, {1, 2}))).overall,
            Overall::kDiffers);
}

}  // namespace
}  // namespace tdump::compare
