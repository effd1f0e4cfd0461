// What tdump-diff says of numbers, as a process.
#include <gmock/gmock.h>

#include <limits>

#include "tests/tools/diff_process.h"

namespace tdump::tools {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class DiffNumbersTest : public DiffProcessTest {};

TEST_F(DiffNumbersTest, ShapesAreNeverBroadcast) {
  const std::vector<float> three(3, 3.0f);
  const Json row =
      Row(Out<float>("x", "float32", three), Out<float>("x", "float32", three, {3, 1}), 1);
  EXPECT_EQ(row["verdicts"]["shape"], "differs");
  EXPECT_EQ(row["verdicts"]["tolerance"], "not judged");
  EXPECT_FALSE(row.contains("metrics"));
  Row(Out<float>("x", "float32", {3}), Out<float>("x", "float32", std::vector<float>(1000, 3)), 1);
}

// D13: {1000, 1e-6} against {1000, 2e-5} passes; a person can judge.
TEST_F(DiffNumbersTest, TheLargestRelativeErrorHasItsPlace) {
  const Json row = Row(Out<float>("x", "float32", {1000, 1000, 1e-6f}),
                       Out<float>("x", "float32", {1000, 1000.0001f, 2e-5f}), 0);
  EXPECT_EQ(row["metrics"]["worst"]["position"], Json::parse("[1]")) << row;
  EXPECT_EQ(row["metrics"]["worst_relative"],
            Json::parse(R"({"position": [2], "a": "1e-06", "b": "2e-05"})"));
  EXPECT_NEAR(row["metrics"]["max_rel"].get<double>(), 0.95, 1e-6);
}

TEST_F(DiffNumbersTest, SharedZerosHideNoRelativeDifference) {
  const Json row = Row(Out<float>("x", "float32", {0, 1}), Out<float>("x", "float32", {0, 2}), 1);
  EXPECT_EQ(row["metrics"]["max_abs"], 1.0);
  EXPECT_EQ(row["metrics"]["max_rel"], 0.5);
  EXPECT_EQ(row["metrics"]["outside"], 1);
  EXPECT_EQ(row["metrics"]["elements"], 2);
}

TEST_F(DiffNumbersTest, NanIsNeverAPass) {
  const Json row =
      Row(Out<float>("x", "float32", {1, 2}), Out<float>("x", "float32", {kNan, 2}), 1);
  EXPECT_EQ(row["verdicts"]["special"], "differs");
  EXPECT_EQ(row["verdicts"]["tolerance"], "differs");
  EXPECT_EQ(row["metrics"]["nan_mismatch"], 1);
  EXPECT_EQ(row["metrics"]["worst"]["b"], "nan");
  Row(Out<float>("x", "float32", {kNan}), Out<float>("x", "float32", {1}), 1);
  Row(Out<float>("x", "float32", {kNan}), Out<float>("x", "float32", {kNan}), 0);
}

TEST_F(DiffNumbersTest, IntegersAreExact) {
  const auto most = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(Row(Out<uint8_t>("x", "uint8", {1}), Out<uint8_t>("x", "uint8", {254}),
                1)["metrics"]["max_abs_text"],
            "253");
  EXPECT_EQ(Row(Out<uint8_t>("x", "bool", {0}), Out<uint8_t>("x", "bool", {1}),
                1)["metrics"]["max_abs_text"],
            "1");
  const Json wide = Row(Out<uint64_t>("x", "uint64", {uint64_t{1} << 63}),
                        Out<uint64_t>("x", "uint64", {most}), 1);
  EXPECT_EQ(wide["metrics"]["max_abs_text"], "9223372036854775807");
  EXPECT_EQ(wide["metrics"]["worst"]["a"], "9223372036854775808");
  EXPECT_EQ(wide["metrics"]["worst"]["b"], "18446744073709551615");
}

TEST_F(DiffNumbersTest, NumbersBeyondDoublesStayExact) {
  const uint64_t step = (uint64_t{1} << 53) + 1;
  MakeRun("a", {{2}}, step);
  MakeRun("b", {{4}}, step);
  EXPECT_EQ(Report({"a", "b"})["origin"]["step"], step);
  EXPECT_THAT(Diff({"a", "b"}).out, HasSubstr("step 9007199254740993"));
}

}  // namespace
}  // namespace tdump::tools
