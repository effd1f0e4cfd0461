#include "compare/verdict.h"

#include <gtest/gtest.h>

#include "compare/bounds.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Comparison CompareTensors(const Tensor& a, const Tensor& b) {
  Comparison comparison = JudgeMeta(a.record, b.record);
  if (comparison.verdict.shape != Answer::kSame || !KeptOf(a.record, b.record).payload)
    return comparison;
  const Bound bound = LocalBoundOf({.a = a.record.dtype, .b = b.record.dtype}).bound;
  const auto metrics = Measure(a.operand(), b.operand(), bound);
  EXPECT_TRUE(metrics.ok());
  JudgeMetrics(*metrics, &comparison);
  return comparison;
}

// The five answers as letters, in the order shape, dtype, bitwise, tolerance, special: s(ame),
// d(iffers), - not judged.
std::string Answers(const Verdict& v) {
  std::string text;
  for (Answer answer : {v.shape, v.dtype, v.bitwise, v.tolerance, v.special}) {
    text += answer == Answer::kSame ? 's' : answer == Answer::kDiffers ? 'd' : '-';
  }
  return text;
}

TEST(Verdict, NothingIsBroadcast) {
  const std::vector<float> three(3, 3.0f);
  const auto a = MakeTensor<float>("float32", {3}, three),
             b = MakeTensor<float>("float32", {3, 1}, three);
  const Comparison comparison = CompareTensors(a, b);
  EXPECT_EQ(Answers(comparison.verdict), "ds---");
  EXPECT_TRUE(comparison.verdict.Fails(false));
  EXPECT_EQ(comparison.metrics->elements, 0u);
  const auto one = MakeTensor<float>("float32", {1}, {3}),
             many = MakeTensor<float>("float32", {1000}, std::vector<float>(1000, 3.0f));
  EXPECT_EQ(Answers(CompareTensors(one, many).verdict), "ds---");
}

TEST(Verdict, EmptyShapesAreShapes) {
  const std::vector<std::vector<int64_t>> shapes = {{0}, {0, 5}, {5, 0}};
  for (const auto& one : shapes) {
    for (const auto& other : shapes) {
      const Verdict verdict = CompareTensors(MakeTensor<float>("float32", one, {}),
                                             MakeTensor<float>("float32", other, {}))
                                  .verdict;
      EXPECT_EQ(Answers(verdict), one == other ? "sssss" : "ds---");
      EXPECT_EQ(verdict.Fails(false), one != other);
    }
    // Of another dtype.
    EXPECT_EQ(Answers(CompareTensors(MakeTensor<float>("float32", one, {}),
                                     MakeTensor<int32_t>("int32", one, {}))
                          .verdict)
                  .substr(0, 2),
              "sd");
  }
}

struct Case {
  const char* what;
  Tensor a, b;
  const char* answers;
};

TEST(Verdict, EveryAnswerStandsAlone) {
  const float step = 1.0f + 0x1p-23f;
  const Case cases[] = {
      {"equal", Vector<float>("float32", {1, 2}), Vector<float>("float32", {1, 2}), "sssss"},
      {"one rounding", Vector<float>("float32", {1, 2}), Vector<float>("float32", {step, 2}),
       "ssdss"},
      {"far", Vector<float>("float32", {1, 2}), Vector<float>("float32", {1.5f, 2}), "ssdds"},
      {"dtype only", Vector<float>("float32", {1, 2}), Vector<double>("float64", {1, 2}), "sddss"},
      {"dtype and far", Vector<float>("float32", {1, 2}), Vector<double>("float64", {1, 4}),
       "sddds"},
      {"NaN in one", Vector<float>("float32", {1, 2}), Vector<float>("float32", {kNaN, 2}),
       "ssddd"},
      {"other NaN bits", Vector<uint32_t>("float32", {0x7FC00000u}),
       Vector<uint32_t>("float32", {0xFFC00001u}), "ssdss"},
      {"sign of zero", Vector<float>("float32", {0.0f}), Vector<float>("float32", {-0.0f}),
       "ssdss"},
      {"integers", Vector<int32_t>("int32", {1}), Vector<int32_t>("int32", {2}), "ssdds"},
      {"opaque", Vector<uint16_t>("bits16", {1}), Vector<uint16_t>("bits16", {2}), "ssdd-"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(Answers(CompareTensors(c.a, c.b).verdict), c.answers) << c.what;
}

TEST(Verdict, BitsFailOnlyWhenRequired) {
  Verdict verdict{Answer::kSame, Answer::kSame, Answer::kDiffers, Answer::kSame, Answer::kSame};
  EXPECT_FALSE(verdict.Fails(false));
  EXPECT_TRUE(verdict.Fails(true));
  for (Answer Verdict::*which :
       {&Verdict::shape, &Verdict::dtype, &Verdict::tolerance, &Verdict::special}) {
    Verdict other;
    other.*which = Answer::kDiffers;
    EXPECT_TRUE(other.Fails(false));
  }
}

TEST(Verdict, HashesAnswerWithoutThePayload) {
  Tensor a = Vector<float>("float32", {1, 2}), b = a, c = Vector<float>("float32", {1, 3});
  for (Tensor* tensor : {&a, &b, &c}) tensor->record.payload.reset();
  EXPECT_EQ(Answers(JudgeMeta(a.record, b.record).verdict), "sssss");
  EXPECT_EQ(JudgeMeta(a.record, b.record).evidence, Evidence::kHash);
  EXPECT_EQ(Answers(JudgeMeta(a.record, c.record).verdict), "ssd--");
  c.record.hash.reset();
  EXPECT_EQ(Answers(JudgeMeta(a.record, c.record).verdict), "ss---");
  EXPECT_EQ(JudgeMeta(a.record, c.record).evidence, Evidence::kMeta);
}

TEST(Verdict, EqualHashesOfOtherExpansionsProveNothing) {
  // Payload {1, 2} both times, but [[1, 2], [1, 2]] and [[1, 1], [2, 2]].
  Tensor rows = MakeTensor<float>("float32", {2, 2}, {1, 2}), columns = rows;
  rows.record.strides = {0, 1};
  columns.record.strides = {1, 0};
  ASSERT_EQ(rows.record.hash, columns.record.hash);
  EXPECT_EQ(Answers(JudgeMeta(rows.record, columns.record).verdict), "ss---");
  EXPECT_EQ(Answers(CompareTensors(rows, columns).verdict), "ssdds");
  // And other hashes of equal values: expanded against contiguous.
  const Tensor plain = MakeTensor<float>("float32", {2, 2}, {1, 2, 1, 2});
  EXPECT_EQ(Answers(CompareTensors(rows, plain).verdict), "sssss");
}

TEST(Verdict, ChannelsLastTwinIsEqualWithANote) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7};
  Tensor last = MakeTensor<float>("float32", {1, 2, 2, 2}, values);
  last.record.strides = {8, 1, 4, 2};
  const Comparison comparison =
      CompareTensors(last, MakeTensor<float>("float32", {1, 2, 2, 2}, values));
  EXPECT_EQ(Answers(comparison.verdict), "sssss");
  ASSERT_EQ(comparison.notes.size(), 1u);
  EXPECT_EQ(comparison.notes[0], "layout differs: strides [8, 1, 4, 2] and [8, 4, 2, 1]");
}

TEST(Verdict, StridesOfOneElementDimensionsDoNotMatter) {
  Tensor a = MakeTensor<float>("float32", {1, 3}, {1, 2, 3}), b = a;
  b.record.strides = {77, 1};
  EXPECT_TRUE(CompareTensors(a, b).notes.empty());
}

TEST(Verdict, ABfloat16RoundingPassesAndEightStepsFail) {
  const auto bf16 = Vector<uint16_t>("bfloat16", {0x41C0});  // 24
  EXPECT_EQ(CompareTensors(Vector<float>("float32", {24.0625f}), bf16).verdict.tolerance,
            Answer::kSame);
  EXPECT_EQ(CompareTensors(Vector<float>("float32", {25.0f}), bf16).verdict.tolerance,
            Answer::kDiffers);
}

}  // namespace
}  // namespace tdump::compare
