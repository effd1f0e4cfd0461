#include "compare/precision_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// A pair that fails, and whether by itself; `precision`: that it looks like.
Outcome Failing(std::string_view precision, bool follows = false) {
  Outcome outcome;
  outcome.fails = true;
  Explanation explanation;
  explanation.within = false;
  explanation.follows = follows;
  outcome.explanation = std::optional(explanation);
  if (!precision.empty()) outcome.comparison.notes = {PrecisionNote(precision)};
  return outcome;
}

PrecisionHints HintsOf(const std::vector<std::string_view>& precisions) {
  PrecisionHints hints;
  for (const std::string_view precision : precisions) hints.Add(Failing(precision));
  return hints;
}

TEST(PrecisionHint, NearlyAllPairsThatFailByThemselvesMustLookLikeIt) {
  EXPECT_EQ(HintsOf({}).Note(), "");
  EXPECT_EQ(HintsOf({"bf16", "bf16", ""}).Note(), "");
  std::vector<std::string_view> precisions(9, "bf16");
  precisions.emplace_back("");
  EXPECT_EQ(HintsOf(precisions).Note(),
            "error looks like rounding; if B computed so, --compute bf16 judges by it (9 of the 10 "
            "pairs that do not follow from another)");
}

TEST(PrecisionHint, TheFinestThatCoversThemIsNamed) {
  EXPECT_THAT(HintsOf({"tf32", "fp16", "bf16", "bf16"}).Note(),
              HasSubstr("--compute bf16 judges by it (4 of the 4"));
  EXPECT_THAT(HintsOf({"tf32", "bf16", "bf16", "fp8_e5m2"}).Note(),
              HasSubstr("--compute fp8_e5m2 judges by it (4 of the 4"));
}

// An error of that power, of a signal of 1.
void SetPower(double power, Outcome* outcome) {
  Metrics metrics;
  metrics.elements = metrics.compared = 64;
  metrics.rms_a = metrics.rms_b = 1;
  metrics.rmse = metrics.max_abs = std::sqrt(power);
  metrics.cosine = 1;
  outcome->comparison.metrics = metrics;
  outcome->comparison.evidence = Evidence::kPayload;
}

// One of them among twenty that a precision explains.
TEST(PrecisionHint, NoneWhereTryingItWouldLeaveWhatItDoesNotExplain) {
  const auto note = [](const auto& change) {
    PrecisionHints hints;
    for (int i = 0; i < 20; ++i) {
      Outcome explained = Failing("tf32");
      SetPower(0.01, &explained);
      hints.Add(explained);
    }
    Outcome outcome = Failing("");
    change(&outcome);
    hints.Add(outcome);
    return hints.Note();
  };
  EXPECT_THAT(note([](Outcome*) {}), HasSubstr("--compute tf32 judges by it (20 of the 21"));
  EXPECT_EQ(note([](Outcome* o) { o->comparison.verdict.special = Answer::kDiffers; }), "");
  EXPECT_EQ(note([](Outcome* o) { o->comparison.verdict.shape = Answer::kDiffers; }), "");
  // What a rule allows is no other value.
  EXPECT_THAT(note([](Outcome* o) {
                Verdict& verdict = o->comparison.verdict;
                verdict.special = verdict.shape = Answer::kDiffers;
                verdict.special_allowed = verdict.shape_allowed = true;
              }),
              HasSubstr("(20 of the 21"));
  const auto far = [](Outcome* o) { SetPower(0.11, o); };
  EXPECT_EQ(note(far), "");
  EXPECT_THAT(note([](Outcome* o) { SetPower(0.09, o); }), HasSubstr("(20 of the 21"));
  EXPECT_THAT(note([&](Outcome* o) {
                far(o);
                o->allowed = true;
              }),
              HasSubstr("(20 of the 20"));
}

TEST(PrecisionHint, WhatFollowsFromAnotherSaysNothing) {
  PrecisionHints hints = HintsOf({"bf16"});
  for (int i = 0; i < 5; ++i) hints.Add(Failing("", /*follows=*/true));
  EXPECT_THAT(hints.Note(), HasSubstr("(1 of the 1 pair"));
}

// Of millions of pairs notes lie in a file: looking at them leaves them there.
TEST(PrecisionHint, NotesThatLieInAFileStayThere) {
  SpillFile file({.env = Env::Posix(), .directory = "", .in_memory = 0});
  Outcome outcome = Failing("bf16");
  outcome.comparison.notes.MoveTo(&file);
  const auto end = [&] { return *file.Add("end"); };
  const uint64_t before = end(), step = end() - before;
  PrecisionHints hints;
  hints.Add(outcome);
  EXPECT_THAT(hints.Note(), HasSubstr("(1 of the 1 pair"));
  outcome.comparison.notes.MoveTo(&file);  // writes them again, were they in memory
  EXPECT_EQ(end(), before + 2 * step);
}

// Of each module what it returns: as it should be, with noise on all elements, or with one of them
// wrong.
enum class Kind { kRight, kNoisy, kOneWrong };

FakeRun RunOf(const std::vector<Kind>& kinds) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  const Tensor input = Vector<float>("float32", {1, 2});
  int module = 0;
  for (const Kind kind : kinds) {
    std::vector<float> values;
    for (int i = 0; i < 256; ++i) {
      const auto x = static_cast<float>(std::sin(0.7 * i) + 2);
      const double noise = kind == Kind::kNoisy ? 0.002 * std::sin(37.0 * i + 1) : 0;
      values.push_back(static_cast<float>(x * (1 + noise)));
    }
    if (kind == Kind::kOneWrong) values[0] += 1;
    pass.Module("layers." + std::to_string(module++), input, Vector<float>("float32", values));
  }
  return run;
}

TEST(PrecisionHint, AFewOperatorsBehindAWrongWeightAreNoPrecision) {
  const FakeRun right = RunOf(std::vector<Kind>(3, Kind::kRight));
  const auto notes = [&](const std::vector<Kind>& kinds) {
    const DiffReport report = DiffOk(right, RunOf(kinds));
    EXPECT_EQ(report.counts.failing, 3u);
    return report.notes;
  };
  constexpr Kind kNoisy = Kind::kNoisy, kWrong = Kind::kOneWrong;
  EXPECT_THAT(notes({kNoisy, kNoisy, kNoisy}),
              Contains(HasSubstr("judges by it (3 of the 3 pairs that do not follow")));
  for (const auto& kinds : {std::vector{kNoisy, kNoisy, kWrong}, {kNoisy, kWrong, kWrong}})
    EXPECT_THAT(notes(kinds), Not(Contains(HasSubstr("looks like rounding"))));
}

// One element is larger than all others, which `change` takes; it is not quite equal, as it would
// not count otherwise (compare/huge_elements.h).
DiffReport WithOneLargeElement(float (*change)(float), const char* compute) {
  const auto run_of = [&](bool changed) {
    std::vector<float> values;
    for (int i = 0; i < 4096; ++i) {
      const auto x = static_cast<float>(0.4 * std::sin(0.7 * i * i));
      values.push_back(changed ? change(x) : x);
    }
    values[7] = changed ? 3000.001f : 3000;
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const Tensor input = Vector<float>("float32", {1, 2});
    pass.Module("fc", input, MakeTensor<float>("float32", {64, 64}, values));
    return run;
  };
  DiffOptions options;
  if (compute != nullptr) options.pass.compute = *ParsePrecision(compute);
  return DiffOk(run_of(false), run_of(true), options);
}

TEST(PrecisionHint, MostElementsLookLikeItNotOnlyTheLargest) {
  const auto hint = [](float (*change)(float)) {
    return Text(WithOneLargeElement(change, nullptr));
  };
  EXPECT_THAT(hint([](float) { return 0.0f; }), Not(HasSubstr("looks like")));
  EXPECT_THAT(hint([](float x) { return -x; }), Not(HasSubstr("looks like")));
  EXPECT_THAT(
      hint([](float x) { return x * (x * 1e4f - std::floor(x * 1e4f) > 0.5f ? 1.02f : 0.98f); }),
      HasSubstr("looks like rounding"));
}

TEST(PrecisionHint, NorAreTheyJudgedByTheLargest) {
  const auto turned = [](float x) { return -x; };
  const DiffReport report = WithOneLargeElement(turned, "fp8");
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Text(report), HasSubstr("most elements are unlike A"));
  EXPECT_EQ(WithOneLargeElement([](float) { return 0.0f; }, "fp8").overall, Overall::kDiffers);
  EXPECT_EQ(WithOneLargeElement([](float x) { return 1.02f * x; }, "fp8").overall, Overall::kSame);
}

float InBfloat16(float x) {
  const float unit = std::ldexp(1.0f, std::ilogb(x) - 7);
  return std::round(x / unit) * unit;
}

// Of 1,024 numbers two in five are one step of bfloat16 away, and a bias is added to all.
DiffReport OneStepApart(bool widened, float bias, float cut) {
  const auto run_of = [&](bool other) {
    std::vector<float> values;
    for (int i = 0; i < 1024; ++i) {
      float x = static_cast<float>(std::sin(0.7 * i * i));
      const float step = std::ldexp(1.0f, std::ilogb(x) - 7);
      if (widened) x = InBfloat16(x);
      if (other && i % 5 < 2) x += (i % 2 == 0 ? step : -step) * cut;
      values.push_back(x + bias * static_cast<float>(i % 7 - 3));
    }
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    pass.Module("fc", Vector<float>("float32", {1, 2}), MakeTensor("float32", {32, 32}, values));
    return run;
  };
  return DiffOk(run_of(false), run_of(true));
}

TEST(PrecisionHint, OfBothSidesThatComputedInBfloat16) {
  for (const float bias : {0.0f, 0.013f}) {
    const DiffReport report = OneStepApart(true, bias, 1);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_THAT(report.notes, Contains(HasSubstr("--compute bf16 judges by it"))) << bias;
  }
  // As many elements of numbers that are no bfloat16's are off for another reason.
  EXPECT_THAT(OneStepApart(false, 0.013f, 0.77f).notes,
              Not(Contains(HasSubstr("looks like rounding"))));
}

// 256 rows of 64 numbers, and those that `error` makes of the row and column, relative to 1.
DiffReport WithErrors(const std::function<double(int row, int column)>& error) {
  const auto run_of = [&](bool other) {
    std::vector<float> values;
    for (int row = 0; row < 256; ++row) {
      for (int column = 0; column < 64; ++column) {
        const double x = std::sin(0.7 * row * row + 1.3 * column);
        values.push_back(static_cast<float>(x + (other ? error(row, column) : 0)));
      }
    }
    FakeRun run(1);
    run.Pass(0, 0).Module("fc", Vector<float>("float32", {1, 2}),
                          MakeTensor("float32", {256, 64}, values));
    return run;
  };
  return DiffOk(run_of(false), run_of(true));
}

TEST(PrecisionHint, WhatAllRowsHaveInCommonIsABias) {
  const auto noise = [](int row, int column) { return std::sin(37.0 * row * row + 5.0 * column); };
  const auto bias = [](int, int column) { return std::sin(11.0 * column * column); };
  const auto note = Contains(HasSubstr("looks like rounding"));
  for (const double size : {1e-3, 1e-2, 0.1}) {
    SCOPED_TRACE(size);
    EXPECT_THAT(WithErrors([&](int r, int c) { return size * noise(r, c); }).notes, note);
    EXPECT_THAT(WithErrors([&](int r, int c) { return size * bias(r, c); }).notes, Not(note));
    EXPECT_THAT(
        WithErrors([&](int r, int c) { return size * (bias(r, c) + noise(r, c) / 2); }).notes,
        Not(note));
  }
}

TEST(PrecisionHint, NorDoesOneChannelBesideSmallErrorsLookLikeIt) {
  const auto noise = [](int row, int column) { return std::sin(37.0 * row * row + 5.0 * column); };
  const DiffReport report =
      WithErrors([&](int r, int c) { return (c == 3 ? 1e-2 : 1e-6) * noise(r, c); });
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(report.notes, Not(Contains(HasSubstr("looks like rounding"))));
}

// 115 dB: more than float32 explains, a hundred thousandth of what TF32 makes.
TEST(PrecisionHint, FarLessThanAPrecisionMakesIsNotOfIt) {
  const auto noise = [](int row, int column) { return std::sin(37.0 * row * row + 5.0 * column); };
  const DiffReport report = WithErrors([&](int r, int c) { return 1.8e-6 * noise(r, c); });
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(report.notes, Not(Contains(HasSubstr("looks like rounding"))));
}

// 42 dB: twice what bfloat16 explains, a hundredth of what float8 makes.
TEST(PrecisionHint, ALittleMoreThanBfloat16MakesIsNoFloat8) {
  Outcome outcome;
  SetPower(6.6e-5, &outcome);
  const DType dtype = DTypeOf("bfloat16");
  EXPECT_EQ(PrecisionLike(outcome, dtype, dtype), "");
  SetPower(2e-3, &outcome);
  EXPECT_EQ(PrecisionLike(outcome, dtype, dtype), "fp8");
}

}  // namespace
}  // namespace tdump::compare
