// Weights that one side holds rounded: of a correct rounding nothing is said, whatever the numbers
// are; a wrong scale is named.
#include "compare/weight_gain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/rounded_weights.h"

namespace tdump::compare {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "B is 1.0035 times A, within 0.0004 explained", but for noise.
MATCHER_P(Factor, factor, "") {
  return arg.starts_with("B is ") && arg.find(" times A, within ") != std::string::npos &&
         std::abs(std::stod(arg.substr(5)) - factor) < 0.1 * std::abs(factor - 1);
}

Weight Normal(int64_t rows, int64_t columns, unsigned seed, double deviation = 0.02) {
  std::mt19937 random(seed);
  std::normal_distribution<> normal(0, deviation);
  Weight drawn = {rows, columns, Numbers(static_cast<size_t>(rows * columns))};
  for (double& x : drawn.of) x = normal(random);
  drawn.of = RoundedTo("float32", drawn.of);
  return drawn;
}

Tensor Float32(const Weight& x) { return FloatTensor("float32", x.sizes(), x.of); }
Tensor Times(const Weight& x, double factor) {
  Weight scaled = x;
  for (double& number : scaled.of) number *= factor;
  return Float32(scaled);
}

// Every kind of number that weights are made of.
constexpr int kKinds = 13;
double Drawn(int kind, double base, size_t i, std::mt19937* random) {
  std::normal_distribution<> normal;
  std::uniform_real_distribution<> uniform(-1, 1);
  const auto one_in = [&](unsigned n) { return (*random)() % n == 0; };
  switch (kind) {
    case 0:
      return base * normal(*random);
    case 1:  // long tails
      return base * std::pow(normal(*random), 5);
    case 2:
      return base * uniform(*random);
    case 3:  // all the same
      return base;
    case 4:  // nearly: of a norm
      return base * (1 + 1e-3 * uniform(*random));
    case 5:
      return base * (1 + 0.02 * normal(*random));
    case 6:
      return one_in(10) ? base * normal(*random) : 0;
    case 7:  // all others are subnormal, or 0, on the grid of the largest
      return i == 0 ? base * 1e4 : base * normal(*random);
    case 8:
      return i == 0 ? base * 1e5 : 0.4 * base * uniform(*random);
    case 9:
      return std::ldexp(one_in(2) ? 1 : -1, -static_cast<int>((*random)() % 6));
    case 10:  // few numbers
      return base * (1 + static_cast<double>((*random)() % 3)) * 0.37;
    case 11:  // one large one in each few
      return base * (i % 32 == 0 ? 30 * uniform(*random) : 0.5);
    default:
      return 0;
  }
}

Weight Draw(int kind, std::mt19937* random) {
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{1, 1},   {1, 2},   {1, 3},     {4, 1},
                                                    {1, 16},  {8, 8},   {5, 100},   {64, 48},
                                                    {1, 768}, {70, 96}, {300, 150}, {300, 151}};
  const auto& [rows, columns] = kSizes[(*random)() % std::size(kSizes)];
  constexpr double kBases[] = {1, 1.003, 0.0213, 3e-5, 0.7501, 1.94, 1e-6};
  const double base = kBases[(*random)() % std::size(kBases)];
  Weight drawn = {rows, columns, Numbers(static_cast<size_t>(rows * columns))};
  for (size_t i = 0; i < drawn.of.size(); ++i) drawn.of[i] = Drawn(kind, base, i, random);
  drawn.of = RoundedTo("float32", drawn.of);
  return drawn;
}

// Each element may be off by more than its bound has room for, in float16 next to 0: those are of
// no use here.
void ExpectSame(const Judged& judged, int* counted) {
  if (judged.outside > 0) return;
  ++*counted;
  EXPECT_EQ(judged.overall, Overall::kSame);
  EXPECT_THAT(judged.gains, IsEmpty());
}

TEST(WeightGain, NoQuantisedWeightIsBlamed) {
  int counted = 0, all = 0;
  for (unsigned seed = 0; seed < 1200; ++seed) {
    std::mt19937 random(seed);
    const int kind = static_cast<int>(seed % kKinds);
    Weight x = Draw(kind, &random);
    Quantiser how;
    constexpr const char* kDTypes[] = {"float8_e4m3fn", "float8_e5m2", "int8"};
    how.dtype = kDTypes[random() % 3];
    const bool integers = how.dtype == "int8";
    constexpr std::pair<int64_t, int64_t> kBlocks[] = {{0, 0}, {1, 0}, {128, 128}, {16, 16}};
    std::tie(how.block_rows, how.block_columns) = kBlocks[random() % 4];
    if (how.block_columns == 0 && x.columns % 32 == 0 && random() % 2 == 0) {
      how.block_rows = 1;
      how.block_columns = 32;
    }
    // Integers are held to half a step each: nothing else is correct there.
    how.scale = static_cast<ScaleKind>(random() % (integers ? 2 : 4));
    if (!integers) how.how = random() % 3 == 0 ? How::kStochastic : How::kNearest;
    // Errors with a mean of 0 are of the numbers that are rounded, those of A.
    const bool is_stochastic = how.how == How::kStochastic;
    how.in_bfloat16 = !integers && !is_stochastic && random() % 4 == 0;
    SCOPED_TRACE(fmt::format("seed {}: kind {}, {}, [{}, {}] in blocks of [{}, {}], scale {}, {}{}",
                             seed, kind, how.dtype, x.rows, x.columns, how.block_rows,
                             how.block_columns, static_cast<int>(how.scale),
                             is_stochastic ? "stochastic" : "nearest",
                             how.in_bfloat16 ? ", in bfloat16" : ""));
    const std::string compute = integers ? "int8" : how.dtype == "float8_e5m2" ? "fp8_e5m2" : "fp8";
    const bool as_bfloat16 = random() % 3 == 0;  // A's, which were rounded as well
    if (as_bfloat16 && is_stochastic) x.of = RoundedTo("bfloat16", x.of);
    const RoundedWeight q = Quantise(x, how, &random);
    const Tensor a = as_bfloat16 ? FloatTensor("bfloat16", x.sizes(), x.of) : Float32(x);
    ++all;
    ExpectSame(JudgeWeight(a, q, {.compute = compute}), &counted);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(counted, all * 9 / 10);
}

// Codes of bfloat16, as a cast or a quantiser makes them.
Tensor AsBFloat16(const Weight& x, How how, std::mt19937* random) {
  std::vector<uint16_t> codes;
  for (const double number : x.of) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
    const uint32_t more = how == How::kCut ? 0 : (*random)() & 0xFFFF;
    codes.push_back(static_cast<uint16_t>((bits + more) >> 16));
  }
  return MakeTensor<uint16_t>("bfloat16", x.sizes(), codes);
}

TEST(WeightGain, NoCastWeightIsBlamed) {
  int counted = 0, all = 0;
  for (unsigned seed = 0; seed < 800; ++seed) {
    std::mt19937 random(seed);
    const int kind = static_cast<int>(seed % kKinds);
    const Weight x = Draw(kind, &random);
    const auto cast = [&](int how) {
      switch (how) {
        case 0:
          return FloatTensor("float16", x.sizes(), x.of);
        case 1:
          return AsBFloat16(x, How::kCut, &random);
        case 2:
          return AsBFloat16(x, How::kStochastic, &random);
        case 3:  // twice
          return FloatTensor("bfloat16", x.sizes(), RoundedTo("float16", x.of));
        default:
          return FloatTensor("bfloat16", x.sizes(), x.of);
      }
    };
    const int how = static_cast<int>(random() % 6);
    SCOPED_TRACE(
        fmt::format("seed {}: kind {}, [{}, {}], cast {}", seed, kind, x.rows, x.columns, how));
    const Tensor b = cast(how);
    const Tensor a =
        how == 4 ? FloatTensor("float16", x.sizes(), x.of) : Float32(x);  // both are rounded
    ++all;
    ExpectSame(JudgeWeight(a, b, {.compute = "bf16"}), &counted);
    ExpectSame(JudgeWeight(b, a, {.compute = "bf16"}), &counted);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(counted, 2 * all * 8 / 10);
}

// Each has errors of its own, which have a mean at the other one's numbers.
TEST(WeightGain, NoTwoStochasticRoundingsAreBlamed) {
  for (unsigned seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Weight x = Normal(1024, 512, seed);
    const auto round = [&](ScaleKind scale) {
      return Quantise(
          x, {.dtype = "float8_e5m2", .block_rows = 512, .scale = scale, .how = How::kStochastic},
          &random);
    };
    const RoundedWeight a = round(ScaleKind::kAmax), b = round(ScaleKind::kNextPowerOfTwo);
    int counted = 0;
    ExpectSame(JudgeWeight(a, b, {"fp8_e5m2"}), &counted);
    ExpectSame(JudgeWeight(b, a, {"fp8_e5m2"}), &counted);
    EXPECT_EQ(counted, 2);
  }
}

// Rounding to nearest has a gain of its own in a float's grid, and of many elements it is more than
// chance: it stays excused where a few elements were rounded otherwise.
TEST(WeightGain, AFewElementsExcuseTheOthersNoLess) {
  const Weight x = Normal(1024, 1024, 5);
  std::mt19937 random(5);
  for (const char* dtype : {"float8_e4m3fn", "float8_e5m2"}) {
    for (const bool flushed : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, {}", dtype, flushed ? "subnormals are 0" : "one is moved"));
      RoundedWeight b = Quantise(x, {.dtype = dtype, .block_rows = 1}, &random);
      const int normal = dtype == std::string("float8_e5m2") ? 0x04 : 0x08;
      auto& codes = b.stored.payload;
      if (flushed) {
        for (std::byte& code : codes)
          if ((std::to_integer<int>(code) & 0x7F) < normal) code &= std::byte{0x80};
      } else {
        codes[17] = std::byte(std::to_integer<int>(codes[17]) ^ 1);
      }
      int counted = 0;
      const char* compute = normal == 0x04 ? "fp8_e5m2" : "fp8";
      ExpectSame(JudgeWeight(Float32(x), b, {compute}), &counted);
    }
  }
}

TEST(WeightGain, DigitsMayBeCutOffOfWhatIsRoundedItself) {
  const Weight x = Normal(1024, 1024, 6);
  std::mt19937 random(6);
  const Tensor half = FloatTensor("float16", x.sizes(), x.of);
  int counted = 0;
  ExpectSame(JudgeWeight(half, AsBFloat16(x, How::kCut, &random), {"bf16"}), &counted);
  for (const int rows : {1, 0}) {
    const RoundedWeight cut =
        Quantise(x, {.dtype = "float8_e4m3fn", .block_rows = rows, .how = How::kCut}, &random);
    ExpectSame(JudgeWeight(Float32(x), cut, {"fp8"}), &counted);
  }
}

// Float32 rounds by less than the numbers that a job multiplies by.
TEST(WeightGain, AFloat32CopyOfAFloat64WeightIsHeldToItsElements) {
  Weight x = Normal(256, 256, 7);
  const Tensor copy = FloatTensor("float32", x.sizes(), x.of);
  for (double& number : x.of) number *= 1 + 4e-9;
  int counted = 0;
  ExpectSame(JudgeWeight(FloatTensor("float64", x.sizes(), x.of), copy, {"bf16"}), &counted);
  EXPECT_EQ(counted, 1);
}

// Of a scale in float64, times which it was rounded to float32.
TEST(WeightGain, APowerOfTwoMayLieBelowItself) {
  const uint8_t four = 0x48;
  int below = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const double scale = std::uniform_real_distribution<>(0.001, 0.002)(random);
    below += static_cast<float>(4 * scale) < 4 * scale;
    Weight x = {32, 32, Numbers(1024, 4 * scale * (1 + 0.9 * 0x1p-4))};
    x.of.front() = 3.98 * scale;  // nothing is cut off
    const std::vector<uint8_t> codes(1024, four);
    StoredWeight b = MakeTensor<uint8_t>("float8_e4m3fn", x.sizes(), codes);
    b.scales.push_back(Vector<double>("float64", {scale}));
    int counted = 0;
    ExpectSame(JudgeWeight(Float32(x), b, {"fp8"}), &counted);
    EXPECT_EQ(counted, 1);
  }
  EXPECT_GT(below, 0);
}

// Of float8 without a scale the largest are cut off, and the smallest become 0.
TEST(WeightGain, NoFloat8WithoutAScaleIsBlamed) {
  int counted = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Weight x = Draw(static_cast<int>(seed % kKinds), &random);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const CodeTable table("float8_e4m3fn");
    const How how = seed % 2 == 0 ? How::kNearest : How::kCut;
    std::vector<uint8_t> codes;
    for (const double number : x.of) codes.push_back(table.Round(number, how, &random));
    const Tensor b = MakeTensor<uint8_t>("float8_e4m3fn", x.sizes(), codes);
    ExpectSame(JudgeWeight(Float32(x), b, {.compute = "fp8"}), &counted);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(counted, 150);
}

TEST(WeightGain, AWrongFactorOfABFloat16CopyIsNamed) {
  const Weight x = Normal(64, 64, 1);
  const Tensor copy = FloatTensor("bfloat16", x.sizes(), x.of);
  for (const char* compute : {"bf16", "fp8", "int8"}) {
    SCOPED_TRACE(compute);
    EXPECT_EQ(JudgeWeight(Float32(x), copy, {compute}).overall, Overall::kSame);
    const Judged judged = JudgeWeight(Times(x, 1.0035), copy, {compute});
    EXPECT_EQ(judged.outside, 0u);  // no element tells
    EXPECT_EQ(judged.overall, Overall::kDiffers);
    EXPECT_THAT(judged.gains, ElementsAre(Factor(1 / 1.0035)));
    EXPECT_THAT(JudgeWeight(copy, Times(x, 1.0035), {compute}).gains, ElementsAre(Factor(1.0035)));
  }
  const Tensor half = FloatTensor("float16", x.sizes(), x.of);
  EXPECT_EQ(JudgeWeight(Float32(x), half, {"bf16"}).overall, Overall::kSame);
  EXPECT_EQ(JudgeWeight(Times(x, 1.0005), half, {"bf16"}).overall, Overall::kDiffers);
}

TEST(WeightGain, AWrongScaleOfAllElementsIsNamed) {
  const Weight x = Normal(64, 128, 2);
  for (const char* dtype : {"float8_e4m3fn", "int8"}) {
    const std::string compute = dtype[0] == 'i' ? "int8" : "fp8";
    for (const int64_t block_rows : {0, 1}) {
      for (const double factor : {1.3, 1.05, 1.02, 0.98, 0.8}) {
        if (dtype[0] == 'i' && std::abs(factor - 1) > 0.03) continue;  // elements tell
        SCOPED_TRACE(fmt::format("{} {} {}", dtype, block_rows, factor));
        std::mt19937 random(3);
        RoundedWeight q = Quantise(x, {.dtype = dtype, .block_rows = block_rows}, &random);
        EXPECT_EQ(JudgeWeight(Float32(x), q, {compute}).overall, Overall::kSame);
        for (float& scale : q.scales) scale *= static_cast<float>(factor);
        const Judged judged = JudgeWeight(Float32(x), q, {compute});
        EXPECT_EQ(judged.overall, Overall::kDiffers);
        if (judged.outside > 0) continue;
        EXPECT_THAT(judged.gains, ElementsAre(Factor(factor)));
      }
    }
  }
}

TEST(WeightGain, AWrongScaleOfOneBlockIsNamed) {
  const Weight x = Normal(256, 192, 4);
  std::mt19937 random(5);
  RoundedWeight blocks =
      Quantise(x, {.dtype = "float8_e4m3fn", .block_rows = 64, .block_columns = 64}, &random);
  ASSERT_EQ(blocks.scales.size(), 12u);
  blocks.scales[7] *= 1.1f;
  const Judged judged = JudgeWeight(Float32(x), blocks, {"fp8"});
  EXPECT_EQ(judged.outside, 0u);
  EXPECT_EQ(judged.overall, Overall::kDiffers);
  EXPECT_THAT(judged.gains, ElementsAre(HasSubstr("explained: 4,096 elements of scale 7 of 12")));
  EXPECT_THAT(judged.gains, ElementsAre(Factor(1.1)));
  blocks.scales[2] *= 0.9f;
  EXPECT_THAT(JudgeWeight(Float32(x), blocks, {"fp8"}).gains,
              ElementsAre(HasSubstr("of 12, and 1 scale more")));
}

// Half a step of the largest scale is many of a row's own.
TEST(WeightGain, AWrongScaleOfASmallRowIsNamed) {
  Weight x = Normal(16, 256, 6);
  for (size_t i = 0; i < 256; ++i) x.of[3 * 256 + i] /= 50;
  x.of = RoundedTo("float32", x.of);
  std::mt19937 random(7);
  RoundedWeight q = Quantise(x, {.dtype = "int8", .block_rows = 1}, &random);
  EXPECT_EQ(JudgeWeight(Float32(x), q, {"int8"}).overall, Overall::kSame);
  q.scales[3] *= 1.1f;
  const Judged judged = JudgeWeight(Float32(x), q, {"int8"});
  EXPECT_EQ(judged.outside, 0u);
  EXPECT_THAT(judged.gains, ElementsAre(HasSubstr("256 elements of scale 3 of 16")));
  EXPECT_EQ(judged.overall, Overall::kDiffers);
}

// The dtypes differ then anyhow; of the values it is known all the same.
TEST(WeightGain, IsToldWithoutAPrecisionToo) {
  const Weight x = Normal(64, 64, 8);
  const Judged judged = JudgeWeight(Times(x, 1.0035), FloatTensor("bfloat16", x.sizes(), x.of), {});
  EXPECT_EQ(judged.tolerance, Answer::kDiffers);
  EXPECT_THAT(judged.gains, ElementsAre(Factor(1 / 1.0035)));
}

// An optimizer, or each side for itself, made these.
TEST(WeightGain, WhatWasComputedMayHaveOne) {
  const Weight x = Normal(64, 64, 9);
  const Tensor copy = FloatTensor("bfloat16", x.sizes(), x.of), a = Times(x, 1.0035);
  EXPECT_EQ(JudgeWeight(a, copy, {"bf16", 1}).overall, Overall::kSame);
  EXPECT_EQ(JudgeWeight(a, copy, {"bf16", 0, Role::kState}).overall, Overall::kSame);
}

// Of the ranks' own scales nothing is known once they are put together.
TEST(WeightGain, OfShardsTheWholeIsHeldToALargerOne) {
  const Weight x = Normal(64, 128, 10);
  const auto diff = [&](float factor) {
    FakeRun a(1), b(2);
    const Tensor value = Vector<float>("float32", {1, 2});
    PassBuilder whole = a.Pass(0, 0);
    KeepWeight(&whole, "weight", Float32(x));
    whole.Module("lin", value, value);
    for (int32_t rank = 0; rank < 2; ++rank) {
      const auto begin = x.of.begin() + rank * 32 * 128;
      const Weight part = {32, 128, Numbers(begin, begin + 32 * 128)};
      std::mt19937 random(11);
      RoundedWeight q = Quantise(part, {.dtype = "float8_e4m3fn"}, &random);
      for (float& scale : q.scales) scale *= factor;
      PassBuilder pass = b.Pass(rank, 0);
      KeepWeight(&pass, "weight", q.stored);
      KeepWeight(&pass, "weight_scale", q.Scales(), Role::kState);
      pass.Module("lin", value, value);
    }
    DiffOptions options = WithDims("lin.weight", "o[rank] i");
    options.pass.compute = *ParsePrecision("fp8");
    return DiffOk(a, b, options);
  };
  EXPECT_EQ(diff(1).overall, Overall::kSame);
  const DiffReport report = diff(1.3f);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Joined(Text(report, 1, 2)),
              ContainsRegex("B is 1\\.(3|29|30)[0-9]* times A, within "));
}

TEST(WeightGain, IsTheSameForAnyNumberOfThreads) {
  const Weight x = Normal(2100, 1000, 12);  // three pieces
  const Tensor a = Times(x, 1.002), b = FloatTensor("bfloat16", x.sizes(), x.of);
  const auto find = [&](unsigned threads) {
    const auto side = [](const Tensor& tensor) {
      Operand numbers = tensor.operand();
      numbers.open = [&tensor]() -> Result<ReadBytes> { return FromMemory(tensor.payload); };
      return RoundedSide{numbers, FormatOf(tensor.record.dtype), nullptr};
    };
    return *FindWrongGain(side(a), side(b), 0, threads);
  };
  const auto one = find(1), three = find(3);
  ASSERT_TRUE(one && three);
  EXPECT_EQ(one->factor, three->factor);
  EXPECT_EQ(one->explained, three->explained);
  EXPECT_EQ(one->elements, x.of.size());
}

// Of a scale for so many elements that is too large, or a factor on A's where B has none; the other
// scales are right, and of integers eight times as large.
Overall DiffOfFactor(const std::string& dtype, int64_t elements, double factor, unsigned seed) {
  if (dtype == "float16" || dtype == "bfloat16") {
    const Weight x = Normal(1, elements, seed);
    return JudgeWeight(Times(x, factor), FloatTensor(dtype, x.sizes(), x.of), {"bf16"}).overall;
  }
  Weight x = Normal(2, elements, seed);
  for (int64_t i = elements; i < 2 * elements; ++i) x.of[static_cast<size_t>(i)] *= 8;
  std::mt19937 random(seed);
  RoundedWeight rounded = Quantise(x, {.dtype = dtype, .block_rows = 1}, &random);
  rounded.scales.front() *= static_cast<float>(factor);
  return JudgeWeight(Float32(x), rounded, {dtype == "int8" ? "int8" : "fp8_e5m2"}).overall;
}

// The table of docs/compare.md: the smallest factor tried that is found for 10 of 10 draws.
TEST(WeightGain, FindsTheFactorsThatTheDocumentationNames) {
  constexpr double kTried[] = {1.0002, 1.0005, 1.001, 1.002, 1.005, 1.01, 1.02,
                               1.03,   1.05,   1.1,   1.2,   1.3,   1.5};
  const auto smallest = [&](const char* dtype, int64_t elements) {
    const auto* found = std::find_if(std::begin(kTried), std::end(kTried), [&](double factor) {
      for (unsigned seed = 0; seed < 10; ++seed)
        if (DiffOfFactor(dtype, elements, factor, seed) != Overall::kDiffers) return false;
      return true;
    });
    return found == std::end(kTried) ? 0 : *found;
  };
  const auto of_sizes = [&](const char* dtype) {
    return std::vector<double>{smallest(dtype, 64), smallest(dtype, 1024), smallest(dtype, 16384)};
  };
  EXPECT_THAT(of_sizes("float16"), ElementsAre(1.001, 1.0002, 1.0002));
  EXPECT_THAT(of_sizes("bfloat16"), ElementsAre(1.005, 1.002, 1.0005));
  EXPECT_THAT(of_sizes("float8_e4m3fn"), ElementsAre(1.1, 1.03, 1.01));
  EXPECT_THAT(of_sizes("float8_e5m2"), ElementsAre(1.2, 1.1, 1.03));
  EXPECT_THAT(of_sizes("int8"), ElementsAre(1.02, 1.01, 1.01));
}

}  // namespace
}  // namespace tdump::compare
