// Records of large tensors read without the digests of their tiles.
#include "io/record_body.h"

#include <gtest/gtest.h>

#include "core/key.h"
#include "io/pass_digest.h"
#include "io/pass_reader.h"
#include "tests/io/pass_image.h"

namespace tdump::io::test {
namespace {

constexpr size_t kNumbers = 3 << 20;  // 12 MiB
constexpr size_t kTiles = 768;        // whose digests take 12 KiB

struct LargePass {
  std::string bytes;
  size_t record = 0;   // where the body of its record begins
  size_t digests = 0;  // where the digests do
  size_t behind = 0;   // where what follows them does
  size_t record_end = 0;
};

// What a reader says of a record.
std::string Text(const Record& record) {
  std::string text = ToText(record.key) + " " + record.dtype.name + " " + record.dims;
  for (const int64_t size : record.sizes) text += " " + std::to_string(size);
  text += " " + std::to_string(record.parts_kept) + (record.hash ? " hash" : "");
  if (record.payload) text += " at " + std::to_string(record.payload->offset);
  return text;
}

// As a record has them whose payload is kept; of what they name nothing is there.
std::string PayloadSections() {
  const PayloadSection payload{.offset = sizeof(FileHeader),
                               .stored_bytes = 16,
                               .logical_bytes = kNumbers * sizeof(float),
                               .codec = 1,
                               .same_as = 0};
  TilesSection tiles;
  tiles.digests.assign(kTiles * sizeof(Hash128), 3);
  return EncodeSection(payload) + EncodeSection(tiles);
}

LargePass MakePass(bool with_values) {
  Image image(kPassMagic);
  image.Name(0, "x");
  image.Name(1, "float32");
  image.Name(2, "layer.0");
  image.Operator(0, 2);
  RecordSection section = FloatRecord(1, {static_cast<int64_t>(kNumbers)});
  section.parts_kept = section.parts_asked = kPartMeta | kPartHash | kPartPayload;
  const std::string payload = with_values
                                  ? image.Payload(FloatBytes(std::vector<float>(kNumbers, 1.5f)))
                                  : PayloadSections();
  const std::string head = EncodeSection(section) + EncodeSection(HashSection{});
  ShardSection shard;
  // With its header as long as one bit of a length says.
  shard.dims = "h[tp]" + std::string(47, ' ');
  LargePass pass;
  const std::string body = head + payload + EncodeSection(shard);
  pass.record = image.Record(1, body) + sizeof(FrameHeader);
  pass.record_end = pass.record + body.size();
  pass.behind = pass.record_end - EncodeSection(shard).size();
  pass.digests = pass.behind - kTiles * sizeof(Hash128);
  image.Finish();
  pass.bytes = image.bytes();
  return pass;
}

class RecordBodyTest : public ::testing::Test {
 protected:
  // The record of the pass by each way that leaves the digests out, empty where damage is told.
  std::vector<std::string> Read(const std::string& bytes) {
    Store(env_.get(), "/p.tdp", bytes);
    const auto reader = PassReader::Open(env_.get(), "/p.tdp");
    if (!reader.ok()) return {};
    std::vector<std::string> records;
    (void)(*reader)->ForEachRecordMeta([&](const Record& record) {
      records.push_back(Text(record));
      return true;
    });
    if (auto record = (*reader)->GetMeta(1); record.ok()) records.push_back(Text(*record));
    return records;
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
};

TEST_F(RecordBodyTest, HasAllButTheDigests) {
  const LargePass pass = MakePass(/*with_values=*/true);
  Store(env_.get(), "/p.tdp", pass.bytes);
  const auto reader = PassReader::Open(env_.get(), "/p.tdp");
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  const auto whole = (*reader)->Get(1);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->tile_digests.size(), kTiles * sizeof(Hash128));
  EXPECT_TRUE(whole->dims.starts_with("h[tp]"));
  EXPECT_EQ(Read(pass.bytes), std::vector<std::string>(2, Text(*whole)));
}

TEST_F(RecordBodyTest, TheDigestsAreNotRead) {
  const LargePass pass = MakePass(/*with_values=*/true);
  std::string bytes = pass.bytes;
  for (size_t at = pass.digests; at < pass.behind; ++at) bytes[at] ^= 0x5a;
  EXPECT_EQ(Read(bytes).size(), 2u);
  const auto digest = DigestPass(env_.get(), "/p.tdp");
  Store(env_.get(), "/p.tdp", pass.bytes);
  const auto undamaged = DigestPass(env_.get(), "/p.tdp");
  ASSERT_TRUE(digest.ok() && undamaged.ok());
  EXPECT_EQ(digest->values, undamaged->values);
  // Damage shows when the values are read, and when all is verified.
  Store(env_.get(), "/p.tdp", bytes);
  const auto reader = PassReader::Open(env_.get(), "/p.tdp");
  const auto record = (*reader)->GetMeta(1);
  std::vector<std::byte> some(64);
  EXPECT_EQ((*reader)->ReadPayload(*record, 0, some).code(), StatusCode::kCorrupt);
  std::vector<Damage> damage;
  (void)(*reader)->Verify(&damage);
  EXPECT_FALSE(damage.empty());
}

TEST_F(RecordBodyTest, AnyOtherBitThatIsWrongIsTold) {
  const LargePass pass = MakePass(/*with_values=*/false);
  const std::vector<std::string> whole = Read(pass.bytes);
  ASSERT_EQ(whole.size(), 2u);
  for (size_t at = pass.record; at < pass.record_end; ++at) {
    if (at == pass.digests) at = pass.behind;
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = pass.bytes;
      bytes[at] ^= static_cast<char>(1 << bit);
      const std::vector<std::string> records = Read(bytes);
      EXPECT_TRUE(records.empty() || records == whole) << "byte " << at << " bit " << bit;
    }
  }
}

}  // namespace
}  // namespace tdump::io::test
