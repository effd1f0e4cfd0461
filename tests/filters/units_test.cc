#include "filters/units.h"

#include <gtest/gtest.h>

namespace tdump::filters {
namespace {

TEST(Bytes, BinaryAndDecimalUnits) {
  const std::pair<const char*, uint64_t> kCases[] = {{"0", 0},
                                                     {"4096", 4096},
                                                     {"1KiB", 1024},
                                                     {"256MiB", 268435456},
                                                     {"2GiB", 2147483648},
                                                     {"1TiB", 1099511627776},
                                                     {"10GB", 10000000000},
                                                     {"10 GB", 10000000000},
                                                     {"1.5KiB", 1536},
                                                     {"7B", 7},
                                                     {"3kB", 3000}};
  for (const auto& [text, bytes] : kCases) {
    ASSERT_TRUE(ParseBytes(text).ok()) << text;
    EXPECT_EQ(*ParseBytes(text), bytes) << text;
  }
}

TEST(Bytes, WhatIsNoAmount) {
  for (const char* text :
       {"", "x", "-1", "1 XB", "1GiB2", "1e400", "nan", "inf", "1  GB", "99999999TiB", "1gib"})
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
}

TEST(Bytes, LargestUnitThatDivides) {
  EXPECT_EQ(FormatBytes(268435456), "256MiB");
  EXPECT_EQ(FormatBytes(1536), "1536");
  EXPECT_EQ(FormatBytes(0), "0");
  for (uint64_t bytes : {1ull, 1000ull, 1024ull, 3ull << 40, (1ull << 53) + 2}) {
    EXPECT_EQ(*ParseBytes(FormatBytes(bytes)), bytes);
  }
}

TEST(Seconds, Units) {
  EXPECT_EQ(*ParseSeconds("30s"), 30);
  EXPECT_EQ(*ParseSeconds("500ms"), 0.5);
  EXPECT_EQ(*ParseSeconds("2m"), 120);
  EXPECT_EQ(*ParseSeconds("1h"), 3600);
  EXPECT_EQ(*ParseSeconds("7"), 7);
  for (const char* text : {"", "s", "-1s", "1d", "1e300s", "nans"})
    EXPECT_FALSE(ParseSeconds(text).ok()) << text;
  for (double seconds : {0.1, 0.5, 30.0, 86400.0, 1e-7})
    EXPECT_EQ(*ParseSeconds(FormatSeconds(seconds)), seconds);
}

}  // namespace
}  // namespace tdump::filters
