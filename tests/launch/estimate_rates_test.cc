#include "launch/tdump_run/estimate_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/env.h"
#include "core/temporary_directory.h"

namespace tdump::launch {
namespace {

using ::testing::HasSubstr;

TEST(EstimateRates, TimesFilesWhereTheRunWillBeAndLeavesNothing) {
  const std::string folder = ::testing::TempDir() + "/estimate_cost";
  std::filesystem::create_directories(folder);
  const Rates rates = MeasureRates(folder + "/not/there/yet");
  EXPECT_GT(rates.copy, 0);
  EXPECT_GT(rates.hash, 0);
  EXPECT_GT(rates.statistics, 0);
  EXPECT_GT(rates.write, 0);
  EXPECT_GT(rates.disk, 0);
  EXPECT_LE(rates.disk, rates.write);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(EstimateRates, AreReadAsTheyWereWritten) {
  const std::string folder = ::testing::TempDir() + "/estimate_rates";
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/rates";
  const Rates rates{
      .copy = 5e9, .hash = 4e9, .statistics = 3e9, .write = 2e9, .disk = 0, .cores = 7};
  EXPECT_EQ(RatesText(rates),
            "copy 5000000000\nhash 4000000000\nstatistics 3000000000\nwrite 2000000000\ndisk 0\n"
            "cores 7\n");
  ASSERT_TRUE(WriteFileAtomically(Env::Posix(), file, RatesText(rates), 0600).ok());
  EXPECT_TRUE(CheckRates(file).ok());
  const Result<Rates> read = RatesFor(file, folder);  // and nothing is measured
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(RatesText(*read), RatesText(rates));
  std::filesystem::remove_all(folder);
}

TEST(EstimateRates, AreWrittenWhereTheyAreNotThere) {
  const std::string folder = ::testing::TempDir() + "/estimate_rates";
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/rates";
  EXPECT_TRUE(CheckRates(file).ok());
  const Result<Rates> measured = RatesFor(file, folder);
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  const Result<Rates> read = ReadRates(file);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(RatesText(*read), RatesText(*measured));
  EXPECT_FALSE(RatesFor(folder + "/not/there", folder).ok());
  std::filesystem::remove_all(folder);
}

TEST(EstimateRates, AForeignFileIsNamedWithItsLine) {
  const std::string file = ::testing::TempDir() + "/estimate_rates_foreign";
  const auto error = [&](std::string_view text) {
    EXPECT_TRUE(WriteFileAtomically(Env::Posix(), file, text, 0600).ok());
    return CheckRates(file).message();
  };
  for (const char* line : {"capture: []", "copy", "copy 1x", "copy -1", "copy nan", "copy 1e300",
                           "cores 1e9", "speed 3"}) {
    EXPECT_THAT(error(std::string("copy 5000000000\n") + line + "\n"),
                HasSubstr(file + ":2: " + line + ": expected a line that --rates wrote"));
  }
  EXPECT_THAT(error(""), HasSubstr("no line 'copy'"));
  EXPECT_FALSE(error(std::string(5000, 'x')).empty());
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace tdump::launch
