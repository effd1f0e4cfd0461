// Tensors in which a mask, or what else is equal and far beyond the rest, would make any error next
// to nothing.
#include "compare/huge_elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/compare/builders.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const Bound kBound = {.relative = 1e-6, .scale = 1e-6};

// Every other one of 64 elements is `mask`, the others are `value`.
template <class T>
Tensor Masked(const std::string& dtype, T mask, T value) {
  std::vector<T> values;
  for (int i = 0; i < 64; ++i) values.push_back(i % 2 == 0 ? mask : value);
  return Vector<T>(dtype, values);
}

void ExpectOthersAlone(const Metrics& m, double factor) {
  EXPECT_EQ(m.compared, 32u);
  EXPECT_EQ(m.elements, 64u);
  EXPECT_EQ(m.outside(), 32u);
  EXPECT_EQ(m.bits_equal, 32u);
  EXPECT_EQ(m.ulp[0], 0u);
  EXPECT_NEAR(m.rms_a, 1, 1e-12);
  EXPECT_NEAR(m.rms_b, factor, 1e-12);
  EXPECT_NEAR(m.mean_abs, factor - 1, 1e-12);
  EXPECT_NEAR(m.rmse, factor - 1, 1e-12);
  EXPECT_NEAR(*m.sqnr_db, -20 * std::log10(factor - 1), 1e-9);
  EXPECT_NEAR(m.p50, factor - 1, (factor - 1) / 64);
}

TEST(HugeElements, AMaskSaysNothingOfTheOthers) {
  for (const float mask : {std::numeric_limits<float>::lowest(), -1e9f, -1e4f, 1e30f})
    ExpectOthersAlone(MeasureOk(Masked<float>("float32", mask, 1),
                                Masked<float>("float32", mask, 1.125f), kBound),
                      1.125);
  for (const double mask : {-1e300, 1e9})
    ExpectOthersAlone(MeasureOk(Masked<double>("float64", mask, 1),
                                Masked<double>("float64", mask, 1.125), kBound),
                      1.125);
  // The lowest numbers, 1 and 1.125.
  ExpectOthersAlone(MeasureOk(Masked<uint16_t>("float16", 0xFBFF, 0x3C00),
                              Masked<uint16_t>("float16", 0xFBFF, 0x3C80), kBound),
                    1.125);
  ExpectOthersAlone(MeasureOk(Masked<uint16_t>("bfloat16", 0xFF7F, 0x3F80),
                              Masked<uint16_t>("bfloat16", 0xFF7F, 0x3F90), kBound),
                    1.125);
}

TEST(HugeElements, BesideSpecialValuesAndInAnyNumberOfThreads) {
  constexpr size_t kCount = 1'000'000;
  std::vector<float> left(kCount, 1), right(kCount, 1.125f);
  left[0] = right[0] = std::numeric_limits<float>::infinity();
  left[5] = right[5] = left[kCount - 1] = right[kCount - 1] = 1e30f;
  const Tensor a = Vector<float>("float32", left), b = Vector<float>("float32", right);
  Operand of_a = a.operand(), of_b = b.operand();
  of_a.open = [&] { return Result<ReadBytes>(FromMemory(a.payload)); };
  of_b.open = [&] { return Result<ReadBytes>(FromMemory(b.payload)); };
  for (const unsigned threads : {1u, 3u}) {
    const Result<Metrics> m = Measure(of_a, of_b, kBound, threads);
    ASSERT_TRUE(m.ok());
    EXPECT_EQ(m->compared, kCount - 3);
    EXPECT_EQ(m->outside(), kCount - 3);
    EXPECT_EQ(m->bits_equal, 3u);
    EXPECT_NEAR(m->rms_a, 1, 1e-12);
  }
}

// Everything counts in these.
TEST(HugeElements, WhatIsNotFarBeyondOrNotEqualCounts) {
  const auto compared = [](float large_a, float large_b, float a, float b) {
    return MeasureOk(Masked<float>("float32", large_a, a), Masked<float>("float32", large_b, b))
        .compared;
  };
  EXPECT_EQ(compared(1e9f, 1e9f, 1, 1.125f), 32u);
  EXPECT_EQ(compared(1e9f, 1.0000001e9f, 1, 1.125f), 64u);  // not equal
  EXPECT_EQ(compared(1000, 1000, 1, 1.125f), 64u);          // not far beyond
  EXPECT_EQ(compared(1, 1, 1e-9f, 2e-9f), 64u);             // what saturates
  EXPECT_EQ(compared(1e9f, 1e9f, 1, 1), 64u);               // no error
  // Between them a magnitude that joins them, as of numbers of all sizes.
  std::vector<float> left, right;
  for (int i = 0; i < 64; ++i) {
    left.push_back(std::ldexp(1.0f, i / 2));
    right.push_back(i < 20 ? left.back() * 1.125f : left.back());
  }
  EXPECT_EQ(MeasureOk(Vector<float>("float32", left), Vector<float>("float32", right)).compared,
            64u);
}

// What is left of sums that cancel is small beside the others.
TEST(HugeElements, AFewSmallOnesAreNoReason) {
  for (const size_t small : {15, 16}) {
    std::vector<float> left(64, 5000), right = left;
    for (size_t i = 0; i < small; ++i) {
      left[i] = 0.001f;
      right[i] = 0.002f;
    }
    const Metrics m = MeasureOk(Vector<float>("float32", left), Vector<float>("float32", right));
    EXPECT_EQ(m.compared, small < kLeastOthers ? 64u : small);
  }
}

FakeRun ScoresOf(float (*score)(int)) {
  std::vector<float> scores;
  for (int i = 0; i < 256; ++i) {
    const bool masked = i % 16 > i / 16;
    scores.push_back(masked ? std::numeric_limits<float>::lowest() : score(i));
  }
  FakeRun run(1);
  run.Pass(0, 0).Module("scores", Vector<float>("float32", {1, 2}),
                        MakeTensor<float>("float32", {16, 16}, scores));
  return run;
}

float Score(int i) { return static_cast<float>(3 * std::sin(0.7 * i * i)); }

TEST(HugeElements, MaskedScoresThatDifferAreFound) {
  const FakeRun a = ScoresOf(Score);
  for (const auto other : {+[](int i) { return Score(i + 1); }, +[](int i) { return -Score(i); },
                           +[](int i) { return 1.001f * Score(i); }, +[](int) { return 0.0f; }}) {
    const DiffReport report = DiffOk(a, ScoresOf(other));
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_THAT(report.notes,
                Contains("equal elements far beyond all others (a mask) do not count (1 pair)"));
  }
}

TEST(HugeElements, MaskedScoresThatAreRoundedOtherwiseAreTheSame) {
  const FakeRun a = ScoresOf(Score);
  const FakeRun b = ScoresOf([](int i) { return Score(i) * (i % 3 == 0 ? 1 + 0x1p-23f : 1); });
  EXPECT_EQ(DiffOk(a, b).overall, Overall::kSame);
  EXPECT_THAT(DiffOk(a, a).notes, IsEmpty());
}

}  // namespace
}  // namespace tdump::compare
