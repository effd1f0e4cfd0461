#include "tools/value_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/coordinator/run_image.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class ValueStreamTest : public ::testing::Test {
 protected:
  // The tensor, written and read back.
  void Write(const TensorImage& tensor) {
    reader_.reset();
    store_.reset();
    env_ = NewMemoryEnv();
    ProcessImage process(env_.get(), "run", {});
    process.Tensors(0, {tensor}).Exit(1);
    store_ = std::move(*io::PassStore::Open(env_.get(), "run"));
    const io::ProcessEntry& entry = store_->processes().at(0);
    reader_ = std::move(*store_->OpenPass(entry, entry.passes.at(0)));
    record_ = *reader_->Get(1);
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    for (ValueStream values(reader_.get(), &record_); !values.done();) {
      const auto unit = values.Next();
      EXPECT_TRUE(unit.ok()) << unit.status().message();
      if (!unit.ok()) break;
      texts.push_back(values.Text(*unit));
    }
    return texts;
  }

  std::unique_ptr<Env> env_;
  std::unique_ptr<io::PassStore> store_;
  std::unique_ptr<io::PassReader> reader_;
  io::Record record_;
};

TEST_F(ValueStreamTest, GoesInRowMajorOrder) {
  Write({.bytes = BytesOf<int16_t>({1, -2, 3, 4, 5, 6}),
         .dtype = "int16",
         .bits = 16,
         .sizes = {2, 3}});
  EXPECT_THAT(Texts(), ElementsAre("1", "-2", "3", "4", "5", "6"));
}

TEST_F(ValueStreamTest, RepeatsWhatIsStoredOnce) {
  Write({.bytes = BytesOf<uint8_t>({7, 9}), .sizes = {2, 3}, .strides = {1, 0}});
  EXPECT_THAT(Texts(), ElementsAre("7", "7", "7", "9", "9", "9"));
  Write({.bytes = BytesOf<uint8_t>({1, 2, 3}), .sizes = {2, 3}, .strides = {0, 1}});
  EXPECT_THAT(Texts(), ElementsAre("1", "2", "3", "1", "2", "3"));
}

TEST_F(ValueStreamTest, GoesOnWhereItIsTold) {
  const auto at = [this](uint64_t unit) {
    ValueStream values(reader_.get(), &record_);
    values.Seek(unit);
    std::string text;
    while (!values.done()) text += values.Text(*values.Next()) + " ";
    return text;
  };
  Write({.bytes = BytesOf<uint8_t>({1, 2, 3, 4}), .sizes = {2, 2}});
  EXPECT_EQ(at(2), "3 4 ");
  EXPECT_EQ(at(4), "");
  Write({.bytes = BytesOf<uint8_t>({7, 9}), .sizes = {2, 3}, .strides = {1, 0}});
  EXPECT_EQ(at(2), "7 9 9 9 ");
  Write({.bytes = BytesOf<uint8_t>({1, 2, 3}), .sizes = {2, 3}, .strides = {0, 1}});
  EXPECT_EQ(at(4), "2 3 ");
}

TEST_F(ValueStreamTest, ScalarsAndEmptyTensors) {
  Write({.bytes = BytesOf<float>({0.1f}), .dtype = "float32", .bits = 32, .sizes = {}});
  EXPECT_THAT(Texts(), ElementsAre("0.1"));
  Write({.bytes = "", .sizes = {0, 3}});
  EXPECT_THAT(Texts(), ElementsAre());
}

// Units of three bytes do not divide the window.
TEST_F(ValueStreamTest, UnitsMayLieAcrossTheWindow) {
  constexpr int64_t kCount = 400'000;
  std::string bytes;
  for (int64_t i = 0; i < kCount; ++i) {
    bytes += static_cast<char>(i);
    bytes += static_cast<char>(i >> 8);
    bytes += static_cast<char>(i >> 16);
  }
  Write({.bytes = bytes, .dtype = "odd24", .bits = 24, .sizes = {kCount}});
  int64_t at = 0;
  for (ValueStream values(reader_.get(), &record_); !values.done(); ++at) {
    const auto unit = values.Next();
    ASSERT_TRUE(unit.ok()) << unit.status().message();
    const int64_t value = static_cast<int>((*unit)[0]) | static_cast<int>((*unit)[1]) << 8 |
                          static_cast<int>((*unit)[2]) << 16;
    ASSERT_EQ(value, at);
  }
  EXPECT_EQ(at, kCount);
}

TEST_F(ValueStreamTest, MeasuresWithoutHidingNan) {
  const auto measure = [&](TensorImage tensor) {
    Write(tensor);
    return *MeasureRecord(*reader_, record_);
  };
  TensorImage floats{.dtype = "float32", .bits = 32};
  floats.bytes = BytesOf<float>({kNan, -3, kInf, 2});
  EXPECT_EQ(measure(floats).nan, 1u);
  EXPECT_EQ(measure(floats).infinite, 1u);
  EXPECT_EQ(measure(floats).absmax_text, "inf");
  floats.bytes = BytesOf<float>({kNan, -3, 0, 2});
  EXPECT_EQ(measure(floats).absmax_text, "3");
  floats.bytes = BytesOf<float>({kNan, kNan, kNan, kNan});
  EXPECT_EQ(measure(floats).nan, 4u);
  EXPECT_EQ(measure(floats).absmax_text, "");
  // Stored once, seen six times.
  floats.bytes = BytesOf<float>({kNan, 1});
  floats.sizes = {2, 6};
  floats.strides = {1, 0};
  EXPECT_EQ(measure(floats).nan, 6u);
}

// No wrap-around, nothing through a double.
TEST_F(ValueStreamTest, MeasuresIntegersExactly) {
  const auto absmax = [&](TensorImage tensor) {
    Write(tensor);
    return MeasureRecord(*reader_, record_)->absmax_text;
  };
  EXPECT_EQ(
      absmax({.bytes = BytesOf<uint64_t>({0, ~0ull}), .dtype = "uint64", .bits = 64, .sizes = {2}}),
      "18446744073709551615");
  EXPECT_EQ(
      absmax(
          {.bytes = BytesOf<int64_t>({INT64_MIN, 5}), .dtype = "int64", .bits = 64, .sizes = {2}}),
      "9223372036854775808");
  EXPECT_EQ(absmax({.bytes = BytesOf<int8_t>({-128, 127}), .dtype = "int8", .sizes = {2}}), "128");
}

TEST_F(ValueStreamTest, DamagedValuesAreAnErrorNotANumber) {
  Write({.bytes = BytesOf<float>({1, 2, 3, 4}), .dtype = "float32", .bits = 32});
  const std::string path = reader_->path();
  const uint64_t offset = record_.payload->offset;
  std::string bytes = *ReadFile(env_.get(), path, 1 << 20);
  bytes[offset + 3] = static_cast<char>(bytes[offset + 3] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(env_.get(), path, bytes, 0600).ok());
  reader_ = std::move(*io::PassReader::Open(env_.get(), path));
  const auto measure = MeasureRecord(*reader_, record_);
  EXPECT_EQ(measure.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(measure.status().message(), ::testing::HasSubstr(path));
}

}  // namespace
}  // namespace tdump::tools
