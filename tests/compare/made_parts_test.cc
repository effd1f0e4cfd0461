// One side kept the values, the other less.
#include "compare/made_parts.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "compare/report.h"
#include "io/statistics.h"
#include "io/value_parts.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;

const std::vector<SliceRange> kRows = {{.begin = 1, .end = 3, .step = 1},
                                       {.begin = 0, .end = 8, .step = 3}};
constexpr uint64_t kSampled = 5;

Tensor Matrix(float factor = 1) {
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = factor * (0.5f + 0.25f * static_cast<float>(i % 7));
  return MakeTensor<float>("float32", {4, 8}, values);
}

// Without values: what a rule of that level keeps of them.
Tensor Reduced(Tensor tensor, Parts parts) {
  Keep keep(parts);
  keep.sample = kSampled;
  keep.slice = kRows;
  io::Record& record = tensor.record;
  io::ValueParts made = io::PartsOf(keep, Content::kWhole, record.dtype, record.sizes,
                                    record.strides, tensor.payload);
  if ((parts & kPartHash) == 0) record.hash.reset();
  record.payload.reset();
  if (made.statistics) record.statistics = *io::FromSection(*made.statistics);
  if (made.sample) {
    const auto units = std::as_bytes(std::span(made.sample->units));
    record.sample.emplace(units.begin(), units.end());
  }
  if (made.slice) {
    record.slice = io::Slice{.begins = made.slice->begins,
                             .sizes = made.slice->sizes,
                             .steps = made.slice->steps,
                             .payload = {.logical_bytes = made.slice_bytes.size()},
                             .hash = {},
                             .tile_digests = {}};
    tensor.payload = std::move(made.slice_bytes);  // what is read of it
  }
  return tensor;
}

Tensor WithoutHash(Tensor tensor) {
  tensor.record.hash.reset();
  return tensor;
}

DiffReport DiffOf(const Tensor& a, const Tensor& b, const DiffOptions& options = {}) {
  const Tensor in = Vector<float>("float32", {1, 2});
  FakeRun left(1), right(1);
  left.Pass(0, 0).Module("norm", in, a);
  right.Pass(0, 0).Module("norm", in, b);
  return DiffOk(left, right, options);
}

std::string Verdict(const DiffReport& report) { return RenderVerdict(report, false); }

TEST(MakeParts, AreThoseThatACaptureMakes) {
  const Tensor whole = WithoutHash(Matrix());
  const Tensor less = Reduced(Matrix(), kPartHash | kPartStats | kPartSample | kPartSlice);
  const LackingParts lacking = PartsLacking(whole.record, less.record, false);
  EXPECT_TRUE(lacking.hash && lacking.statistics && lacking.sample && lacking.slice);
  const auto made = MakeParts(whole.record, less.record, lacking, FromMemory(whole.payload));
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->record.hash, less.record.hash);
  EXPECT_EQ(made->record.statistics, less.record.statistics);
  EXPECT_EQ(made->record.sample, less.record.sample);
  EXPECT_EQ(made->record.slice->begins, less.record.slice->begins);
  EXPECT_EQ(made->record.slice->sizes, less.record.slice->sizes);
  EXPECT_EQ(made->record.slice->steps, less.record.slice->steps);
  EXPECT_EQ(made->slice, less.payload);
}

TEST(MakeParts, NothingIsReadWhereNothingIsLacking) {
  const Tensor whole = Matrix();
  EXPECT_FALSE(PartsLacking(whole.record, whole.record, true).any());  // both have values
  const Tensor hashed = Reduced(Matrix(), kPartHash | kPartStats);
  EXPECT_FALSE(PartsLacking(whole.record, hashed.record, false).any());  // equal by hash
  EXPECT_FALSE(PartsLacking(hashed.record, whole.record, false).any());  // has no values
  const Tensor other = Vector<float>("float32", std::vector<float>(3));
  EXPECT_FALSE(PartsLacking(other.record, hashed.record, false).any());  // another shape
}

TEST(MakeParts, ADamagedPayloadIsTold) {
  const Tensor whole = WithoutHash(Matrix());
  const Tensor less = Reduced(Matrix(), kPartStats);
  const ReadBytes damaged = [](uint64_t, std::span<std::byte>) { return Corrupt("digest"); };
  const auto made =
      MakeParts(whole.record, less.record, PartsLacking(whole.record, less.record, false), damaged);
  EXPECT_EQ(made.status().code(), StatusCode::kCorrupt);
}

struct Level {
  const char* name;
  Parts parts;
  const char* same;     // of the first line
  const char* differs;  // of the notes
};
const Level kLevels[] = {
    {"stats", kPartStats, "as far as statistics tell 1", "statistics differ: "},
    {"sample", kPartSample, "2 of 2 bit for bit", "of a sample of 5 elements"},
    {"slice", kPartSlice, "2 of 2 bit for bit", "of the slice that B kept"},
    {"hash", kPartHash, "2 of 2 bit for bit", ""},
};

class OneSideKeptLess : public testing::TestWithParam<Level> {};

TEST_P(OneSideKeptLess, EqualValuesAreTheSame) {
  const Level& level = GetParam();
  const Tensor less = Reduced(Matrix(), level.parts);
  EXPECT_THAT(Verdict(DiffOf(WithoutHash(Matrix()), less)), HasSubstr(level.same));
  EXPECT_THAT(Verdict(DiffOf(less, WithoutHash(Matrix()))), HasSubstr(level.same));
}

TEST_P(OneSideKeptLess, OthersDifferAndAreTheOrigin) {
  const Level& level = GetParam();
  DiffOptions options;
  options.top = 10;
  const DiffReport report =
      DiffOf(WithoutHash(Matrix()), Reduced(Matrix(1.5f), level.parts), options);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->path, "norm");
  ASSERT_EQ(report.failing.size(), 1u);
  if (*level.differs != 0) {
    EXPECT_THAT(report.failing[0].comparison.notes, Contains(HasSubstr(level.differs)));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, OneSideKeptLess, testing::ValuesIn(kLevels),
                         [](const auto& info) { return info.param.name; });

TEST(OneSideKeptLess, WithNothingOfAnyOperatorThereIsNoVerdict) {
  FakeRun a(1), b(1);
  a.Pass(0, 0).Module("norm", Matrix(), Matrix());
  b.Pass(0, 0).Module("norm", Reduced(Matrix(), kPartNone), Reduced(Matrix(), kPartNone));
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_THAT(Verdict(report), HasSubstr("NOT COMPARABLE  of 2 pairs"));
}

// What the model was given is known by hash: it says nothing of what the model did.
TEST(OneSideKeptLess, InputsOfTheModelAreNoOperators) {
  const Tensor in = Vector<float>("float32", {1, 2});
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    const uint64_t root = pass.Begin(".", "", {{"0", in}});
    pass.Module("norm", Reduced(in, kPartNone), Reduced(Matrix(), kPartNone));
    pass.End(root, ".", "", {{"", Reduced(Matrix(), kPartNone)}});
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_THAT(Verdict(report), HasSubstr("of 3 pairs of operators both sides kept only shape"));
}

TEST(OneSideKeptLess, WhatIsNotJudgedIsInTheFirstLine) {
  const Tensor in = Vector<float>("float32", {1, 2});
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    pass.Module("first", in, Matrix());
    pass.Module("second", Matrix(), Reduced(Matrix(), kPartNone));
  }
  EXPECT_EQ(Verdict(DiffOk(a, b)), "SAME  3 of 3 bit for bit; 1 not judged");
  b.Pass(0, 1).Module("first", in, Matrix());
  EXPECT_THAT(Verdict(DiffOk(a, b)), HasSubstr("the 3 pairs agree; 1 not judged"));
}

}  // namespace
}  // namespace tdump::compare
