#include "compare/dequantised.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/fake_run.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

std::vector<uint64_t> IndicesOf(const std::vector<uint64_t>& tensor,
                                const std::vector<uint64_t>& scales,
                                std::optional<uint64_t> axis = std::nullopt) {
  const auto grid = ScaleGrid::Fit(tensor, scales, axis);
  if (!grid) return {999};
  uint64_t count = 1;
  for (const uint64_t size : tensor) count *= size;
  std::vector<uint64_t> indices(count), tail(count / 2);
  grid->Indices(0, indices);
  grid->Indices(count - tail.size(), tail);  // from anywhere
  EXPECT_TRUE(std::equal(tail.rbegin(), tail.rend(), indices.rbegin()));
  return indices;
}

TEST(ScaleGrid, FindsTheScaleOfEachElement) {
  EXPECT_THAT(IndicesOf({2, 3}, {}), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(IndicesOf({2, 3}, {1}), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(IndicesOf({2, 3}, {2}, 0), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(IndicesOf({2, 3}, {3}, 1), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(IndicesOf({2, 3}, {2}), ElementsAre(0, 0, 0, 1, 1, 1));  // of the rows
  EXPECT_THAT(IndicesOf({2, 3}, {3}), ElementsAre(0, 1, 2, 0, 1, 2));  // of the columns
  EXPECT_THAT(IndicesOf({2, 3}, {2, 1}), ElementsAre(0, 0, 0, 1, 1, 1));
  // Blocks of [2, 2]; the last row and column are blocks that are not full.
  EXPECT_THAT(IndicesOf({3, 3}, {2, 2}), ElementsAre(0, 0, 1, 0, 0, 1, 2, 2, 3));
  EXPECT_THAT(IndicesOf({2, 4}, {2, 2}), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  // Blocks of [4, 4], and a rest of one row: by even parts they would have 3 rows.
  const std::vector<uint64_t> cut = IndicesOf({9, 8}, {3, 2});
  EXPECT_THAT((std::vector<uint64_t>{cut[3 * 8], cut[4 * 8], cut[7 * 8 + 4], cut[8 * 8]}),
              ElementsAre(0, 2, 3, 4));
}

// Notes of one kind are counted up to " in ", behind which they say where.
TEST(ScaleGrid, SaysWhatHasAScale) {
  EXPECT_EQ(ScaleGrid::Fit({2, 3}, {}, std::nullopt)->text(), "per tensor");
  EXPECT_EQ(ScaleGrid::Fit({2, 3}, {2}, 0)->text(), "per channel 0");
  EXPECT_EQ(ScaleGrid::Fit({2, 4}, {2, 2}, std::nullopt)->text(), "per block of [1, 2]");
  EXPECT_EQ(ScaleGrid::Fit({576, 256}, {5, 2}, std::nullopt)->text(), "per block of [128, 128]");
  EXPECT_EQ(ScaleGrid::Fit({96, 96}, {2, 3}, std::nullopt)->text(), "per block of [48, 32]");
  EXPECT_EQ(ScaleGrid::Fit({96, 8}, {2, 1}, std::nullopt)->text(), "per block of [48, 8]");
  EXPECT_EQ(ScaleGrid::Fit({192, 256}, {2, 2}, std::nullopt)->text(), "per block of [128, 128]");
  EXPECT_EQ(ScaleGrid::Fit({4, 576, 256}, {4, 5, 2}, std::nullopt)->text(),
            "per block of [1, 128, 128]");  // experts
  EXPECT_EQ(ScaleGrid::Fit({960, 960}, {8, 8}, std::nullopt)->text(), "per block of [128, 128]");
  EXPECT_EQ(ScaleGrid::Fit({7, 64}, {7, 2}, std::nullopt)->text(), "per block of [1, 32]");
}

TEST(ScaleGrid, SaysWhetherEvenPartsAreMoreThanAGuess) {
  const auto is_certain = [](const std::vector<uint64_t>& tensor,
                             const std::vector<uint64_t>& scales) {
    return ScaleGrid::Fit(tensor, scales, std::nullopt)->IsCertain();
  };
  EXPECT_FALSE(is_certain({192, 192}, {2, 2}));
  EXPECT_FALSE(is_certain({960, 960}, {8, 8}));
  EXPECT_TRUE(is_certain({192, 256}, {2, 2}));
  EXPECT_TRUE(is_certain({576, 256}, {5, 2}));
  EXPECT_TRUE(is_certain({96, 96}, {2, 3}));
  EXPECT_TRUE(is_certain({2, 3}, {2, 1}));
  EXPECT_TRUE(is_certain({2, 3}, {}));
}

TEST(ScaleGrid, RefusesScalesOfAnotherTensor) {
  EXPECT_FALSE(ScaleGrid::Fit({2, 3}, {4}, std::nullopt));
  EXPECT_FALSE(ScaleGrid::Fit({2, 3}, {3}, 0));
  EXPECT_FALSE(ScaleGrid::Fit({2, 3}, {2}, 5));
  EXPECT_FALSE(ScaleGrid::Fit({2, 3}, {4, 1}, std::nullopt));
  EXPECT_FALSE(ScaleGrid::Fit({5, 4}, {4, 1}, std::nullopt));  // blocks of 2 make 3, not 4
  EXPECT_FALSE(ScaleGrid::Fit({2, 3}, {0}, std::nullopt));
  EXPECT_FALSE(ScaleGrid::Fit({2, 3}, {1, 2, 1}, std::nullopt));
  EXPECT_FALSE(ScaleGrid::Fit({}, {2}, std::nullopt));
}

struct Weight {
  std::string arg;
  Tensor tensor;
};

std::unique_ptr<StepView> ViewOf(PassContent* content, const std::vector<Weight>& weights) {
  for (const Weight& weight : weights) {
    io::Record record = weight.tensor.record;
    record.id = content->records.size() + 1;
    record.key = {.path = "mlp", .role = Role::kParam, .arg = weight.arg};
    content->records.push_back(record);
    content->payloads.push_back(weight.tensor.payload);
  }
  auto view =
      DequantisedView::Wrap(std::make_unique<OnePass>(std::make_unique<FakePassReader>(content)));
  EXPECT_TRUE(view.ok());
  return std::move(*view);
}

std::vector<float> Numbers(const StepView& view, uint64_t id) {
  const auto record = view.Get(id);
  EXPECT_EQ(record->dtype.view(), "float32");
  std::vector<float> numbers(record->numel());
  const auto read = view.Open(*record);
  EXPECT_TRUE(read.ok());
  EXPECT_TRUE((*read)(0, std::as_writable_bytes(std::span(numbers))).ok());
  return numbers;
}

std::vector<std::string> Args(const StepView& view) {
  std::vector<std::string> args;
  EXPECT_TRUE(view.ForEachTensor([&](const io::Record& record) {
                    args.push_back(record.key.arg);
                    return true;
                  })
                  .ok());
  return args;
}

TEST(DequantisedView, MultipliesByTheRecordedScale) {
  PassContent content;
  // e4m3: 0x38 is 1, 0x40 is 2, 0xB8 is -1.
  const auto view =
      ViewOf(&content, {{"weight", Vector<uint8_t>("float8_e4m3fn", {0x38, 0x40, 0xB8})},
                        {"weight_scale", Vector<float>("float32", {0.5f})}});
  EXPECT_THAT(Args(*view), ElementsAre("weight"));
  EXPECT_THAT(Numbers(*view, 1), ElementsAre(0.5f, 1.0f, -0.5f));
  EXPECT_EQ(RecordedDType(*view->Get(1)), DTypeOf("float8_e4m3fn"));
  EXPECT_EQ(DequantisedText(*view->Get(1)), "dequantised from float8_e4m3fn, per tensor");
}

// A view of whose records something is known without reading.
class KnownView : public WrappedView {
 public:
  explicit KnownView(const PassContent* content)
      : WrappedView(std::make_unique<OnePass>(std::make_unique<FakePassReader>(content))),
        content_(*content) {}
  const io::Record* Known(uint64_t id) const override { return &content_.records.at(id - 1); }

 private:
  const PassContent& content_;
};

TEST(DequantisedView, OfWhatItDequantisesOnlyGetTells) {
  PassContent content;
  ViewOf(&content, {{"weight", Vector<uint8_t>("float8_e4m3fn", {0x38, 0x40, 0xB8})},
                    {"weight_scale", Vector<float>("float32", {0.5f})},
                    {"bias", Vector<float>("float32", {1})}});
  const auto view = DequantisedView::Wrap(std::make_unique<KnownView>(&content));
  ASSERT_TRUE(view.ok());
  EXPECT_EQ((*view)->Known(1), nullptr);
  ASSERT_NE((*view)->Known(3), nullptr);
  EXPECT_EQ((*view)->Known(3)->key.arg, "bias");
}

TEST(DequantisedView, AScaleThatIsExpandedWithoutEndIsNotRead) {
  PassContent content;
  Tensor scale = Vector<float>("float32", {0.5f});
  scale.record.sizes = {int64_t{1} << 25};  // 256 MiB of numbers
  scale.record.strides = {0};
  const auto view = ViewOf(
      &content, {{"weight", Vector<uint8_t>("float8_e4m3fn", {0x38})}, {"weight_scale", scale}});
  EXPECT_THAT(Args(*view), ElementsAre("weight", "weight_scale"));
  // More elements than their bytes as float32 can be counted.
  PassContent wide;
  Tensor weight = Vector<uint8_t>("float8_e4m3fn", {0x38});
  weight.record.sizes = {int64_t{1} << 62};
  weight.record.strides = {0};
  const auto raw =
      ViewOf(&wide, {{"weight", weight}, {"weight_scale", Vector<float>("float32", {0.5f})}});
  EXPECT_EQ(raw->Get(1)->dtype.view(), "float8_e4m3fn");
}

TEST(DequantisedView, TakesTheZeroPointOff) {
  PassContent content;
  const auto view =
      ViewOf(&content, {{"weight", MakeTensor<int8_t>("qint8", {2, 2}, {10, 20, -3, 7})},
                        {"weight.scales", Vector<double>("float64", {0.25, 2})},
                        {"weight.zero_points", Vector<int64_t>("int64", {8, 2})},
                        {"weight.axis", MakeTensor<int64_t>("int64", {}, {0})}});
  EXPECT_THAT(Args(*view), ElementsAre("weight"));
  // Row 0: (10 - 8) / 4, (20 - 8) / 4; row 1: (-3 - 2) * 2, (7 - 2) * 2.
  EXPECT_THAT(Numbers(*view, 1), ElementsAre(FloatEq(0.5f), FloatEq(3), FloatEq(-10), FloatEq(10)));
}

TEST(DequantisedView, IntegersWithoutScalesStayIntegers) {
  PassContent content;
  const auto view = ViewOf(&content, {{"ids", Vector<int8_t>("int8", {1, 2})},
                                      {"mask", Vector<uint8_t>("bool", {1, 0})},
                                      {"mask_scale", Vector<float>("float32", {2})},
                                      {"weight", Vector<float>("float32", {1, 2})},
                                      {"weight_scale", Vector<float>("float32", {2})}});
  EXPECT_THAT(Args(*view), ElementsAre("ids", "mask", "mask_scale", "weight", "weight_scale"));
  EXPECT_EQ(DequantisedText(*view->Get(1)), "");
  EXPECT_EQ(RecordedDType(*view->Get(1)), DTypeOf("int8"));
}

TEST(DequantisedView, ScalesThatCannotBelongAreLeftAlone) {
  PassContent content;
  const auto view = ViewOf(&content, {{"weight", Vector<int8_t>("int8", {1, 2, 3})},
                                      {"weight_scale", Vector<float>("float32", {2, 3})}});
  EXPECT_THAT(Args(*view), ElementsAre("weight", "weight_scale"));
  EXPECT_EQ(view->Get(1)->dtype.view(), "int8");
}

TEST(DequantisedView, EqualHashesNeedEqualScales) {
  PassContent one, same, other;
  const Tensor weight = Vector<int8_t>("int8", {1, 2});
  const auto scaled = [&](PassContent* content, float scale) {
    const auto view =
        ViewOf(content, {{"weight", weight}, {"weight_scale", Vector<float>("float32", {scale})}});
    return view->Get(1)->hash;
  };
  const auto hash = scaled(&one, 2);
  ASSERT_TRUE(hash);
  EXPECT_EQ(hash, scaled(&same, 2));
  EXPECT_NE(hash, scaled(&other, 4));
}

}  // namespace
}  // namespace tdump::compare
