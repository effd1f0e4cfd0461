// One side kept the values, the other less.
#include "compare/made_parts.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

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
  EXPECT_EQ(made->hash, less.record.hash);
  EXPECT_EQ(made->statistics, less.record.statistics);
  EXPECT_EQ(made->sample, less.record.sample);
  EXPECT_TRUE(SameSlice(*made, less.record));
  const auto read = ReadSlice(*made, FromMemory(whole.payload));
  ASSERT_TRUE(read.ok()) << read.status().message();
  std::vector<std::byte> slice(less.payload.size());
  EXPECT_TRUE((*read)(0, slice).ok());
  EXPECT_EQ(slice, less.payload);
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

// The matrix with one element, of 1, changed: outside of the slice and the sample.
Tensor Spoiled(float value) {
  Tensor tensor = Matrix();
  std::memcpy(tensor.payload.data() + 30 * sizeof(float), &value, sizeof(value));
  tensor.record.hash = io::HashPayload(tensor.payload);
  return WithoutHash(tensor);
}

TEST(OneSideKeptLess, StatisticsContradictAPartThatAgrees) {
  for (const Parts part : {kPartSlice, kPartSample}) {
    EXPECT_EQ(DiffOf(Spoiled(99), Reduced(Matrix(), part)).overall, Overall::kSame);
    EXPECT_EQ(DiffOf(Spoiled(99), Reduced(Matrix(), part | kPartStats)).overall, Overall::kDiffers);
    EXPECT_EQ(DiffOf(Spoiled(NAN), Reduced(Matrix(), part | kPartStats)).counts.special, 1u);
    const Tensor near = Spoiled(1.0000001f), kept = Reduced(Matrix(), part | kPartStats);
    EXPECT_EQ(DiffOf(near, kept).overall, Overall::kSame);
    DiffOptions bits;
    bits.pass.require_bits = true;
    EXPECT_EQ(DiffOf(near, kept, bits).overall, Overall::kDiffers);
  }
}

// What was not kept may differ in any bit.
TEST(OneSideKeptLess, WhereBitsAreRequiredPartsThatAgreeAreNotJudged) {
  DiffOptions bits;
  bits.pass.require_bits = true;
  for (const Parts part : {kPartSlice, kPartSample, kPartStats}) {
    SCOPED_TRACE(PartsToString(part));
    const Tensor less = Reduced(Matrix(), part);
    EXPECT_THAT(Verdict(DiffOf(WithoutHash(Matrix()), less, bits)),
                HasSubstr("SAME  1 of 1 bit for bit; 1 not judged"));
    FakeRun a(1), b(1);  // nothing else was compared but what the model was given
    a.Pass(0, 0).Module(".", Vector<float>("float32", {1, 2}), WithoutHash(Matrix()));
    b.Pass(0, 0).Module(".", Vector<float>("float32", {1, 2}), less);
    const DiffReport report = DiffOk(a, b, bits);
    EXPECT_EQ(report.overall, Overall::kNotComparable);
    EXPECT_EQ(report.why_not,
              "of 1 pair of operators nothing that proves equal bits was kept on both sides; what "
              "was kept agrees; what the model was given and holds does not tell what it did: "
              "capture with level hash or full");
    EXPECT_EQ(DiffOf(Reduced(Matrix(1.5f), part), less, bits).overall, Overall::kDiffers);
    const Tensor whole = Reduced(Matrix(), part | kPartHash);
    EXPECT_EQ(DiffOf(WithoutHash(Matrix()), whole, bits).overall, Overall::kSame);
  }
}

TEST(OneSideKeptLess, TheSampleCountsWhereTheSliceAgrees) {
  Tensor first = Matrix();  // in the sample, not in the slice
  const float other = 99;
  std::memcpy(first.payload.data(), &other, sizeof(other));
  EXPECT_EQ(DiffOf(WithoutHash(first), Reduced(Matrix(), kPartSlice)).overall, Overall::kSame);
  EXPECT_EQ(DiffOf(WithoutHash(first), Reduced(Matrix(), kPartSlice | kPartSample)).overall,
            Overall::kDiffers);
}

TEST(OneSideKeptLess, SamplesOfTwoDTypesAreOfTheSameElements) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const Tensor wide = Vector<float>("float32", values);
  std::vector<uint16_t> cut;
  for (const float value : values)
    cut.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  const Tensor narrow = Vector<uint16_t>("bfloat16", cut);
  DiffOptions options;
  options.pass.compute = *ParsePrecision("bf16");
  EXPECT_EQ(DiffOf(wide, Reduced(narrow, kPartSample), options).overall, Overall::kSame);
  EXPECT_EQ(DiffOf(Reduced(wide, kPartSample), narrow, options).overall, Overall::kSame);
  cut.back() = static_cast<uint16_t>(std::bit_cast<uint32_t>(99.0f) >> 16);
  const Tensor wrong = Vector<uint16_t>("bfloat16", cut);
  EXPECT_EQ(DiffOf(wide, Reduced(wrong, kPartSample), options).overall, Overall::kDiffers);
}

TEST(OneSideKeptLess, AnotherNumberOfSampledElementsIsMadeAgain) {
  Tensor kept = Reduced(Matrix(), kPartSample);
  Tensor whole = WithoutHash(Matrix());
  whole.record.sample.emplace(2 * sizeof(float));  // as another rule would have
  EXPECT_EQ(DiffOf(whole, kept).overall, Overall::kSame);
}

TEST(OneSideKeptLess, AnEmptySliceSaysNothing) {
  Tensor less = Reduced(Matrix(), kPartNone), other = less;
  for (Tensor* tensor : {&less, &other}) {
    tensor->record.slice = io::Slice{.begins = {4, 0},
                                     .sizes = {0, 8},
                                     .steps = {1, 1},
                                     .payload = {},
                                     .hash = {},
                                     .tile_digests = {}};
    tensor->payload.clear();
  }
  EXPECT_EQ(DiffOf(less, other).counts.not_judged, 1u);
  EXPECT_EQ(DiffOf(Spoiled(99), other).counts.not_judged, 1u);
}

TEST(OneSideKeptLess, FlushedNumbersOfASliceAreNoDifference) {
  std::vector<float> zeros(32), tiny(32, 1e-45f);
  zeros[31] = tiny[31] = 1;  // not in the slice
  const Tensor a = WithoutHash(MakeTensor<float>("float32", {4, 8}, zeros));
  const Tensor b = Reduced(MakeTensor<float>("float32", {4, 8}, tiny), kPartSlice);
  EXPECT_EQ(DiffOf(a, b).overall, Overall::kSame);
}

TEST(OneSideKeptLess, OfSliceAndSampleTheFartherOneCounts) {
  Tensor other = Matrix();
  const float near = 0.75f + 0x1p-12f, far = 99;
  std::memcpy(other.payload.data() + 8 * sizeof(float), &near, sizeof(near));  // in the slice
  std::memcpy(other.payload.data(), &far, sizeof(far));                        // in the sample
  const DiffReport report = DiffOf(WithoutHash(other), Reduced(Matrix(), kPartSlice | kPartSample));
  ASSERT_EQ(report.failing.size(), 1u);
  EXPECT_GT(report.failing[0].comparison.metrics->max_abs, 90);
}

TEST(OneSideKeptLess, AHashThatDiffersHidesNoPart) {
  Tensor other = Matrix();
  const float far = 99;
  std::memcpy(other.payload.data() + 8 * sizeof(float), &far, sizeof(far));  // in the slice
  other.record.hash = io::HashPayload(other.payload);
  const Tensor less = Reduced(Matrix(), kPartHash | kPartSlice);
  const DiffReport report = DiffOf(other, less);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.tolerance, 1u);
}

TEST(OneSideKeptLess, APartThatAgreesExcusesNoHash) {
  Tensor other = Spoiled(99);
  other.record.hash = io::HashPayload(other.payload);
  const DiffReport report = DiffOf(other, Reduced(Matrix(), kPartHash | kPartSlice));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.tolerance, 0u);
}

// ---- copies on several ranks ----

FakeRun OnRanks(const std::vector<Tensor>& outputs) {
  const Tensor in = Vector<float>("float32", {1, 2});
  FakeRun run(static_cast<int32_t>(outputs.size()));
  for (size_t rank = 0; rank < outputs.size(); ++rank)
    run.Pass(static_cast<int32_t>(rank), 0).Module("norm", in, outputs[rank]);
  return run;
}

TEST(CopiesWithoutValues, AreEachHeldAgainstTheOtherSide) {
  const FakeRun one = OnRanks({WithoutHash(Matrix())});
  for (const Parts part : {kPartStats, kPartSample, kPartHash | kPartStats}) {
    const Tensor good = Reduced(Matrix(), part), bad = Reduced(Matrix(1.5f), part);
    EXPECT_EQ(DiffOk(one, OnRanks({good, good})).overall, Overall::kSame);
    const DiffReport report =
        DiffOk(one, OnRanks({good, bad}), WithDims("norm", "... replicated[rank]"));
    EXPECT_EQ(report.overall, Overall::kDiffers);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->rank, 1);
  }
}

TEST(CopiesWithoutValues, OfWhichOneKeptThemAreCompared) {
  const FakeRun one = OnRanks({WithoutHash(Matrix())});
  const Tensor good = Reduced(Matrix(), kPartStats), bad = Reduced(Matrix(1.5f), kPartStats);
  const DiffOptions dims = WithDims("norm", "... replicated[rank]");
  EXPECT_EQ(DiffOk(one, OnRanks({WithoutHash(Matrix()), good}), dims).overall, Overall::kSame);
  EXPECT_EQ(DiffOk(one, OnRanks({WithoutHash(Matrix()), bad}), dims).overall, Overall::kDiffers);
}

// Of a copy that is not the one which is compared nobody else reads the values.
TEST(CopiesWithoutValues, OneThatCannotBeReadIsDamage) {
  const FakeRun one = OnRanks({WithoutHash(Matrix())});
  FakeRun copies(2);
  const Tensor in = Vector<float>("float32", {1, 2});
  copies.Pass(0, 0).Module("norm", in, Reduced(Matrix(), kPartStats));
  PassBuilder second = copies.Pass(1, 0);
  second.Module("norm", in, WithoutHash(Matrix()));
  second.Damage(second.last()->id);
  const DiffReport report = DiffOk(one, copies, WithDims("norm", "... replicated[rank]"));
  EXPECT_EQ(report.overall, Overall::kDamaged);
  EXPECT_EQ(report.counts.unreadable, 1u);
  EXPECT_EQ(report.counts.failing, 0u);
  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_EQ(report.damage[0].what, "pass.tdp: offset 4096: digest");
}

// Summands: that the statistics of one are not those of the sum says nothing.
TEST(CopiesWithoutValues, ThatAreNoCopiesAreNotJudged) {
  const FakeRun one = OnRanks({WithoutHash(Matrix())});
  const DiffReport report = DiffOk(
      one, OnRanks({Reduced(Matrix(0.25f), kPartStats), Reduced(Matrix(0.75f), kPartStats)}));
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.not_judged, 1u);
}

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
  EXPECT_THAT(Verdict(report), HasSubstr("of 3 pairs of operators nothing but shape"));
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
