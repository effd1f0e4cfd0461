#include "compare/packed_metrics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

// Of -0, NaN and its payload too.
uint64_t Bits(double number) { return std::bit_cast<uint64_t>(number); }

Metrics EveryField() {
  Metrics m;
  m.elements = ~uint64_t{0};
  m.bits_equal = 1;
  m.within = 127;
  m.compared = 128;
  m.max_abs = 0.1;
  m.max_abs_text = "340282366920938463463374607431768211455";
  m.max_rel = std::numeric_limits<double>::denorm_min();
  m.mean_abs = 1e300;
  m.mean_rel = -0.0;
  m.mean_error = -1.5;
  m.rmse = std::bit_cast<double>(uint64_t{0x7FF8'0000'0000'0001});
  m.cosine = 0.0;
  m.sqnr_db = std::numeric_limits<double>::infinity();
  m.max_ulp = 3;
  m.ulp[0] = 5;
  m.ulp[kUlpBins - 1] = uint64_t{1} << 60;
  m.p50 = 4;
  m.p90 = 5;
  m.p99 = 6;
  m.p999 = 7;
  m.worst_channel = WorstChannel{300, -8};
  m.channels = 1 << 20;
  m.rms_in_common = 9;
  m.rms_a = 10;
  m.rms_b = 11;
  m.bound_abs = 12;
  m.nan_a = 13;
  m.nan_b = 14;
  m.inf_a = 15;
  m.inf_b = 16;
  m.nan_mismatch = 17;
  m.inf_mismatch = 18;
  m.sign_mismatch = 19;
  m.zero_sign_mismatch = 20;
  m.numeric = false;
  m.has_worst = true;
  m.worst = {{3, 1 << 14, 0}, "1.25", "nan"};
  m.worst_relative = Worst{{}, "", "-0.0"};
  return m;
}

void ExpectSame(const Metrics& x, const Metrics& y) {
  for (uint64_t Metrics::*count :
       {&Metrics::elements, &Metrics::bits_equal, &Metrics::within, &Metrics::compared,
        &Metrics::channels, &Metrics::nan_a, &Metrics::nan_b, &Metrics::inf_a, &Metrics::inf_b,
        &Metrics::nan_mismatch, &Metrics::inf_mismatch, &Metrics::sign_mismatch,
        &Metrics::zero_sign_mismatch})
    EXPECT_EQ(x.*count, y.*count);
  for (double Metrics::*number :
       {&Metrics::max_abs, &Metrics::max_rel, &Metrics::mean_abs, &Metrics::mean_rel,
        &Metrics::mean_error, &Metrics::rmse, &Metrics::max_ulp, &Metrics::p50, &Metrics::p90,
        &Metrics::p99, &Metrics::p999, &Metrics::rms_in_common, &Metrics::rms_a, &Metrics::rms_b,
        &Metrics::bound_abs})
    EXPECT_EQ(Bits(x.*number), Bits(y.*number));
  EXPECT_EQ(x.max_abs_text, y.max_abs_text);
  EXPECT_EQ(x.cosine, y.cosine);
  EXPECT_EQ(x.sqnr_db, y.sqnr_db);
  EXPECT_EQ(x.ulp, y.ulp);
  EXPECT_EQ(x.numeric, y.numeric);
  EXPECT_EQ(x.has_worst, y.has_worst);
  ASSERT_EQ(x.worst_channel.has_value(), y.worst_channel.has_value());
  if (x.worst_channel) {
    EXPECT_EQ(x.worst_channel->index, y.worst_channel->index);
    EXPECT_EQ(x.worst_channel->mean_error, y.worst_channel->mean_error);
  }
  ASSERT_EQ(x.worst_relative.has_value(), y.worst_relative.has_value());
  for (const auto& [left, right] :
       {std::pair(x.worst, y.worst),
        std::pair(x.worst_relative.value_or(Worst()), y.worst_relative.value_or(Worst()))}) {
    EXPECT_EQ(left.position, right.position);
    EXPECT_EQ(left.a, right.a);
    EXPECT_EQ(left.b, right.b);
  }
}

TEST(PackedMetrics, WhatWasPackedComesOut) {
  const Metrics all = EveryField();
  ExpectSame(PackedMetrics(all), all);
  ExpectSame(PackedMetrics(Metrics()), Metrics());
  ExpectSame(PackedMetrics(), Metrics());
  EXPECT_EQ(PackedMetrics(all)->worst.b, "nan");
}

TEST(PackedMetrics, CopiesStandForThemselves) {
  PackedMetrics first(EveryField());
  PackedMetrics copy = first, bytes = PackedMetrics::FromBytes(first.bytes());
  first = Metrics();
  ExpectSame(copy, EveryField());
  ExpectSame(bytes, EveryField());
  const PackedMetrics moved = std::move(copy);
  ExpectSame(moved, EveryField());
  ExpectSame(PackedMetrics::FromBytes(""), Metrics());
}

TEST(PackedMetrics, TakesAFewHundredBytes) {
  const Tensor a = Vector<float>("float32", {1, 2, 3, 4}),
               b = Vector<float>("float32", {1, 2, 3, 5});
  EXPECT_LT(PackedMetrics(MeasureOk(a, b)).bytes().size(), 250u);
}

}  // namespace
}  // namespace tdump::compare
