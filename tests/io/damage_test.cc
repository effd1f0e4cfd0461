// What a torn or damaged file gives: an error, or the right data;
// never a crash, never a wrong value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "io/manifest_reader.h"
#include "io/merged_manifest.h"
#include "io/pass_reader.h"
#include "tests/io/pass_image.h"

namespace tdump::io::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Everything a reader says of a file, as text.
struct Content {
  bool opened = false;
  bool told = false;  // of damage, by whichever call
  std::string info;
  std::map<uint64_t, std::string> records;
  std::map<uint64_t, std::vector<std::byte>> payloads;
  std::vector<std::string> calls;
};

template <class... Fields>
std::string Joined(const Fields&... fields) {
  std::string text;
  const auto add = [&](const auto& field) {
    if constexpr (std::is_convertible_v<decltype(field), std::string_view>)
      text += std::string(std::string_view(field));
    else
      text += std::to_string(field);
    text += '|';
  };
  (add(fields), ...);
  return text;
}

std::string Text(const PassInfo& info) {
  return Joined(info.ordinal, info.local_step, info.mode_step, info.job_step, int(info.mode),
                info.generation, info.rank, info.world, info.pid, info.started_ns, info.host);
}

std::string Text(const Record& r) {
  std::string text =
      Joined(r.id, ToText(r.key), int(r.kind), r.cls, int(r.leaf), r.call_begin, r.seen,
             r.dtype.view(), r.dtype.bits_per_element, r.dtype.elements_per_unit, int(r.layout),
             r.device, r.storage_offset, r.storage_id, r.storage_bytes, r.parts_asked, r.parts_kept,
             r.filter_sets, int(r.reason), r.reason_detail, r.dims, r.subclass);
  for (int64_t size : r.sizes) text += std::to_string(size) + ",";
  for (int64_t stride : r.strides) text += std::to_string(stride) + ";";
  if (r.hash) text.append(reinterpret_cast<const char*>(r.hash->data()), r.hash->size());
  return text;
}

std::string Text(const CallRecord& c) {
  std::string text = Joined(c.path, c.op, c.call.begin, c.call.end, c.call.parent, c.call.index,
                            c.call.micro, c.call.lane, c.call.thread, c.text);
  for (const ArgumentMeta& a : c.arguments) text += Joined(int(a.role), a.arg, a.dtype);
  return text;
}

Content ReadAll(Env* env, std::string_view bytes) {
  Store(env, "/d.tdp", bytes);
  Content content;
  const auto reader = PassReader::Open(env, "/d.tdp");
  if (!reader.ok()) {
    content.told = true;
    return content;
  }
  const PassReader& pass = **reader;
  content.opened = true;
  content.told = !pass.damage().empty();
  content.info = Text(pass.info());
  const Status records = pass.ForEachRecord([&](const Record& record) {
    content.records[record.id] = Text(record);
    if (!record.payload) return true;
    std::vector<std::byte> payload(record.payload->logical_bytes);
    const Status read = pass.ReadPayload(record, 0, payload);
    if (read.ok())
      content.payloads[record.id] = std::move(payload);
    else
      content.told = true;
    return true;
  });
  const Status calls = pass.ForEachCall(
      [&](const CallRecord& call) { return content.calls.push_back(Text(call)), true; });
  std::vector<Damage> damage;
  const Status verified = pass.Verify(&damage);
  content.told |= !records.ok() || !calls.ok() || !verified.ok() || !damage.empty();
  return content;
}

// A pass with all that a version 1 file may hold, and things of a later version between.
std::string FullPass() {
  Image image = SmallPass();
  AliasSection alias;
  alias.path_name = 4;
  image.Frame(static_cast<FrameKind>(77), RawSection(0x7777, "of a later version"));
  RecordSection shard = FloatRecord(3, {2, 2});
  shard.parts_kept = kPartMeta;
  shard.reason = static_cast<uint8_t>(SkipReason::kSubclass);
  shard.reason_detail = "DTensor";
  ShardSection companion;
  companion.dims = "b h[tp]";
  companion.global_shape = {2, 8};
  image.Record(3, EncodeSection(shard) + EncodeSection(companion) + RawSection(0x0599, "later"));
  RecordSection empty = FloatRecord(4, {0, 5});
  image.Record(4, EncodeSection(empty) + image.Payload({}));
  image.Finish();
  return image.bytes();
}

// Bytes that no checksum covers because nobody reads them: padding behind
// bodies, and what pad frames hold.
std::set<size_t> FreeBytes(const std::string& file) {
  std::set<size_t> free;
  for (size_t at = sizeof(FileHeader); at + sizeof(FrameHeader) <= file.size();) {
    FrameHeader header;
    std::memcpy(&header, file.data() + at, sizeof header);
    if (header.magic != kFrameMagic) break;
    const size_t body = at + sizeof header;
    const bool pad = header.kind == static_cast<uint16_t>(FrameKind::kPad);
    const size_t end = PadTo(body + header.body_bytes, 8);
    for (size_t i = pad ? body : body + header.body_bytes; i < end; ++i) free.insert(i);
    at = end;
  }
  return free;
}

// The bytes of the file's header, of each frame's header, and of the footer of a pass.
std::vector<size_t> HeadBytes(const std::string& file, bool footer) {
  std::vector<size_t> bytes;
  const auto add = [&](size_t begin, size_t count) {
    for (size_t i = 0; i < count; ++i) bytes.push_back(begin + i);
  };
  add(0, sizeof(FileHeader));
  const size_t end = file.size() - (footer ? sizeof(FileFooter) : 0);
  for (size_t at = sizeof(FileHeader); at < end;) {
    FrameHeader header;
    std::memcpy(&header, file.data() + at, sizeof header);
    EXPECT_EQ(header.magic, kFrameMagic) << at;
    add(at, sizeof header);
    at = PadTo(at + sizeof header + header.body_bytes, 8);
  }
  add(end, file.size() - end);
  return bytes;
}

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() : file_(FullPass()), whole_(ReadAll(env_.get(), file_)) {}

  // Nothing in `found` that is not so in the undamaged file.
  void ExpectNothingWrong(const Content& found) {
    for (const auto& [id, text] : found.records) {
      ASSERT_TRUE(whole_.records.contains(id));
      ASSERT_EQ(text, whole_.records.at(id));
    }
    for (const auto& [id, payload] : found.payloads) ASSERT_EQ(payload, whole_.payloads.at(id));
    for (const std::string& call : found.calls) ASSERT_THAT(whole_.calls, testing::Contains(call));
    if (found.opened && !found.told) ASSERT_EQ(found.info, whole_.info);
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
  const std::string file_;
  const Content whole_;
};

TEST_F(DamageTest, TheUndamagedFileReadsWhole) {
  EXPECT_FALSE(whole_.told);
  EXPECT_EQ(whole_.records.size(), 4u);
  EXPECT_EQ(whole_.payloads.size(), 3u);
  EXPECT_EQ(whole_.calls.size(), 1u);
}

TEST_F(DamageTest, EveryTruncationIsToldAndWhatStandsIsRight) {
  for (size_t length = 0; length < file_.size(); ++length) {
    const Content found = ReadAll(env_.get(), std::string_view(file_).substr(0, length));
    ASSERT_TRUE(found.told) << "cut at " << length;
    ASSERT_NO_FATAL_FAILURE(ExpectNothingWrong(found)) << "cut at " << length;
  }
}

// A torn file keeps every record whose frame is whole (and whose payload came before it).
TEST_F(DamageTest, ATornFileKeepsEveryWholeRecord) {
  FrameHeader header;
  size_t records = 0;
  for (size_t at = sizeof(FileHeader); at < file_.size() - sizeof(FileFooter);) {
    std::memcpy(&header, file_.data() + at, sizeof header);
    at = PadTo(at + sizeof header + header.body_bytes, 8);
    records += header.kind == static_cast<uint16_t>(FrameKind::kRecord);
    EXPECT_EQ(ReadAll(env_.get(), std::string_view(file_).substr(0, at)).records.size(), records);
    EXPECT_EQ(ReadAll(env_.get(), file_.substr(0, at) + std::string(40, '\0')).records.size(),
              records);
  }
  EXPECT_EQ(records, 4u);
}

TEST_F(DamageTest, EveryFlippedByteIsToldOrMeansNothing) {
  const std::set<size_t> free = FreeBytes(file_);
  for (size_t at = 0; at < file_.size(); ++at) {
    for (const char mask : {'\x01', '\xff'}) {
      std::string bytes = file_;
      bytes[at] ^= mask;
      const Content found = ReadAll(env_.get(), bytes);
      ASSERT_TRUE(found.told || free.contains(at)) << "byte " << at;
      ASSERT_NO_FATAL_FAILURE(ExpectNothingWrong(found)) << "byte " << at;
    }
  }
}

TEST_F(DamageTest, EveryFlippedBitOfHeadsAndFooterIsTold) {
  const std::vector<size_t> heads = HeadBytes(file_, true);
  EXPECT_GT(heads.size(), 64u + 10 * 32 + 64);
  for (const size_t at : heads) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = file_;
      bytes[at] ^= static_cast<char>(1 << bit);
      const Content found = ReadAll(env_.get(), bytes);
      ASSERT_TRUE(found.told) << "byte " << at << " bit " << bit;
      ASSERT_NO_FATAL_FAILURE(ExpectNothingWrong(found)) << "byte " << at << " bit " << bit;
    }
  }
}

// Counts and lengths from the file, with right checksums around them, never drive an allocation.
class ForgedTest : public ::testing::Test {
 protected:
  // The file's first error, read in full.
  std::string ErrorOf(const Image& image) {
    Store(env_.get(), "/f.tdp", image.bytes());
    const auto reader = PassReader::Open(env_.get(), "/f.tdp");
    if (!reader.ok()) return reader.status().message();
    for (const Damage& damage : (*reader)->damage()) {
      if (damage.what.find("footer") == std::string::npos) return damage.what;
    }
    const Status records = (*reader)->ForEachRecord([&](const Record&) { return true; });
    if (!records.ok()) return records.message();
    const Status calls = (*reader)->ForEachCall([&](const CallRecord&) { return true; });
    return std::string(calls.message());
  }
  static std::string Bytes(uint64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  // A section whose field of eight bytes at `offset` says `value`.
  template <class Section>
  static std::string Forged(const Section& section, size_t offset, uint64_t value) {
    std::string archive = EncodeSection(section).substr(sizeof(SectionHeader));
    archive.replace(offset, sizeof value, Bytes(value));
    return RawSection(Section::kId, archive);
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
};

constexpr uint64_t kHuge[] = {1ull << 31, 1ull << 40, 1ull << 63, ~0ull};

TEST_F(ForgedTest, ANameLongerThanItsFrame) {
  for (const uint64_t length : kHuge) {
    Image image(kPassMagic);
    image.Frame(FrameKind::kName, Forged(NameSection{1, "abc"}, 4, length));
    EXPECT_THAT(ErrorOf(image), HasSubstr("count " + std::to_string(length) + " is more than"));
  }
}

TEST_F(ForgedTest, MoreDimensionsThanBytes) {
  for (const uint64_t count : kHuge) {
    Image image = SmallPass();
    // The count of `sizes`: behind eight fixed fields of 54 bytes and the names (io/sections.h).
    RecordSection record = FloatRecord(9, {1});
    const std::string archive = EncodeSection(record).substr(sizeof(SectionHeader));
    const std::string one = Bytes(1) + Bytes(1);  // count 1, size 1
    const size_t offset = archive.find(one);
    ASSERT_NE(offset, std::string::npos);
    image.Record(9, Forged(record, offset, count));
    image.Finish();
    EXPECT_THAT(ErrorOf(image), HasSubstr("count " + std::to_string(count) + " is more than"));
  }
}

TEST_F(ForgedTest, SizesThatAreNegativeOrOverflow) {
  for (const auto& [sizes, message] : std::vector<std::pair<std::vector<int64_t>, std::string>>{
           {{2, -1}, "sizes[1]: -1 is negative"},
           {{1ll << 31, 1ll << 31, 2}, "sizes: their product overflows"},
           {{INT64_MAX}, "sizes: their product overflows"}}) {
    Image image = SmallPass();
    RecordSection record = FloatRecord(9, {1});
    record.sizes = sizes;
    record.strides.assign(sizes.size(), 1);
    record.parts_kept = kPartMeta;
    image.Record(9, EncodeSection(record));
    image.Finish();
    EXPECT_THAT(ErrorOf(image), HasSubstr(message));
  }
}

TEST_F(ForgedTest, APayloadOutsideTheFile) {
  for (const uint64_t bytes : {1ull << 31, 1ull << 40, 1ull << 60}) {
    Image image = SmallPass();
    PayloadSection payload;
    payload.offset = 64;
    payload.stored_bytes = payload.logical_bytes = bytes;
    image.Record(9, EncodeSection(FloatRecord(9, {int64_t(bytes / 4)})) + EncodeSection(payload));
    image.Finish();
    EXPECT_THAT(ErrorOf(image), HasSubstr("lie outside the file"));
  }
}

TEST_F(ForgedTest, APayloadThatIsNotTheTensors) {
  Image image = SmallPass();
  const std::string parts = image.Payload(FloatBytes({1, 2, 3}));
  image.Record(9, EncodeSection(FloatRecord(9, {4})) + parts);
  image.Finish();
  EXPECT_THAT(ErrorOf(image), HasSubstr("logical_bytes: 12, expected 16 by dtype and sizes"));
}

TEST_F(ForgedTest, AFrameLongerThanTheFile) {
  for (const uint64_t bytes : kHuge) {
    Image image = SmallPass();
    std::string file = image.bytes();
    FrameHeader header;
    header.kind = static_cast<uint16_t>(FrameKind::kName);
    header.body_bytes = bytes;
    header.checksum = Checksum(&header, 24);
    file.append(reinterpret_cast<const char*>(&header), sizeof header);
    Store(env_.get(), "/f.tdp", file + std::string(100, 'x'));
    const auto reader = PassReader::Open(env_.get(), "/f.tdp");
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ((*reader)->record_count(), 2u);
    EXPECT_THAT((*reader)->damage().at(0).what,
                HasSubstr("body_bytes: " + std::to_string(bytes) + ", only"));
  }
}

TEST_F(ForgedTest, RecordsThatReferInACircle) {
  Image image = SmallPass();
  PayloadSection payload;
  payload.logical_bytes = 4;
  for (const uint64_t id : {8, 9}) {
    payload.same_as = 17 - id;
    image.Record(id, EncodeSection(FloatRecord(id, {1})) + EncodeSection(payload));
  }
  image.Finish();
  Store(env_.get(), "/f.tdp", image.bytes());
  const auto reader = PassReader::Open(env_.get(), "/f.tdp");
  ASSERT_TRUE(reader.ok());
  std::array<std::byte, 4> out;
  const Status status = (*reader)->ReadPayload(*(*reader)->Get(8), 0, out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no end of references"));
}

TEST_F(ForgedTest, VerifyFollowsSharedPayloads) {
  PayloadSection payload;
  payload.logical_bytes = 24;
  for (const auto& [same_as, what] : std::map<uint64_t, std::string>{
           {77, "record 9: same_as: 77, which is not in the file"},
           {9, "record 9: same_as: 9, which does not hold this payload"},
           {2, "record 9: same_as: 2, which does not hold this payload"}}) {
    payload.same_as = same_as;
    Image image = SmallPass();
    image.Record(9, EncodeSection(FloatRecord(9, {6})) + EncodeSection(payload));
    image.Finish();
    Store(env_.get(), "/f.tdp", image.bytes());
    std::vector<Damage> damage;
    ASSERT_TRUE((*PassReader::Open(env_.get(), "/f.tdp"))->Verify(&damage).ok());
    ASSERT_EQ(damage.size(), 1u);
    EXPECT_EQ(damage[0].what, what);
  }
}

// Manifests.
std::string Manifest() {
  FileHeader header;
  header.rank = 1;
  Image image(kManifestMagic, header);
  IdentitySection identity;
  identity.rank = 1;
  identity.world = 4;
  identity.host = "node1";
  image.Frame(FrameKind::kIdentity, EncodeSection(identity));
  PassDoneSection done;
  done.ordinal = 3;
  done.file = "pass00003.tdp";
  done.not_kept = {{1, 2}};
  image.Frame(FrameKind::kPassDone, EncodeSection(done));
  image.Frame(static_cast<FrameKind>(150), RawSection(0x7001, "of a later version"));
  image.Frame(FrameKind::kStepMap, EncodeSection(StepMapSection{4, 3, 1, 2}));
  image.Frame(FrameKind::kNote, EncodeSection(NoteSection{1, 5, "text"}));
  image.Frame(FrameKind::kClose, EncodeSection(CloseSection{9, 8, 7, "exit"}));
  return image.bytes();
}

struct Journal {
  std::vector<std::string> entries;
  bool told;
};

Journal ReadJournal(Env* env, std::string_view bytes) {
  Store(env, "/m.tdm", bytes);
  ProcessEntry p;
  ReadManifest(env, "/m.tdm", &p);
  Journal journal;
  journal.told = !p.damage.empty();
  if (!p.identity.host.empty())
    journal.entries.push_back(Joined("identity", p.identity.rank, p.identity.world));
  for (const PassEntry& pass : p.passes)
    journal.entries.push_back(Joined("pass", pass.info.ordinal, pass.file, pass.not_kept.size()));
  for (const StepMapSection& s : p.steps)
    journal.entries.push_back(Joined("step", s.local_step, s.global_step, int(s.flags), s.lag));
  for (const NoteSection& n : p.notes) journal.entries.push_back(Joined("note", n.text));
  if (p.close) journal.entries.push_back(Joined("close", p.close->passes, p.close->how));
  return journal;
}

TEST(ManifestDamage, EveryTruncationKeepsTheEntriesBefore) {
  const auto env = NewMemoryEnv();
  const std::string file = Manifest();
  const Journal whole = ReadJournal(env.get(), file);
  EXPECT_FALSE(whole.told);
  ASSERT_EQ(whole.entries.size(), 5u);
  size_t most = 0;
  for (size_t length = 0; length < file.size(); ++length) {
    const Journal cut = ReadJournal(env.get(), std::string_view(file).substr(0, length));
    ASSERT_LE(cut.entries.size(), whole.entries.size());
    ASSERT_TRUE(std::equal(cut.entries.begin(), cut.entries.end(), whole.entries.begin()));
    ASSERT_GE(cut.entries.size(), most) << length;
    most = cut.entries.size();
  }
  EXPECT_EQ(most, 4u);  // all but the last
}

TEST(ManifestDamage, EveryFlippedByteIsToldOrMeansNothing) {
  const auto env = NewMemoryEnv();
  const std::string file = Manifest();
  const Journal whole = ReadJournal(env.get(), file);
  const std::set<size_t> free = FreeBytes(file);
  for (size_t at = 0; at < file.size(); ++at) {
    std::string bytes = file;
    bytes[at] ^= '\x10';
    const Journal found = ReadJournal(env.get(), bytes);
    ASSERT_TRUE(found.told || free.contains(at)) << "byte " << at;
    for (const std::string& entry : found.entries)
      ASSERT_THAT(whole.entries, testing::Contains(entry)) << "byte " << at;
  }
}

TEST(ManifestDamage, EveryFlippedBitOfHeadsIsTold) {
  const auto env = NewMemoryEnv();
  const std::string file = Manifest();
  const Journal whole = ReadJournal(env.get(), file);
  const std::vector<size_t> heads = HeadBytes(file, false);
  EXPECT_EQ(heads.size(), 64u + 6 * 32);
  for (const size_t at : heads) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = file;
      bytes[at] ^= static_cast<char>(1 << bit);
      const Journal found = ReadJournal(env.get(), bytes);
      ASSERT_TRUE(found.told) << "byte " << at << " bit " << bit;
      for (const std::string& entry : found.entries)
        ASSERT_THAT(whole.entries, testing::Contains(entry)) << "byte " << at << " bit " << bit;
    }
  }
}

// A journal that a killed writer left in the middle of its preallocated room.
TEST(ManifestDamage, ATornTailBeforeZerosIsToldAndTheRestStands) {
  const auto env = NewMemoryEnv();
  const std::string file = Manifest();
  const Journal torn =
      ReadJournal(env.get(), file.substr(0, file.size() - 20) + std::string(4096, '\0'));
  EXPECT_TRUE(torn.told);
  EXPECT_EQ(torn.entries.size(), 4u);
  EXPECT_FALSE(ReadJournal(env.get(), file + std::string(4096, '\0')).told);
}

// What a killed writer leaves ends at a page of the file, wherever in the entry that is.
class CutEntry : public ::testing::Test {
 protected:
  static constexpr size_t kPage = 4096;
  static std::string Note(size_t letters) {
    Image image(kManifestMagic);
    image.Frame(FrameKind::kNote, EncodeSection(NoteSection{1, 5, std::string(letters, 'x')}));
    return image.bytes().substr(sizeof(FileHeader));
  }
  // Whether the one thing that is wrong, at `offset`, is said to be the end of a killed process.
  bool IsCut(const std::string& bytes, size_t offset) {
    Store(env_.get(), "/m.tdm", bytes);
    ProcessEntry process;
    ReadManifest(env_.get(), "/m.tdm", &process);
    EXPECT_EQ(process.damage.size(), 1u);
    if (process.damage.empty()) return false;
    EXPECT_EQ(process.damage[0].offset, offset);
    return process.damage[0].what.ends_with(kCutEntry);
  }
  const std::string zeros_ = std::string(4 * kPage, '\0');
  const std::unique_ptr<Env> env_ = NewMemoryEnv();
};

TEST_F(CutEntry, InItsBody) {
  const std::string before = Manifest(), file = before + Note(2 * kPage);
  for (const size_t page : {kPage, 2 * kPage}) {
    EXPECT_TRUE(IsCut(file.substr(0, page), before.size()));
    EXPECT_TRUE(IsCut(file.substr(0, page) + zeros_, before.size()));
    EXPECT_FALSE(IsCut(file.substr(0, page + 8), before.size()));
    EXPECT_FALSE(IsCut(file.substr(0, page + 8) + zeros_.substr(0, 80), before.size()));
  }
  std::string flipped = file;
  flipped[kPage] ^= '\x01';
  EXPECT_FALSE(IsCut(flipped, before.size()));
  EXPECT_FALSE(IsCut(flipped + zeros_, before.size()));
}

TEST_F(CutEntry, InItsHeader) {
  std::string before;
  for (size_t letters = 1; before.size() != kPage - 16; letters += 8) {
    before = Manifest() + Note(letters);
    ASSERT_LT(before.size(), kPage);
  }
  const std::string file = before + Note(10);
  EXPECT_TRUE(IsCut(file.substr(0, kPage), before.size()));
  EXPECT_TRUE(IsCut(file.substr(0, kPage) + zeros_, before.size()));
  EXPECT_FALSE(IsCut(file.substr(0, kPage - 8), before.size()));
}

TEST(ManifestDamage, ForgedCountsAreRefused) {
  const auto env = NewMemoryEnv();
  for (const uint64_t count : kHuge) {
    Image image(kManifestMagic);
    std::string archive = EncodeSection(AgreementSection{"file", 2, {7}});
    archive = archive.substr(sizeof(SectionHeader));
    archive.replace(16, 8, reinterpret_cast<const char*>(&count), 8);  // of `lost`
    image.Frame(FrameKind::kAgreement, RawSection(AgreementSection::kId, archive));
    Store(env.get(), "/m.tdm", image.bytes());
    ProcessEntry process;
    ReadManifest(env.get(), "/m.tdm", &process);
    ASSERT_EQ(process.damage.size(), 1u);
    EXPECT_THAT(process.damage[0].what, HasSubstr("count " + std::to_string(count)));
  }
}

}  // namespace
}  // namespace tdump::io::test
