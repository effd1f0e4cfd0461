#include "io/pass_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/io/pass_image.h"

namespace tdump::io::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PassReaderTest : public ::testing::Test {
 protected:
  std::unique_ptr<PassReader> Open(std::string_view bytes) {
    Store(env_.get(), "/p.tdp", bytes);
    auto reader = PassReader::Open(env_.get(), "/p.tdp");
    EXPECT_TRUE(reader.ok()) << reader.status().message();
    return reader.ok() ? std::move(*reader) : nullptr;
  }
  static std::vector<Record> Records(const PassReader& reader) {
    std::vector<Record> records;
    EXPECT_TRUE(reader
                    .ForEachRecord([&](const Record& r) {
                      records.push_back(r);
                      return true;
                    })
                    .ok());
    return records;
  }
  static std::vector<Record> Metas(const PassReader& reader) {
    std::vector<Record> records;
    EXPECT_TRUE(reader
                    .ForEachRecordMeta([&](const Record& r) {
                      records.push_back(r);
                      return true;
                    })
                    .ok());
    return records;
  }
  static std::vector<float> Floats(const PassReader& reader, const Record& record) {
    std::vector<float> values(record.payload->logical_bytes / sizeof(float));
    const Status status = reader.ReadPayload(record, 0, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  std::vector<std::string> Verify(std::string_view bytes) {
    std::vector<Damage> damage;
    const auto reader = Open(bytes);
    EXPECT_TRUE(reader->Verify(&damage).ok());
    std::vector<std::string> what;
    for (const Damage& d : damage) what.push_back(d.what);
    return what;
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
};

std::string Complete() {
  Image image = SmallPass();
  image.Finish();
  return image.bytes();
}

TEST_F(PassReaderTest, ReadsACompleteFile) {
  const auto reader = Open(Complete());
  EXPECT_TRUE(reader->complete());
  EXPECT_TRUE(reader->damage().empty());
  EXPECT_EQ(reader->info().ordinal, 7u);
  EXPECT_EQ(reader->info().local_step, 5u);
  EXPECT_EQ(reader->info().rank, 3);
  EXPECT_EQ(reader->info().world, 4);
  EXPECT_EQ(reader->info().host, "node1");
  ASSERT_EQ(reader->record_count(), 2u);
  const std::vector<Record> records = Records(*reader);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(ToText(records[0].key), "encoder.layer.0@output#");
  EXPECT_EQ(records[0].cls, "Linear");
  EXPECT_TRUE(records[0].leaf);
  EXPECT_EQ(records[0].dtype.view(), "float32");
  EXPECT_EQ(records[0].device, "cpu");
  EXPECT_THAT(records[0].sizes, ElementsAre(2, 3));
  EXPECT_THAT(Floats(*reader, records[0]), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(PassReaderTest, NamesThatReadersShareOutliveTheFirst) {
  NameTables names;
  Store(env_.get(), "/a.tdp", Complete());
  Store(env_.get(), "/b.tdp", Complete());
  auto first = PassReader::Open(env_.get(), "/a.tdp", &names);
  const auto second = PassReader::Open(env_.get(), "/b.tdp", &names);
  ASSERT_TRUE(first.ok() && second.ok());
  first->reset();
  EXPECT_EQ(ToText(Records(**second)[0].key), "encoder.layer.0@output#");
}

TEST_F(PassReaderTest, NamesOfAnotherFileDoNotHideDamage) {
  std::string damaged = Complete();
  damaged[damaged.find("encoder.layer.0")] ^= 1;
  Store(env_.get(), "/whole.tdp", Complete());
  Store(env_.get(), "/damaged.tdp", damaged);
  const size_t found = Open(damaged)->damage().size();
  EXPECT_GT(found, 0u);
  for (const bool whole_first : {true, false}) {
    NameTables names;
    std::vector<std::unique_ptr<PassReader>> readers;
    for (const bool whole : {whole_first, !whole_first}) {
      auto reader = PassReader::Open(env_.get(), whole ? "/whole.tdp" : "/damaged.tdp", &names);
      ASSERT_TRUE(reader.ok());
      EXPECT_EQ((*reader)->damage().size(), whole ? 0 : found);
      readers.push_back(std::move(*reader));
    }
  }
}

TEST_F(PassReaderTest, FollowsASharedPayload) {
  const auto reader = Open(Complete());
  const std::vector<Record> records = Records(*reader);
  EXPECT_EQ(records[1].payload->same_as, 1u);
  EXPECT_THAT(records[1].sizes, ElementsAre(6));
  EXPECT_THAT(Floats(*reader, records[1]), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto mapped = reader->MapPayload(records[1]);
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();
  EXPECT_EQ(std::memcmp(mapped->data(), FloatBytes({1, 2, 3, 4, 5, 6}).data(), 24), 0);
}

TEST_F(PassReaderTest, ReadsPayloadsOfRecordsWithoutDigests) {
  const auto reader = Open(Complete());
  for (const Record& record : Metas(*reader)) {
    EXPECT_THAT(record.tile_digests, IsEmpty());
    EXPECT_THAT(Floats(*reader, record), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(reader->PayloadOwner(record)->tile_digests, SizeIs(sizeof(Hash128)));
    EXPECT_EQ(reader->MapPayload(record)->size(), 24u);
  }
}

// What stands before the record of two floats under the same number.
enum class Namesake { kNoPayload, kOtherValues, kMore, kShares };

class NamesakeTest : public PassReaderTest, public ::testing::WithParamInterface<Namesake> {
 protected:
  static std::string Before(Image* image) {
    PayloadSection shared;
    shared.logical_bytes = 8;
    shared.same_as = 1;
    RecordSection record = FloatRecord(1, {2});
    switch (GetParam()) {
      case Namesake::kNoPayload:
        record.parts_asked = record.parts_kept = kPartMeta;
        return EncodeSection(record);
      case Namesake::kOtherValues:
        return EncodeSection(record) + image->Payload(FloatBytes({7, 8}));
      case Namesake::kMore:
        return EncodeSection(FloatRecord(1, {3})) + image->Payload(FloatBytes({7, 8, 9}));
      case Namesake::kShares:
        return EncodeSection(record) + EncodeSection(shared);
    }
    return "";
  }
};

TEST_P(NamesakeTest, NeitherIsTakenForTheOther) {
  Image two(kPassMagic);
  two.Name(1, "float32");
  two.Name(2, "cpu");
  two.Operator(0, 2);
  two.Record(1, Before(&two));
  two.Record(1, EncodeSection(FloatRecord(1, {2})) + two.Payload(FloatBytes({1, 2})));
  two.Finish();
  const auto reader = Open(two.bytes());
  EXPECT_THAT(Floats(*reader, Records(*reader).at(1)), ElementsAre(1, 2));
  EXPECT_THAT(reader->Get(1).status().message(), HasSubstr("number of a record before it"));
  const Record meta = Metas(*reader).at(1);
  std::array<std::byte, 8> bytes;
  EXPECT_EQ(reader->ReadPayload(meta, 0, bytes).code(), StatusCode::kCorrupt);
  EXPECT_EQ(reader->PayloadOwner(meta).status().code(), StatusCode::kCorrupt);
  EXPECT_EQ(reader->MapPayload(meta).status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(Verify(two.bytes()), Contains(HasSubstr("number of a record before it")));
}

TEST_F(PassReaderTest, AnIndexThatNamesAnotherRecordIsToldOfIt) {
  Image image(kPassMagic);
  image.Name(1, "float32");
  image.Name(2, "cpu");
  image.Operator(0, 2);
  image.Record(1, EncodeSection(FloatRecord(2, {2})) + image.Payload(FloatBytes({1, 2})));
  image.Record(2, EncodeSection(FloatRecord(1, {2})) + image.Payload(FloatBytes({3, 4})));
  image.Finish();
  const auto reader = Open(image.bytes());
  EXPECT_THAT(reader->Get(1).status().message(), HasSubstr("record: 2, the index says 1"));
  const auto all = [](const Record&) { return true; };
  EXPECT_FALSE(reader->ForEachRecord(all).ok());
  EXPECT_FALSE(reader->ForEachRecordMeta(all).ok());
}

INSTANTIATE_TEST_SUITE_P(All, NamesakeTest,
                         ::testing::Values(Namesake::kNoPayload, Namesake::kOtherValues,
                                           Namesake::kMore, Namesake::kShares));

TEST_F(PassReaderTest, ReadsPartOfAPayload) {
  const auto reader = Open(Complete());
  std::array<float, 2> part;
  const Record record = Records(*reader)[0];
  ASSERT_TRUE(reader->ReadPayload(record, 8, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_THAT(part, ElementsAre(3, 4));
  const Status outside = reader->ReadPayload(record, 20, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(outside.code(), StatusCode::kOutOfRange);
}

TEST_F(PassReaderTest, ReadsCalls) {
  const auto reader = Open(Complete());
  int calls = 0;
  ASSERT_TRUE(reader
                  ->ForEachCall([&](const CallRecord& call) {
                    ++calls;
                    EXPECT_EQ(call.path, "encoder.layer.0");
                    EXPECT_EQ(call.call.begin, 1u);
                    EXPECT_EQ(call.call.end, 2u);
                    EXPECT_EQ(call.call.pass, 7u);
                    EXPECT_EQ(call.text, "alpha=1");
                    EXPECT_EQ(call.arguments.size(), 1u);
                    EXPECT_THAT(call.arguments[0].sizes, ElementsAre(2, 3));
                    EXPECT_EQ(call.arguments[0].dtype, "float32");
                    return true;
                  })
                  .ok());
  EXPECT_EQ(calls, 1);
}

TEST_F(PassReaderTest, FindsByKeyAndById) {
  const auto reader = Open(Complete());
  Key key;
  key.path = "encoder.layer.0";
  key.role = Role::kInput;
  const auto found = reader->Find(key);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->id, 2u);
  key.call = 1;
  EXPECT_EQ(reader->Find(key).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(reader->Get(1)->id, 1u);
  EXPECT_EQ(reader->Get(3).status().code(), StatusCode::kNotFound);
}

TEST_F(PassReaderTest, VerifiesAGoodFile) { EXPECT_THAT(Verify(Complete()), ElementsAre()); }

TEST_F(PassReaderTest, ReadsAFileWithoutAnEnd) {
  const Image image = SmallPass();  // no index, no footer: killed
  const auto reader = Open(image.bytes());
  EXPECT_FALSE(reader->complete());
  ASSERT_EQ(reader->damage().size(), 1u);
  EXPECT_EQ(reader->damage()[0].offset, image.bytes().size());
  const std::vector<Record> records = Records(*reader);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].key.path, "encoder.layer.0");
  EXPECT_THAT(Floats(*reader, records[1]), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(PassReaderTest, AnEmptyPassThatWasJustOpenedHasNoRecords) {
  const auto reader = Open(Image(kPassMagic).bytes());
  EXPECT_FALSE(reader->complete());
  EXPECT_EQ(reader->record_count(), 0u);
}

TEST_F(PassReaderTest, SaysWhatIsNotAPassFile) {
  Store(env_.get(), "/short", "hello");
  EXPECT_THAT(PassReader::Open(env_.get(), "/short").status().message(),
              HasSubstr("/short: offset 0: file header: 5 bytes"));
  Store(env_.get(), "/text", std::string(100, 'x'));
  EXPECT_THAT(PassReader::Open(env_.get(), "/text").status().message(),
              HasSubstr("/text: offset 0: magic"));
  Store(env_.get(), "/manifest", Image(kManifestMagic).bytes());
  EXPECT_THAT(PassReader::Open(env_.get(), "/manifest").status().message(),
              HasSubstr("not a tdump pass file"));
}

TEST_F(PassReaderTest, RefusesALaterMajorVersionAndReadsALaterMinorOne) {
  FileHeader header;
  header.version_minor = 9;
  EXPECT_TRUE(Open(Image(kPassMagic, header).bytes()) != nullptr);
  header.version_major = 2;
  Store(env_.get(), "/later", Image(kPassMagic, header).bytes());
  const Status status = PassReader::Open(env_.get(), "/later").status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("version 2.9"));
}

// One byte in the middle of a payload.
TEST_F(PassReaderTest, ACorruptPayloadByteIsDamageAtItsPlace) {
  Image image = SmallPass();
  image.Finish();
  std::string bytes = image.bytes();
  const size_t at = bytes.find(std::string("\0\0\x80\x3f\0\0\0\x40", 8));  // 1.0f, 2.0f
  ASSERT_NE(at, std::string::npos);
  bytes[at + 5] ^= 1;
  const auto reader = Open(bytes);
  const Record record = Records(*reader)[0];
  std::array<std::byte, 24> out;
  const Status status = reader->ReadPayload(record, 0, out);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(status.message(),
              HasSubstr("/p.tdp: offset " + std::to_string(at) + ": payload of record 1"));
  EXPECT_TRUE(reader->ReadPayload(record, 0, out, /*verify=*/false).ok());
  std::vector<Damage> damage;
  ASSERT_TRUE(reader->Verify(&damage).ok());
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_EQ(damage[0].file, "/p.tdp");
  EXPECT_EQ(damage[0].offset, at);
}

TEST_F(PassReaderTest, ADamagedRecordLeavesTheOthersReadable) {
  Image image = SmallPass();
  const uint64_t first = image.index().records[0].frame_offset;
  image.Finish();
  std::string bytes = image.bytes();
  bytes[first + sizeof(FrameHeader) + 40] ^= 1;
  const auto reader = Open(bytes);
  int visited = 0;
  const Status status = reader->ForEachRecord([&](const Record& r) {
    visited += r.id == 2;
    return true;
  });
  EXPECT_EQ(visited, 1);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(status.message(),
              HasSubstr("/p.tdp: offset " + std::to_string(first + sizeof(FrameHeader))));
}

TEST_F(PassReaderTest, AForgedFooterFallsBackToAScan) {
  std::string bytes = Complete();
  bytes[bytes.size() - 50] ^= 0x40;  // index_offset
  const auto reader = Open(bytes);
  EXPECT_FALSE(reader->complete());
  EXPECT_EQ(Records(*reader).size(), 2u);
}

TEST_F(PassReaderTest, SkipsUnknownFramesAndSections) {
  Image image = SmallPass();
  image.Frame(static_cast<FrameKind>(200), RawSection(0x7777, "later"));
  RecordSection meta = FloatRecord(3, {0});
  meta.parts_kept = kPartMeta;
  image.Record(3, EncodeSection(meta) + RawSection(0x0599, "a later companion"));
  image.Finish();
  EXPECT_TRUE(Open(image.bytes())->complete());
  EXPECT_EQ(Records(*Open(image.bytes())).size(), 3u);
  EXPECT_THAT(Verify(image.bytes()), ElementsAre());
}

TEST_F(PassReaderTest, ExpandsStrideZeroDimensions) {
  Record record;
  record.dtype = MakeDType("int16", 16);
  record.sizes = {2, 3, 2};
  record.strides = {1, 0, 2};
  const std::array<int16_t, 4> stored = {1, 2, 3, 4};
  const auto bytes = ExpandPayload(record, std::as_bytes(std::span(stored)));
  std::vector<int16_t> values(bytes.size() / 2);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_THAT(values, ElementsAre(1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4));
}

TEST_F(PassReaderTest, IdsBeyondDoublePrecisionAreExact) {
  constexpr uint64_t kBig = (1ull << 53) + 1;
  FileHeader header;
  header.ordinal = kBig;
  header.created_ns = kBig + 2;
  Image image(kPassMagic, header);
  PassSection pass;
  pass.ordinal = kBig;
  pass.local_step = kBig + 4;
  pass.job_step = int64_t(kBig) + 6;
  pass.started_ns = kBig + 8;
  image.Frame(FrameKind::kPass, EncodeSection(pass));
  image.Name(1, "float32");
  image.Name(2, "cpu");
  image.Name(3, "a");
  image.Operator(0, 3);
  RecordSection record = FloatRecord(kBig + 10, {1});
  record.parts_kept = kPartMeta;
  record.call_begin = kBig + 12;
  record.call_index = kBig + 14;
  record.storage_id = ~0ull;
  record.storage_offset = INT64_MIN;
  record.seen = kBig + 16;
  record.filter_sets = 1ull << 63;
  image.Record(record.record, EncodeSection(record));
  image.Finish();
  const auto reader = Open(image.bytes());
  EXPECT_EQ(reader->info().local_step, kBig + 4);
  EXPECT_EQ(reader->info().job_step, int64_t(kBig) + 6);
  const auto found = reader->Get(kBig + 10);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->call_begin, kBig + 12);
  EXPECT_EQ(found->key.call, kBig + 14);
  EXPECT_EQ(found->storage_id, ~0ull);
  EXPECT_EQ(found->storage_offset, INT64_MIN);
  EXPECT_EQ(found->seen, kBig + 16);
  EXPECT_EQ(found->filter_sets, 1ull << 63);
}

}  // namespace
}  // namespace tdump::io::test
