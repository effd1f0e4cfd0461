// Whole diffs of a float32 weight against the integers it was rounded to, with their scales.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

using testing::Not;

constexpr int kRows = 8, kColumns = 64;

struct Quantised {
  std::vector<float> numbers, scales;  // a scale of each row
  std::vector<int8_t> integers;

  explicit Quantised(float most = 127) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (int i = 0; i < kRows * kColumns; ++i) numbers.push_back(0.05f * normal(random));
    for (int row = 0; row < kRows; ++row) {
      const float* x = &numbers[static_cast<size_t>(row * kColumns)];
      float largest = 0;
      for (int i = 0; i < kColumns; ++i) largest = std::max(largest, std::abs(x[i]));
      scales.push_back(largest / most);
      for (int i = 0; i < kColumns; ++i)
        integers.push_back(static_cast<int8_t>(std::lround(x[i] / scales.back())));
    }
  }
};

void Keep(PassBuilder* pass, const std::string& name, const Tensor& tensor) {
  pass->Param("lin", name, tensor);
  pass->last()->payload = tensor.record.payload;
}

struct Told {
  DiffReport report;
  std::vector<std::string> notes;  // of the weight
  uint64_t outside = 0;
};

Told DiffOf(const Quantised& q, const char* compute, const std::string& dtype = "int8",
            bool scales_have_values = true) {
  FakeRun a(1), b(1);
  PassBuilder left = a.Pass(0, 0), right = b.Pass(0, 0);
  const Tensor x = Vector<float>("float32", {1, 2});
  left.Module("lin", x, x);
  right.Module("lin", x, x);
  Keep(&left, "weight", MakeTensor<float>("float32", {kRows, kColumns}, q.numbers));
  Keep(&right, "weight", MakeTensor<int8_t>(dtype, {kRows, kColumns}, q.integers));
  Keep(&right, "weight_scale", MakeTensor<float>("float32", {kRows, 1}, q.scales));
  right.last()->key.role = Role::kState;
  if (!scales_have_values) right.last()->payload.reset();
  DiffOptions options;
  if (compute != nullptr) options.pass.compute = *ParsePrecision(compute);
  Told told;
  options.on_row = [&](const Row& row) {
    if (row.key.arg != "weight") return;
    told.notes = row.comparison.notes.Copy();
    told.outside = Metrics(row.comparison.metrics).outside();
  };
  told.report = DiffOk(a, b, options);
  return told;
}

TEST(QuantisedDiff, IntegersAreWithinHalfAStepOfTheirScale) {
  const Quantised q;
  for (const char* dtype : {"int8", "qint8"}) {
    for (const char* compute : {"int8", "fp8", "int4"}) {
      const Told told = DiffOf(q, compute, dtype);
      EXPECT_EQ(told.report.overall, Overall::kSame) << dtype << " " << compute;
      EXPECT_EQ(told.outside, 0u);
    }
    EXPECT_EQ(DiffOf(q, "bf16", dtype).report.overall, Overall::kDiffers);
  }
}

TEST(QuantisedDiff, AWrongScaleIsFound) {
  Quantised all, one;
  for (float& scale : all.scales) scale *= 2;
  one.scales[3] *= 1.1f;
  for (const char* compute : {"int8", "int4"}) {
    EXPECT_EQ(DiffOf(all, compute).report.overall, Overall::kDiffers);
    EXPECT_EQ(DiffOf(one, compute).report.overall, Overall::kDiffers);
  }
  // The other rows are within.
  const uint64_t outside = DiffOf(one, "int8").outside;
  EXPECT_GT(outside, 0u);
  EXPECT_LE(outside, static_cast<uint64_t>(kColumns));
}

TEST(QuantisedDiff, OneWrongIntegerIsFound) {
  Quantised q;
  q.integers[100] = static_cast<int8_t>(q.integers[100] + 2);
  EXPECT_EQ(DiffOf(q, "int8").report.overall, Overall::kDiffers);
  EXPECT_EQ(DiffOf(q, "int8").outside, 1u);
}

TEST(QuantisedDiff, WithoutAPrecisionTheDtypeDiffersAndTheWordIsSaid) {
  const Quantised q;
  for (const char* compute : {static_cast<const char*>(nullptr), "bf16"}) {
    const Told told = DiffOf(q, compute, "qint8");
    EXPECT_EQ(told.report.overall, Overall::kDiffers);
    EXPECT_THAT(told.notes, ElementsAre(HasSubstr("B dequantised from qint8, per block"),
                                        "dtype differs, float32 against qint8; "
                                        "--compute int8 compares the values"));
  }
  // Four bits have steps 16 times as large.
  const Quantised four(7);
  EXPECT_THAT(DiffOf(four, "int8", "int4").notes, Contains(HasSubstr("--compute int4 compares")));
  EXPECT_EQ(DiffOf(four, "int4", "int4").report.overall, Overall::kSame);
}

// Three weights and their scales.
FakeRun Weights(const std::string& dtype, uint8_t pattern) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  const std::vector<uint8_t> bytes(static_cast<size_t>(kRows * kColumns), pattern);
  for (const char* module : {"a", "b", "c"}) {
    for (const bool of_scale : {false, true}) {
      const Tensor tensor =
          of_scale ? MakeTensor<float>("float32", {kRows, 1}, std::vector<float>(kRows, 2))
                   : MakeTensor<uint8_t>(dtype, {kRows, kColumns}, bytes);
      pass.Param(module, of_scale ? "weight_scale" : "weight", tensor);
      pass.last()->payload = tensor.record.payload;
    }
  }
  return run;
}

TEST(QuantisedDiff, TheHeadNamesTheDtypeThatIsStored) {
  const DiffReport report =
      DiffOk(Weights("int8", 3), Weights("float8_e4m3fn", 0x44));  // 3 in both
  EXPECT_EQ(report.dtype_a, "int8");
  EXPECT_EQ(report.dtype_b, "float8_e4m3fn");
  EXPECT_THAT(Text(report), HasSubstr("float8_e4m3fn   step 0"));
  EXPECT_THAT(report.signature,
              Contains("3 of 3 parameters of another dtype: A int8, B float8_e4m3fn"));
  EXPECT_EQ(report.counts.tolerance, 0u);
}

TEST(QuantisedDiff, AScaleWithoutValuesIsNamed) {
  const Quantised q;
  EXPECT_THAT(DiffOf(q, "int8").report.notes, Not(Contains(HasSubstr("not dequantised"))));
  const Told told = DiffOf(q, "int8", "int8", false);
  EXPECT_EQ(told.report.overall, Overall::kDiffers);
  EXPECT_THAT(told.notes,
              ElementsAre("B is not dequantised, as no values of its scale were recorded: "
                          "lin.weight_scale; capture {role: [param, state], level: full}"));
  EXPECT_THAT(told.report.notes,
              Contains("B is not dequantised, as no values of its scale were recorded (1 pair), "
                       "first lin.weight_scale; capture {role: [param, state], level: full}"));
}

}  // namespace
}  // namespace tdump::compare
