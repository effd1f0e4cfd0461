// Whole diffs of runs that computed in a lower precision.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "compare/diff.h"
#include "compare/report.h"
#include "tests/compare/fake_run.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kCount = 1 << 14;
constexpr int kModules = 8;

using Numbers = std::vector<float>;

Numbers Normal(std::mt19937* random) {
  std::normal_distribution<float> normal;
  Numbers numbers(kCount);
  for (float& x : numbers) x = normal(*random);
  return numbers;
}
// With noise of a signal-to-error ratio of `db`.
Numbers Noisy(Numbers numbers, double db, std::mt19937* random) {
  std::normal_distribution<float> normal(0, static_cast<float>(std::pow(10, -db / 20)));
  for (float& x : numbers) x += normal(*random);
  return numbers;
}
Numbers Times(Numbers numbers, float factor) {
  for (float& x : numbers) x *= factor;
  return numbers;
}
Tensor Of(const Numbers& numbers) {
  return MakeTensor<float>("float32", {64, static_cast<int64_t>(kCount / 64)}, numbers);
}

// Two runs of LayerNorms in a row, B with noise of `db`, and `fault` on what the fifth returns and
// all that follows.
struct Runs {
  FakeRun a{1}, b{1};
  Runs(double db, const std::function<Numbers(Numbers)>& fault, bool with_inputs = true) {
    std::mt19937 random(11);
    PassBuilder left = a.Pass(0, 0), right = b.Pass(0, 0);
    Tensor in_a = Of(Normal(&random)), in_b = in_a;
    for (int i = 0; i < kModules; ++i) {
      const Numbers numbers = Normal(&random);
      Numbers other = Noisy(numbers, db, &random);
      if (fault && i >= 4) other = fault(other);
      const Tensor out_a = Of(numbers), out_b = Of(other);
      Add(&left, i, in_a, out_a, with_inputs);
      Add(&right, i, in_b, out_b, with_inputs);
      in_a = out_a;
      in_b = out_b;
    }
  }
  static void Add(PassBuilder* pass, int i, const Tensor& in, const Tensor& out, bool with_inputs) {
    const std::string name = "norm" + std::to_string(i);
    std::vector<PassBuilder::Argument> inputs;
    if (with_inputs) inputs.push_back({"0", in});
    pass->End(pass->Begin(name, "", inputs), name, "", {{"", out}});
    pass->last()->cls = "torch.nn.LayerNorm";
  }
  DiffReport Diff(const char* compute = "bf16") const {
    DiffOptions options;
    if (compute != nullptr) options.pass.compute = *ParsePrecision(compute);
    const auto report = compare::Diff(a.side(), b.side(), options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return *report;
  }
};

TEST(LossyDiff, ARunWithoutAFaultIsTheSame) {
  const Runs runs(52, nullptr);
  EXPECT_EQ(runs.Diff("bf16").overall, Overall::kSame);
  EXPECT_EQ(runs.Diff("fp8").overall, Overall::kSame);
  EXPECT_EQ(runs.Diff("fp16").overall, Overall::kDiffers);
  EXPECT_EQ(runs.Diff(nullptr).overall, Overall::kDiffers);
}

TEST(LossyDiff, AFactorMakesItsOperatorTheOrigin) {
  for (const float factor : {1.05f, 0.95f, 1.01f}) {
    const DiffReport report =
        Runs(52, [&](const Numbers& numbers) { return Times(numbers, factor); }).Diff();
    EXPECT_EQ(report.overall, Overall::kDiffers) << factor;
    ASSERT_TRUE(report.origin) << factor;
    EXPECT_EQ(report.origin->name, "norm4") << factor;
    EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
    EXPECT_TRUE(report.origin->certain);
    EXPECT_EQ(report.counts.failing, 4u + 3u);  // outputs 4 to 7, and three of them as inputs
    EXPECT_FALSE(report.first_bits);
  }
}

// Every number of B twice that of A; the inputs are equal. One more in the exponent of each.
TEST(LossyDiff, AFactorIsFoundWithoutAPrecisionToo) {
  const auto differs = [](const std::string& dtype, uint8_t one_more, const char* compute) {
    std::mt19937 random(7);
    std::vector<uint8_t> numbers, twice;
    for (int i = 0; i < 512; ++i) {
      numbers.push_back(static_cast<uint8_t>(0x38 + random() % 16));
      twice.push_back(static_cast<uint8_t>(numbers.back() + one_more));
    }
    FakeRun a(1), b(1);
    const Tensor in = Vector<float>("float32", {1, 2});
    a.Pass(0, 0).Module("q", in, MakeTensor<uint8_t>(dtype, {8, 64}, numbers));
    b.Pass(0, 0).Module("q", in, MakeTensor<uint8_t>(dtype, {8, 64}, twice));
    DiffOptions options;
    if (compute != nullptr) options.pass.compute = *ParsePrecision(compute);
    return Diff(a.side(), b.side(), options)->overall == Overall::kDiffers;
  };
  EXPECT_TRUE(differs("float8_e5m2", 4, nullptr));
  EXPECT_TRUE(differs("float8_e4m3fn", 8, nullptr));
  EXPECT_TRUE(differs("float8_e8m0fnu", 1, nullptr));
  EXPECT_TRUE(differs("float8_e8m0fnu", 1, "fp8"));  // by its gain
}

TEST(LossyDiff, TheGrowthOfTheErrorIsTold) {
  const DiffReport report =
      Runs(52, [](const Numbers& numbers) { return Times(numbers, 1.05f); }).Diff();
  ASSERT_EQ(report.growth.points.size(), static_cast<size_t>(kModules));
  const GrowthPoint &good = report.growth.points[3], &bad = report.growth.points[4],
                    &later = report.growth.points[5];
  EXPECT_EQ(bad.name, "norm4");
  EXPECT_NEAR(good.out_db, 52, 0.2);
  EXPECT_NEAR(bad.in_db, 52, 0.2);
  EXPECT_NEAR(bad.out_db, 26, 0.2);       // 20 log10(1 / 0.05)
  EXPECT_NEAR(bad.bound_db, 31.85, 0.2);  // 20 dB less than what goes in, and roundings
  EXPECT_FALSE(good.fails);
  EXPECT_TRUE(bad.fails);
  EXPECT_FALSE(bad.follows);
  EXPECT_TRUE(later.fails);
  EXPECT_TRUE(later.follows);
  // Without an origin: of the first pass.
  EXPECT_EQ(Runs(52, nullptr).Diff().growth.points.size(), static_cast<size_t>(kModules));
}

TEST(LossyDiff, WithoutInputsTheOperatorIsNamedAndSaidToBeUncertain) {
  const DiffReport report =
      Runs(
          52, [](const Numbers& numbers) { return Times(numbers, 1.3f); }, false)
          .Diff();
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "norm4");
  EXPECT_FALSE(report.origin->certain);
}

// One pass with a weight of one module, kept in full, and three modules whose outputs agree.
FakeRun WithWeight(const Numbers& weight, const Tensor& last) {
  FakeRun run(1);
  std::mt19937 random(5);
  PassBuilder pass = run.Pass(0, 0);
  const Tensor tensor = Of(weight);
  pass.Param("norm1", "weight", tensor);
  pass.last()->payload = tensor.record.payload;
  Tensor in = Of(Normal(&random));
  for (int i = 0; i < 3; ++i) {
    const Tensor out = i == 2 ? last : Of(Normal(&random));
    pass.Module("norm" + std::to_string(i), in, out);
    in = out;
  }
  return run;
}

TEST(LossyDiff, OneChangedElementOfAWeightIsNamedEvenWhereOutputsAgree) {
  std::mt19937 random(3);
  const Numbers weight = Normal(&random);
  Numbers changed = weight;
  changed[77] += 0.5f;
  const Tensor last = Of(Normal(&random));
  const FakeRun a = WithWeight(weight, last), b = WithWeight(changed, last);
  DiffOptions options;
  options.pass.compute = *ParsePrecision("bf16");
  const auto report = Diff(a.side(), b.side(), options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->overall, Overall::kDiffers);
  ASSERT_TRUE(report->origin);
  EXPECT_EQ(report->origin->kind, OriginKind::kParameter);
  EXPECT_EQ(report->origin->parameter, "norm1.weight");
}

TEST(LossyDiff, AWeightOutsideItsBoundComesBeforeALaterOutput) {
  std::mt19937 random(3);
  const Numbers weight = Normal(&random), last = Normal(&random);
  Numbers changed = weight;
  changed[77] += 0.5f;
  const FakeRun a = WithWeight(weight, Of(last)), b = WithWeight(changed, Of(Times(last, 2)));
  const auto report = Diff(a.side(), b.side(), {});
  ASSERT_TRUE(report.ok());
  ASSERT_TRUE(report->origin);
  EXPECT_EQ(report->origin->kind, OriginKind::kParameter);
  EXPECT_EQ(report->origin->parameter, "norm1.weight");
}

TEST(LossyDiff, WeightsRoundedToThePrecisionAgree) {
  // bfloat16 keeps the upper 16 bits.
  std::mt19937 random(3);
  const Numbers weight = Normal(&random);
  std::vector<uint16_t> rounded;
  for (const float x : weight) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    rounded.push_back(static_cast<uint16_t>((bits + 0x8000) >> 16));
  }
  const Tensor last = Of(Normal(&random));
  const FakeRun a = WithWeight(weight, last);
  FakeRun b(1);
  std::mt19937 again(5);
  PassBuilder pass = b.Pass(0, 0);
  const Tensor tensor =
      MakeTensor<uint16_t>("bfloat16", {64, static_cast<int64_t>(kCount / 64)}, rounded);
  pass.Param("norm1", "weight", tensor);
  pass.last()->payload = tensor.record.payload;
  Tensor in = Of(Normal(&again));
  for (int i = 0; i < 3; ++i) {
    const Tensor out = i == 2 ? last : Of(Normal(&again));
    pass.Module("norm" + std::to_string(i), in, out);
    in = out;
  }
  DiffOptions options;
  const auto without = Diff(a.side(), b.side(), options);
  EXPECT_EQ(without->overall, Overall::kDiffers);
  EXPECT_EQ(without->counts.dtype, 1u);
  EXPECT_THAT(without->notes, testing::Contains(HasSubstr("--compute bf16 compares the values")));
  options.pass.compute = *ParsePrecision("bf16");
  const auto with = Diff(a.side(), b.side(), options);
  EXPECT_EQ(with->overall, Overall::kSame);
  EXPECT_EQ(with->counts.dtype, 1u);
  EXPECT_EQ(with->parameters.differing_names, 0u);
}

// What agrees says by which bounds, and what came closest to its own.
TEST(LossyDiff, ReportsThatSaySameSayByWhichBounds) {
  std::mt19937 random(5);
  FakeRun a(1), b(1);
  PassBuilder left = a.Pass(0, 0), right = b.Pass(0, 0);
  const Numbers in = Normal(&random);
  std::vector<Row> rows;
  for (const auto& [name, db] : {std::pair("far", 70.0), std::pair("near", 50.0)}) {
    const Numbers out = Normal(&random);
    left.Module(name, Of(in), Of(out));
    right.Module(name, Of(in), Of(Noisy(out, db, &random)));
  }
  const Numbers weight(kCount, 1), rounded(kCount, 1 + 0x1p-23f);
  for (auto [pass, numbers] : {std::pair(&left, &weight), std::pair(&right, &rounded)}) {
    pass->Param("far", "weight", Of(*numbers));
    pass->last()->payload = io::PayloadRef{.stored_bytes = 4 * kCount, .logical_bytes = 4 * kCount};
  }
  DiffOptions options;
  options.pass.compute = *ParsePrecision("bf16");
  options.on_row = [&](const Row& row) {
    if (row.explanation) rows.push_back(row);
  };
  const auto report = Diff(a.side(), b.side(), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->overall, Overall::kSame);
  ASSERT_EQ(rows.size(), 2u);
  const BoundsUsed& bounds = report->bounds;
  EXPECT_EQ(bounds.pairs, 2u);
  const double far = DbOf(rows[0].explanation->bound.power),
               near = DbOf(rows[1].explanation->bound.power);
  EXPECT_EQ(bounds.least_db, std::min(far, near));
  EXPECT_EQ(bounds.most_db, std::max(far, near));
  ASSERT_TRUE(bounds.closest);
  EXPECT_EQ(bounds.closest->row.name, "near");
  EXPECT_NEAR(bounds.closest->error_db, 50, 0.5);
  EXPECT_EQ(bounds.closest->bound_db, near);
  EXPECT_EQ(bounds.other_pairs, 1u);  // the weight

  const auto text = RenderText(*report, {.label = "a"}, {.label = "b"}, false, Style(false));
  EXPECT_THAT(text, HasSubstr(fmt::format(
                        "\nbounds    2 pairs of other bits, within what is explained: {:.1f} to "
                        "{:.1f} dB\n          closest: rank 0, step 0, near, output: {:.1f} dB, "
                        "{:.1f} explained\n          1 pair of other bits, within ",
                        bounds.least_db, bounds.most_db, bounds.closest->error_db, near)));
  const std::string json = RenderJson(*report, {}, {}, false);
  EXPECT_THAT(json, HasSubstr(R"("bounds": {)"));
  EXPECT_THAT(json, HasSubstr(R"("least_db": )"));

  // Where all bits are equal no bound was used.
  const auto same = Diff(a.side(), a.side(), options);
  ASSERT_TRUE(same.ok());
  EXPECT_THAT(RenderText(*same, {}, {}, false, Style(false)), testing::Not(HasSubstr("\nbounds ")));
  EXPECT_THAT(RenderJson(*same, {}, {}, false), HasSubstr(R"("bounds": null)"));
}

}  // namespace
}  // namespace tdump::compare
