// Weights that nobody has computed, of a dtype whose rounding hides a lot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;

struct Codes {
  std::string dtype;
  std::vector<uint16_t> codes;

  Tensor tensor() const {
    const std::vector<int64_t> sizes = {16, static_cast<int64_t>(codes.size() / 16)};
    if (dtype != "float8_e4m3fn") return MakeTensor<uint16_t>(dtype, sizes, codes);
    return MakeTensor<uint8_t>(dtype, sizes, {codes.begin(), codes.end()});
  }
};

// Positive and negative numbers of three octaves around 1.
Codes Drawn(const std::string& dtype) {
  const uint16_t one = dtype == "bfloat16" ? 0x3F80 : dtype == "float16" ? 0x3C00 : 0x38;
  const uint16_t octave = dtype == "bfloat16" ? 0x80 : dtype == "float16" ? 0x400 : 8;
  const uint16_t sign = dtype == "float8_e4m3fn" ? 0x80 : 0x8000;
  std::mt19937 random(2);
  Codes drawn = {dtype, {}};
  for (int i = 0; i < 1024; ++i) {
    const auto code = static_cast<uint16_t>(one - octave + random() % (3 * octave));
    drawn.codes.push_back(static_cast<uint16_t>(random() % 2 == 0 ? code : code + sign));
  }
  return drawn;
}

Codes Changed(Codes codes, const std::function<void(size_t, uint16_t*)>& change) {
  for (size_t i = 0; i < codes.codes.size(); ++i) change(i, &codes.codes[i]);
  return codes;
}

struct Where {
  uint64_t step = 0;
  Role role = Role::kParam;
  std::string boundary = "optimizer (AdamW)";
};

FakeRun RunWith(const Tensor& weight, const Where& where = {}) {
  FakeRun run(1);
  run.identity(0)->boundary = where.boundary;
  PassBuilder pass = run.Pass(0, where.step);
  pass.Param("fc", "weight", weight);
  pass.last()->payload = weight.record.payload;
  pass.last()->key.role = where.role;
  const Tensor value = Vector<float>("float32", {1, 2});
  pass.Module("fc", value, value);
  return run;
}

DiffReport DiffOf(const Codes& a, const Codes& b, const Where& where = {},
                  const DiffOptions& options = {}) {
  return DiffOk(RunWith(a.tensor(), where), RunWith(b.tensor(), where), options);
}

void OneMore(size_t, uint16_t* code) { ++*code; }
void OneMoreOfOne(size_t i, uint16_t* code) { *code = static_cast<uint16_t>(*code + (i == 77)); }

TEST(GivenWeights, OneOtherElementOfACoarseDtypeFails) {
  for (const char* dtype : {"bfloat16", "float16", "float8_e4m3fn"}) {
    SCOPED_TRACE(dtype);
    const Codes codes = Drawn(dtype);
    EXPECT_EQ(DiffOf(codes, codes).overall, Overall::kSame);
    const DiffReport report = DiffOf(codes, Changed(codes, OneMoreOfOne));
    EXPECT_EQ(report.overall, Overall::kDiffers);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->kind, OriginKind::kParameter);
    EXPECT_EQ(report.origin->parameter, "fc.weight");
    EXPECT_THAT(Joined(Text(report)), HasSubstr("same dtype, not equal (1 pair)"));
    EXPECT_EQ(DiffOf(codes, Changed(codes, OneMore)).overall, Overall::kDiffers);
  }
}

// Small numbers of formats with a short exponent are subnormal.
TEST(GivenWeights, SmallNumbersMayNotBecomeZero) {
  const auto small = [](size_t i, uint16_t* code) { *code = static_cast<uint16_t>(i % 8); };
  const auto pruned = [](size_t, uint16_t* code) { *code = *code < 4 ? 0 : *code; };
  const Codes codes = Changed(Drawn("float8_e4m3fn"), small);
  EXPECT_EQ(DiffOf(codes, Changed(codes, pruned)).overall, Overall::kDiffers);
}

// Tables are computed, by each side for itself.
TEST(GivenWeights, ABufferMayBeRoundedOtherwise) {
  const Codes codes = Drawn("bfloat16"), other = Changed(codes, OneMoreOfOne);
  EXPECT_EQ(DiffOf(codes, other, {.role = Role::kState}).overall, Overall::kSame);
}

TEST(GivenWeights, AnOptimizerMayRoundOtherwise) {
  const Codes codes = Drawn("bfloat16"), other = Changed(codes, OneMoreOfOne);
  EXPECT_EQ(DiffOf(codes, other, {.step = 1}).overall, Overall::kSame);
}

// The rule that ends steps is told once: a job may evaluate first and train then.
TEST(GivenWeights, ARunThatBeganWithoutGradientsMayTrainLater) {
  const Codes codes = Drawn("bfloat16"), other = Changed(codes, OneMoreOfOne);
  const Where where = {.step = 1, .role = Role::kParam, .boundary = "forward (Net), gradients off"};
  EXPECT_EQ(DiffOf(codes, other, where).overall, Overall::kSame);
}

// One unit in the last place of a single element is a factor, and noise.
TEST(GivenWeights, OfFewElementsNoiseHasAFactorToo) {
  const auto scalar = [](uint16_t code) {
    return RunWith(MakeTensor<uint16_t>("bfloat16", {1}, {code}), {.step = 1});
  };
  EXPECT_EQ(DiffOk(scalar(0x3F80), scalar(0x3F81)).overall, Overall::kSame);
}

// Of one unit in the last place each; the bound of each element is wider.
TEST(GivenWeights, AFactorIsSeenAfterTrainingToo) {
  const auto larger = [](size_t, uint16_t* code) { *code = static_cast<uint16_t>(*code + 2); };
  const auto either = [](size_t i, uint16_t* code) {
    *code = static_cast<uint16_t>(i % 2 == 0 ? *code + 2 : *code - 2);
  };
  const Codes codes = Drawn("bfloat16");
  const DiffReport report = DiffOf(codes, Changed(codes, larger), {.step = 1});
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Joined(Text(report)), HasSubstr("B is 1.01 times A, within"));
  EXPECT_EQ(DiffOf(codes, Changed(codes, either), {.step = 1}).overall, Overall::kSame);
}

// Stored with other scales it is other numbers; nothing stores bfloat16 so.
TEST(GivenWeights, ANamedPrecisionExplainsOtherScales) {
  DiffOptions options;
  options.pass.compute = *ParsePrecision("fp8");
  const Codes fp8 = Drawn("float8_e4m3fn"), bf16 = Drawn("bfloat16");
  EXPECT_EQ(DiffOf(fp8, Changed(fp8, OneMoreOfOne), {}, options).overall, Overall::kSame);
  EXPECT_EQ(DiffOf(bf16, Changed(bf16, OneMoreOfOne), {}, options).overall, Overall::kDiffers);
}

TEST(GivenWeights, TheUserMayAllowIt) {
  DiffOptions options;
  options.pass.allow_failed = Named("fc.weight");
  const Codes codes = Drawn("bfloat16");
  const DiffReport report = DiffOf(codes, Changed(codes, OneMore), {}, options);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.allowed, 1u);
}

}  // namespace
}  // namespace tdump::compare
