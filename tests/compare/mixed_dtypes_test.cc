// Two dtypes that vectors read as they lie, against the same numbers in one.
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compare/element.h"
#include "compare/metrics.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

// A tensor of finite numbers, and the same in float64.
struct Side {
  Tensor stored, decoded;
};

Side RandomSide(const std::string& dtype, const std::vector<int64_t>& sizes,
                std::mt19937_64* random) {
  std::normal_distribution<float> normal;
  const size_t count = static_cast<size_t>(sizes[0] * sizes[1]);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(*random);
  std::vector<std::byte> bytes(count * DTypeOf(dtype).unit_bytes());
  for (size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(numbers[i]);
    // float16: exponents of its range, and any mantissa.
    const uint32_t half = (bits >> 16 & 0x8000) | (12 + bits % 8) << 10 | (bits >> 13 & 0x3FF);
    const uint32_t pattern = dtype == "float32" ? bits : dtype == "float16" ? half : bits >> 16;
    std::memcpy(bytes.data() + i * (bytes.size() / count), &pattern, bytes.size() / count);
  }
  std::vector<double> decoded(count);
  DecodeFloat(DTypeOf(dtype), FormatOf(DTypeOf(dtype)), bytes, decoded);
  return {MakeTensorBytes(dtype, sizes, bytes), MakeTensor<double>("float64", sizes, decoded)};
}

void ExpectSame(const Metrics& m, const Metrics& right) {
  for (double Metrics::*field :
       {&Metrics::max_abs, &Metrics::max_rel, &Metrics::mean_abs, &Metrics::mean_rel,
        &Metrics::mean_error, &Metrics::rmse, &Metrics::p50, &Metrics::p99, &Metrics::rms_in_common,
        &Metrics::rms_a, &Metrics::rms_b, &Metrics::bound_abs})
    EXPECT_EQ(m.*field, right.*field);
  for (uint64_t Metrics::*field :
       {&Metrics::within, &Metrics::compared, &Metrics::sign_mismatch, &Metrics::nan_mismatch})
    EXPECT_EQ(m.*field, right.*field);
  EXPECT_EQ(m.cosine, right.cosine);
  EXPECT_EQ(m.sqnr_db, right.sqnr_db);
  EXPECT_EQ(m.worst.position, right.worst.position);
  EXPECT_EQ(m.worst_relative->position, right.worst_relative->position);
}

TEST(MixedDtypes, AreMeasuredAsTheSameNumbersInDouble) {
  std::mt19937_64 random(5);
  const std::vector<int64_t> sizes = {83, 61};  // the last tile is not whole
  const Bound bound{.relative = 0.1, .scale = 0.1};
  for (const auto& [a, b] :
       std::vector<std::pair<std::string, std::string>>{{"float32", "bfloat16"},
                                                        {"bfloat16", "float32"},
                                                        {"float16", "bfloat16"},
                                                        {"bfloat16", "float16"},
                                                        {"float32", "float16"},
                                                        {"float16", "float32"},
                                                        {"float64", "bfloat16"},
                                                        {"float32", "float64"}}) {
    SCOPED_TRACE(a + ", " + b);
    Side left{}, right{};
    const auto make = [&](const std::string& dtype) {
      if (dtype != "float64") return RandomSide(dtype, sizes, &random);
      const Side side = RandomSide("float32", sizes, &random);
      return Side{side.decoded, side.decoded};
    };
    left = make(a);
    right = make(b);
    const Metrics m = MeasureOk(left.stored, right.stored, bound);
    ExpectSame(m, MeasureOk(left.decoded, right.decoded, bound));
    // What only equal dtypes have.
    EXPECT_EQ(m.bits_equal, 0u);
    EXPECT_GT(m.outside(), 0u);
    EXPECT_GT(m.within, 0u);
  }
}

// The same numbers: no bits are counted as equal, nothing is worst.
TEST(MixedDtypes, EqualNumbersDoNotDiffer) {
  std::vector<uint16_t> patterns = {0x3F80, 0x8000, 0x4049, 0x0000};
  patterns.resize(2048, 0x3F80);
  std::vector<float> numbers;
  for (const uint16_t pattern : patterns)
    numbers.push_back(std::bit_cast<float>(uint32_t{pattern} << 16));
  const Metrics m =
      MeasureOk(Vector<uint16_t>("bfloat16", patterns), Vector<float>("float32", numbers));
  EXPECT_EQ(m.bits_equal, 0u);
  EXPECT_EQ(m.within, m.elements);
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.ulp[0], m.elements);
  EXPECT_FALSE(m.has_worst);
}

}  // namespace
}  // namespace tdump::compare
