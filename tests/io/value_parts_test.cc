#include "io/value_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "io/part_decoder.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

using testing::ElementsAre;

const DType kByte = MakeDType("uint8", 8);

std::vector<std::byte> Counting(size_t count) { return Bytes(count, 0); }

std::vector<int> Ints(std::span<const std::byte> bytes) {
  std::vector<int> out;
  for (std::byte byte : bytes) out.push_back(static_cast<int>(byte));
  return out;
}

Keep Asking(Parts parts, uint64_t sample = 0, std::span<const SliceRange> slice = {}) {
  Keep keep(parts);
  keep.sample = sample;
  keep.slice = slice;
  return keep;
}

TEST(Slice, ResolvesAsPythonDoes) {
  EXPECT_EQ(Resolve({0, 8, 1}, 5), (SlicedDim{0, 5, 1}));
  EXPECT_EQ(Resolve({-2, INT64_MAX, 1}, 5), (SlicedDim{3, 2, 1}));
  EXPECT_EQ(Resolve({1, -1, 2}, 6), (SlicedDim{1, 2, 2}));  // 1, 3
  EXPECT_EQ(Resolve({1, 4, INT64_MAX}, 6), (SlicedDim{1, 1, 6}));
  EXPECT_EQ(Resolve({4, 2, 1}, 5).size, 0);
  EXPECT_EQ(Resolve({9, INT64_MAX, 1}, 5).size, 0);
  EXPECT_EQ(Resolve({-9, INT64_MAX, 1}, 5), (SlicedDim{0, 5, 1}));
}

TEST(Sample, IsSpacedEvenlyFromFirstToLast) {
  std::vector<uint64_t> indices;
  for (uint64_t k = 0; k < 5; ++k) indices.push_back(SampleIndex(k, 5, 101));
  EXPECT_THAT(indices, ElementsAre(0, 25, 50, 75, 100));
  EXPECT_EQ(SampleSize(64, 10), 10u);
  EXPECT_EQ(SampleIndex(7, 10, 10), 7u);
  EXPECT_EQ(SampleIndex(4095, 4096, uint64_t{1} << 60), (uint64_t{1} << 60) - 1);
}

// numpy.arange(24).reshape(2, 3, 4)[:, 1:3, ::2].ravel()
TEST(PartsOf, ASliceOfThreeDimensions) {
  const SliceRange slice[] = {{}, {1, 3, 1}, {0, INT64_MAX, 2}};
  const int64_t sizes[] = {2, 3, 4}, strides[] = {12, 4, 1};
  const ValueParts parts =
      PartsOf(Asking(kPartSlice, 0, slice), Content::kWhole, kByte, sizes, strides, Counting(24));
  ASSERT_TRUE(parts.slice);
  EXPECT_THAT(parts.slice->sizes, ElementsAre(2, 2, 2));
  EXPECT_THAT(parts.slice->begins, ElementsAre(0, 1, 0));
  EXPECT_THAT(parts.slice->steps, ElementsAre(1, 1, 2));
  EXPECT_THAT(Ints(parts.slice_bytes), ElementsAre(4, 6, 8, 10, 16, 18, 20, 22));
  EXPECT_FALSE(parts.statistics);
  EXPECT_FALSE(parts.sample);
}

TEST(PartsOf, ASliceOfWholeRowsAndRangesTooMany) {
  const SliceRange slice[] = {{1, 3, 1}, {}, {0, 1, 1}};
  const int64_t sizes[] = {4, 3}, strides[] = {3, 1};
  const ValueParts parts =
      PartsOf(Asking(kPartSlice, 0, slice), Content::kWhole, kByte, sizes, strides, Counting(12));
  EXPECT_THAT(Ints(parts.slice_bytes), ElementsAre(3, 4, 5, 6, 7, 8));
}

TEST(PartsOf, AnEmptySliceAndAScalar) {
  const SliceRange slice[] = {{5, 9, 1}};
  const int64_t sizes[] = {4}, strides[] = {1};
  const ValueParts none =
      PartsOf(Asking(kPartSlice, 0, slice), Content::kWhole, kByte, sizes, strides, Counting(4));
  EXPECT_THAT(none.slice->sizes, ElementsAre(0));
  EXPECT_TRUE(none.slice_bytes.empty());
  const ValueParts scalar =
      PartsOf(Asking(kPartSlice, 0, slice), Content::kWhole, kByte, {}, {}, Counting(1));
  EXPECT_THAT(Ints(scalar.slice_bytes), ElementsAre(0));
}

// A dimension of stride 0 is in the payload once, in a slice's too.
TEST(PartsOf, ExpandedDimensions) {
  const SliceRange slice[] = {{0, 2, 1}, {1, 3, 1}};
  const int64_t sizes[] = {3, 4}, strides[] = {0, 1};
  const Keep keep = Asking(kPartSlice | kPartSample, 5, slice);
  const ValueParts parts = PartsOf(keep, Content::kWhole, kByte, sizes, strides, Counting(4));
  EXPECT_THAT(Ints(parts.slice_bytes), ElementsAre(1, 2));
  EXPECT_THAT(parts.slice->sizes, ElementsAre(2, 2));
  // Logical elements 0, 2, 5, 8, 11 of three rows 0 1 2 3.
  EXPECT_THAT(parts.sample->units, ElementsAre(0, 2, 1, 0, 3));
}

TEST(PartsOf, BytesThatNeverCameLeavePartsOut) {
  const SliceRange slice[] = {{0, 2, 1}};
  const int64_t sizes[] = {4}, strides[] = {1};
  const Statistics given = StatisticsOf(kByte, Counting(4));
  const ValueParts parts = PartsOf(Asking(kPartStats | kPartSlice | kPartSample, 2, slice),
                                   Content::kWhole, kByte, sizes, strides, {}, &given);
  EXPECT_EQ(parts.kept(), kPartStats);
  EXPECT_EQ(parts.statistics->count, 4u);
}

TEST(PartsBuilder, TheCutHasNoEffect) {
  const SliceRange slice[] = {{1, 9, 3}, {2, -1, 2}};
  const int64_t sizes[] = {10, 20}, strides[] = {20, 1};
  const DType dtype = MakeDType("int16", 16);
  const std::vector<std::byte> payload = Bytes(400, 3, 7);
  const Keep keep = Asking(kPartStats | kPartSlice | kPartSample, 7, slice);
  const ValueParts whole = PartsOf(keep, Content::kWhole, dtype, sizes, strides, payload);
  EXPECT_EQ(whole.sample->units.size(), 14u);
  EXPECT_EQ(whole.slice_bytes.size(), 3u * 9 * 2);
  for (size_t piece : {1, 3, 64, 399}) {
    PartsBuilder builder(keep, Content::kWhole, dtype, sizes, strides);
    for (size_t at = 0; at < payload.size(); at += piece)
      builder.Update(std::span(payload).subspan(at, std::min(piece, payload.size() - at)));
    const ValueParts parts = builder.Finish();
    EXPECT_EQ(parts.slice_bytes, whole.slice_bytes);
    EXPECT_EQ(parts.sample->units, whole.sample->units);
    EXPECT_EQ(parts.statistics->l1, whole.statistics->l1);
  }
}

TEST(StatisticsSection, ComesBackAsItWas) {
  const std::vector<int64_t> values = {INT64_MIN, -1, 0, 5, INT64_MAX};
  for (const auto& [dtype, bytes] :
       {std::pair{MakeDType("int64", 64), std::as_bytes(std::span(values))},
        std::pair{MakeDType("float32", 32), std::as_bytes(std::span(values))},
        std::pair{MakeDType("float32", 32), std::span<const std::byte>()}}) {
    const Statistics statistics = StatisticsOf(dtype, bytes);
    const auto back = FromSection(ToSection(statistics));
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_TRUE(*back == statistics);
  }
  StatisticsSection bad;
  bad.first_bin = 30;
  bad.histogram.assign(3, 1);
  EXPECT_FALSE(FromSection(bad).ok());
}

// Through the sink and back.
struct Written {
  explicit Written(Keep keep, std::vector<std::byte> bytes = Bytes(200, 0)) {
    rig.Open(0);
    Call call = rig.NewCall(rig.Op("a"));
    const int64_t sizes[] = {10, 20}, strides[] = {20, 1};
    const Slot slot =
        rig.sink->reserve(call, SinkRig::Seen("", "uint8", sizes, strides), keep, bytes.size());
    std::memcpy(slot.data, bytes.data(), bytes.size());
    rig.sink->commit(slot);
    EXPECT_TRUE(rig.sink->Drain(5000));
    reader = rig.Read("pass00000.tdp");
    record = rig.Records("pass00000.tdp").at(0);
    std::vector<Damage> damage;
    EXPECT_TRUE(reader->Verify(&damage).ok());
    EXPECT_TRUE(damage.empty()) << damage[0].what;
  }
  SinkRig rig;
  std::unique_ptr<PassReader> reader;
  Record record;
};

TEST(WrittenParts, StatisticsOnly) {
  const Written w(Asking(kPartMeta | kPartStats));
  EXPECT_EQ(w.record.parts_kept, kPartMeta | kPartStats);
  EXPECT_EQ(w.record.reason, SkipReason::kNone);
  EXPECT_FALSE(w.record.payload);
  EXPECT_FALSE(w.record.hash);
  ASSERT_TRUE(w.record.statistics);
  EXPECT_EQ(w.record.statistics->mean, 99.5);
  EXPECT_TRUE(w.record.statistics->exact_sum == 19900);
}

TEST(WrittenParts, FullAndStatistics) {
  Written w(Asking(kLevelFull | kPartStats));
  EXPECT_EQ(w.record.parts_kept, kLevelFull | kPartStats);
  EXPECT_EQ(w.record.statistics->max, 199);
  EXPECT_EQ(w.rig.Payload(*w.reader, w.record), Bytes(200, 0));
}

TEST(WrittenParts, SliceAndSample) {
  const SliceRange slice[] = {{2, 4, 1}, {18, INT64_MAX, 1}};
  Written w(Asking(kPartMeta | kPartSlice | kPartSample, 3, slice));
  EXPECT_EQ(w.record.parts_kept, kPartMeta | kPartSlice | kPartSample);
  EXPECT_EQ(Ints(*w.record.sample), (std::vector<int>{0, 99, 199}));
  ASSERT_TRUE(w.record.slice);
  EXPECT_FALSE(w.record.payload);
  const Record part = SliceAsRecord(w.record);
  EXPECT_THAT(part.sizes, ElementsAre(2, 2));
  EXPECT_EQ(Ints(w.rig.Payload(*w.reader, part)), (std::vector<int>{58, 59, 78, 79}));
}

// Every byte of a file with all of them: an error or a value, never a crash, and never another
// slice in silence.
TEST(WrittenParts, AFlippedByteIsNoticed) {
  const SliceRange slice[] = {{2, 4, 1}};
  Keep keep = Asking(kPartMeta | kPartStats | kPartSlice | kPartSample, 3, slice);
  keep.compress = Compression::kZstd;
  Written w(keep, std::vector<std::byte>(200, std::byte{7}));
  const std::string path = JoinPath(w.rig.directory, "pass00000.tdp");
  const std::string bytes = *ReadFile(w.rig.env, path, 1 << 20);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x21);
    const auto forged = NewMemoryEnv();
    ASSERT_TRUE(forged->MakeDirs("d", 0700).ok());
    auto file = *forged->CreateExclusive("d/p.tdp", 0600);
    ASSERT_TRUE(file->Append(std::as_bytes(std::span(bad))).ok());
    ASSERT_TRUE(file->Close().ok());
    const auto reader = PassReader::Open(forged.get(), "d/p.tdp");
    if (!reader.ok()) continue;
    (void)(*reader)->ForEachRecord([&](const Record& record) {
      if (!record.slice) return true;
      const Record part = SliceAsRecord(record);
      std::vector<std::byte> values(part.payload->logical_bytes);
      if ((*reader)->ReadPayload(part, 0, values).ok())
        EXPECT_EQ(values, std::vector<std::byte>(40, std::byte{7})) << i;
      return true;
    });
    std::vector<Damage> damage;
    (void)(*reader)->Verify(&damage);
  }
}

TEST(WrittenParts, APayloadHoldsItsSlices) {
  const SliceRange slice[] = {{2, 4, 1}};
  const Written w(Asking(kLevelFull | kPartSlice, 0, slice));
  EXPECT_EQ(w.record.parts_kept, kLevelFull | kPartSlice);
  EXPECT_FALSE(w.record.slice);
}

}  // namespace
}  // namespace tdump::io
