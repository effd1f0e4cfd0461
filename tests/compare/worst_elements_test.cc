#include "compare/worst_elements.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// "[0, 1] 2 7": place, A, B.
std::vector<std::string> WorstOf(const Tensor& a, const Tensor& b, size_t most) {
  const auto worst = WorstElements(a.operand(), b.operand(), most);
  EXPECT_TRUE(worst.ok()) << worst.status().message();
  std::vector<std::string> texts;
  for (const Worst& element : worst.ok() ? *worst : std::vector<Worst>{})
    texts.push_back(ShapeText(element.position) + " " + element.a + " " + element.b);
  return texts;
}

TEST(WorstElementsTest, TheLargestErrorsComeFirst) {
  const Tensor a = MakeTensor<float>("float32", {2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = MakeTensor<float>("float32", {2, 3}, {1, 2.5f, 3, 0, 5, 6.5f});
  EXPECT_THAT(WorstOf(a, b, 8), ElementsAre("[1, 0] 4 0", "[0, 1] 2 2.5", "[1, 2] 6 6.5"));
  EXPECT_THAT(WorstOf(a, b, 2), ElementsAre("[1, 0] 4 0", "[0, 1] 2 2.5"));
  EXPECT_THAT(WorstOf(a, a, 2), ElementsAre());
  EXPECT_THAT(WorstOf(a, b, 0), ElementsAre());
}

TEST(WorstElementsTest, SpecialValuesThatMeetOthersAreWorseThanAnyNumber) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(WorstOf(Vector<float>("float32", {kNan, 1, 1e30f, inf, inf}),
                      Vector<float>("float32", {kNan, kNan, 0, inf, -inf}), 3),
              ElementsAre("[1] 1 nan", "[4] inf -inf", "[2] 1e+30 0"));
}

// The first is what Measure calls the worst, over many tiles.
TEST(WorstElementsTest, AgreesWithTheMeasure) {
  std::vector<float> values(3 * 5000, 1), others = values;
  for (const size_t i : {14999u, 4096u, 4095u, 9000u}) others[i] = 1 + static_cast<float>(i % 7);
  const Tensor a = MakeTensor("float32", {3, 5000}, values);
  const Tensor b = MakeTensor("float32", {3, 5000}, others);
  const auto measured = Measure(a.operand(), b.operand(), {});
  ASSERT_TRUE(measured.ok());
  const auto worst = WorstElements(a.operand(), b.operand(), 4);
  ASSERT_TRUE(worst.ok());
  ASSERT_FALSE(worst->empty());
  EXPECT_EQ(worst->front().position, measured->worst.position);
  EXPECT_EQ(worst->front().b, measured->worst.b);
}

TEST(WorstElementsTest, ComplexPackedAndStoredOnce) {
  EXPECT_THAT(WorstOf(MakeTensor<float>("complex64", {2}, {3, 4, 1, 0}),
                      Vector<float>("float32", {0, 1}), 2),
              ElementsAre("[0] 3+4j 0"));
  EXPECT_THAT(WorstOf(Vector<uint8_t>("float4_e2m1fn_x2", {0x21}),
                      Vector<uint8_t>("float4_e2m1fn_x2", {0x20}), 2),
              ElementsAre("[0] 0.5 0"));
  Tensor a = MakeTensor<float>("float32", {2}, {1, 2}),
         b = MakeTensor<float>("float32", {2}, {1, 5});
  for (Tensor* tensor : {&a, &b}) {
    tensor->record.sizes = {int64_t{1} << 40, 2};
    tensor->record.strides = {0, 1};
  }
  EXPECT_THAT(WorstOf(a, b, 2), ElementsAre("[0, 1] 2 5"));
  const Tensor bits = Vector<uint16_t>("bits16", {1, 2});
  EXPECT_EQ(WorstElements(bits.operand(), bits.operand(), 1).status().code(),
            StatusCode::kUnsupported);
}

// Of the pair at which the runs part, not of one before it that agrees or one behind.
TEST(WorstCollectorTest, TheOriginIsGivenItsElements) {
  const auto run_of = [](float second, float third) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const Tensor x = Vector<float>("float32", {1, 2});
    pass.Module("first", x, x);
    pass.Module("second", x, Vector<float>("float32", {second, 4, second}));
    pass.Module("third", x, Vector<float>("float32", {third, 9}));
    return run;
  };
  WorstCollector worst(2);
  DiffOptions options;
  options.on_pass = [&](const PassDiff& pass, const PassPair& pair) { worst.AddPass(pass, pair); };
  DiffReport report = DiffOk(run_of(3, 5), run_of(8, 6), options);
  worst.FillIn(&report);
  ASSERT_TRUE(report.origin && report.origin->row);
  EXPECT_EQ(report.origin->row->name, "second");
  ASSERT_EQ(report.origin->row->worst_elements.size(), 2u);
  EXPECT_THAT(Joined(Text(report)), HasSubstr("worst element [0] A 3 B 8 then [2] A 3 B 8"));
  EXPECT_THAT(RowToJson(*report.origin->row), HasSubstr("\"worst_elements\":[{\"position\":[0],"));
}

DiffReport WithWorst(const FakeRun& a, const FakeRun& b) {
  WorstCollector worst(2);
  DiffOptions options;
  options.on_pass = [&](const PassDiff& pass, const PassPair& pair) { worst.AddPass(pass, pair); };
  DiffReport report = DiffOk(a, b, options);
  worst.FillIn(&report);
  return report;
}

// What a weight that parted does not explain, behind the first difference.
TEST(WorstCollectorTest, WhatWeightsDoNotExplainIsGivenItsElements) {
  const auto run_of = [](float weight, float first, float second) {
    FakeRun run(1);
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = run.Pass(0, step);
      const auto tensor = [&](float x) { return Vector<float>("float32", {3, step == 0 ? 4 : x}); };
      const Tensor known = tensor(weight);
      pass.Param("first", "weight", known);
      pass.last()->payload = known.record.payload;
      pass.Module("first", tensor(4), tensor(first));
      pass.Module("second", tensor(4), tensor(second));
    }
    return run;
  };
  const DiffReport report = WithWorst(run_of(4, 4, 4), run_of(5, 5, kNan));
  ASSERT_TRUE(report.origin && report.beyond_drift && report.beyond_drift->row);
  EXPECT_EQ(report.origin->name, "first");
  EXPECT_EQ(report.beyond_drift->name, "second");
  EXPECT_EQ(report.beyond_drift->row->worst_elements.size(), 1u);
}

// Whatever order records lie in.
TEST(WorstCollectorTest, TheFirstIsTheFirstInTime) {
  const auto run_of = [](float x) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const Tensor value = Vector<float>("float32", {x, 2});
    pass.Tap("late", "t", value);
    pass.last()->call_begin = pass.last_call()->call.begin = 9;
    pass.last()->seen = pass.last_call()->call.end = 10;
    pass.Tap("early", "t", value);
    return run;
  };
  const DiffReport report = WithWorst(run_of(3), run_of(5));
  ASSERT_TRUE(report.origin && report.origin->row);
  EXPECT_EQ(report.origin->row->key.path, "early");
  EXPECT_EQ(report.origin->row->worst_elements.size(), 1u);
}

}  // namespace
}  // namespace tdump::compare
