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

// D10: the other metrics decide.
TEST_F(DiffNumbersTest, TheCosineOfZerosIsUndefined) {
  const Json differs =
      Row(Out<float>("x", "float32", {0, 0}), Out<float>("x", "float32", {1, 1}), 1);
  EXPECT_TRUE(differs["metrics"]["cosine"].is_null());
  EXPECT_THAT(Diff({"a", "b"}).out, HasSubstr("cosine undefined"));
  // Other bits, as zeros of both signs are read.
  const Json equal =
      Row(Out<float>("x", "float32", {0, 0}), Out<float>("x", "float32", {0, -0.0f}), 0);
  EXPECT_TRUE(equal["metrics"]["cosine"].is_null());
  EXPECT_EQ(equal["verdicts"]["tolerance"], "same");
  Row(Out<float>("x", "float32", {0, 0}), Out<float>("x", "float32", {0, 0}), 0);
}

// D11: an exact tie and its rounding; eight steps off. Dtypes are another question.
TEST_F(DiffNumbersTest, RoundingsAreThoseOfTheCoarserDtype) {
  const TensorImage rounded = Out<uint16_t>("x", "bfloat16", {0x41C0});  // 24
  const auto diff = [&](float value) {
    const Json row = Row(Out<float>("x", "float32", {value}), rounded, 1);
    EXPECT_EQ(row["verdicts"]["dtype"], "differs");
    return row;
  };
  const Json tie = diff(24.0625f);
  EXPECT_EQ(tie["verdicts"]["tolerance"], "same");
  EXPECT_EQ(tie["metrics"]["max_ulp"], 0.5);
  EXPECT_EQ(Diff({"a", "b", "--compute", "bf16"}).status, 0);
  const Json off = diff(25);
  EXPECT_EQ(off["verdicts"]["tolerance"], "differs");
  EXPECT_EQ(off["metrics"]["max_ulp"], 8.0);
  const auto told = Diff({"a", "b", "--compute", "bf16"});
  EXPECT_EQ(told.status, 1);
  EXPECT_THAT(told.out, HasSubstr("max ULP 8"));
}

// D15: of one sign or the other zero is within, one is not; and the sign is told.
TEST_F(DiffNumbersTest, SubnormalNumbersMayBeFlushed) {
  const TensorImage tiny = Out<float>("x", "float32", {9e-45f});
  EXPECT_FALSE(Row(tiny, Out<float>("x", "float32", {0.0f}), 0)["notes"].empty());
  EXPECT_THAT(Row(tiny, Out<float>("x", "float32", {-0.0f}), 0)["notes"].dump(),
              HasSubstr("1 of the other sign"));
  const Json one = Row(tiny, Out<float>("x", "float32", {1.0f}), 1);
  EXPECT_EQ(one["metrics"]["worst"]["a"], "8e-45");  // the shortest text
}

// D13: {1000, 1e-6} against {1000, 2e-5} passes; a person can judge.
TEST_F(DiffNumbersTest, TheLargestRelativeErrorHasItsPlace) {
  const Json row = Row(Out<float>("x", "float32", {1000, 1000, 1e-6f}),
                       Out<float>("x", "float32", {1000, 1000.0001f, 2e-5f}), 0);
  EXPECT_EQ(row["metrics"]["worst"]["position"], Json::parse("[1]")) << row;
  const Json worst = row["metrics"]["worst_relative"];
  EXPECT_EQ(worst["position"], Json::parse("[2]"));
  EXPECT_EQ(worst["a"], "1e-06");
  EXPECT_EQ(worst["b"], "2e-05");
  EXPECT_NEAR(worst["of_a"].get<double>(), 19, 1e-9);
  EXPECT_NEAR(row["metrics"]["max_rel"].get<double>(), 0.95, 1e-6);
  // As it was reported: alone with the large number, in bfloat16.
  const Json pair = Row(Out<uint16_t>("x", "bfloat16", {0x447A, 0x3586}),
                        Out<uint16_t>("x", "bfloat16", {0x447A, 0x37A8}), 0);
  EXPECT_EQ(pair["metrics"]["worst_relative"]["position"], Json::parse("[1]"));
  EXPECT_NEAR(pair["metrics"]["worst_relative"]["of_a"].get<double>(), 19, 0.1);
  // Of nothing no part is known.
  EXPECT_TRUE(Row(Out<float>("x", "float32", {0, 1}), Out<float>("x", "float32", {2, 1}),
                  1)["metrics"]["worst_relative"]["of_a"]
                  .is_null());
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
