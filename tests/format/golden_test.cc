// The writers still make the golden files, byte for byte, and the readers read them.
#include "tests/format/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <tuple>

#include "io/format.h"
#include "io/manifest_reader.h"
#include "io/merged_manifest.h"
#include "io/node_file.h"
#include "io/node_member.h"
#include "io/pack_scan.h"
#include "io/pass_reader.h"
#include "io/value_parts.h"

namespace tdump::io::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Path(const std::string& name) { return std::string(TDUMP_GOLDEN_DIR "/") + name; }

std::string Stored(const std::string& name) {
  std::ifstream file(Path(name), std::ios::binary);
  EXPECT_TRUE(file.good()) << Path(name);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::unique_ptr<PassReader> Open(const std::string& name) {
  auto reader = PassReader::Open(Env::Posix(), Path(name));
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  return reader.ok() ? std::move(*reader) : nullptr;
}

struct Read {
  std::vector<std::string> keys;
  std::vector<std::vector<std::byte>> payloads;
};

Read ReadAll(const PassReader& reader) {
  Read read;
  EXPECT_TRUE(reader
                  .ForEachRecord([&](const Record& record) {
                    read.keys.push_back(ToText(record.key));
                    auto& payload = read.payloads.emplace_back();
                    if (!record.payload) return true;
                    payload.resize(record.payload->logical_bytes);
                    EXPECT_TRUE(reader.ReadPayload(record, 0, payload).ok());
                    return true;
                  })
                  .ok());
  return read;
}

void ExpectVerified(const PassReader& reader) {
  std::vector<Damage> damage;
  EXPECT_TRUE(reader.Verify(&damage).ok());
  for (const Damage& item : damage) ADD_FAILURE() << item.offset << ": " << item.what;
}

// Behind the first frame, which names the tdump that merged.
std::string BehindHead(const std::string& merged) {
  FrameHeader frame;
  std::memcpy(&frame, merged.data() + sizeof(FileHeader), sizeof frame);
  return merged.substr(sizeof(FileHeader) + sizeof frame + PadTo(frame.body_bytes, 8));
}

TEST(Golden, WritersMakeTheSameBytes) {
  std::map<std::string, std::string> files = GoldenFiles();
  ASSERT_EQ(files.size(), 11u);
  for (auto& [name, bytes] : files) {
    if (name == "compressed.tdp") continue;  // as zstd has it
    std::string stored = Stored(name);
    if (name == "merged.tdm") {
      bytes = BehindHead(bytes);
      stored = BehindHead(stored);
    }
    ASSERT_EQ(bytes.size(), stored.size()) << name;
    const auto place = std::mismatch(bytes.begin(), bytes.end(), stored.begin());
    EXPECT_EQ(place.first - bytes.begin(), std::ptrdiff_t(bytes.size()))
        << name << ": first difference at this offset";
  }
}

TEST(Golden, ThePassIsWhole) {
  const auto reader = Open("pass.tdp");
  EXPECT_TRUE(reader->complete());
  EXPECT_EQ(reader->info().job_step, 41'241);
  EXPECT_EQ(reader->info().host, "node042");
  ExpectVerified(*reader);
  const Read read = ReadAll(*reader);
  EXPECT_EQ(read.keys.size(), 16u);
  EXPECT_EQ(read.keys[0], "encoder.layer.0.dense@output#f32");
  EXPECT_EQ(read.payloads[13], read.payloads[0]);  // shared
  EXPECT_THAT(reader->Get(1)->aliases, ElementsAre("tied.dense", "found.later"));
}

TEST(Golden, TheByteSwappedPassHoldsTheSame) {
  const auto little = Open("pass.tdp"), big = Open("pass_big_endian.tdp");
  EXPECT_TRUE(big->complete());
  ExpectVerified(*big);
  EXPECT_EQ(big->info().started_ns, little->info().started_ns);
  const Read a = ReadAll(*little), b = ReadAll(*big);
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.payloads, b.payloads);
}

TEST(Golden, TheTornPassReadsUpToTheTear) {
  const auto torn = Open("torn.tdp.part");
  EXPECT_FALSE(torn->complete());
  const Read part = ReadAll(*torn), whole = ReadAll(*Open("pass.tdp"));
  ASSERT_EQ(part.keys.size(), 2u);
  for (size_t i = 0; i < part.keys.size(); ++i) {
    EXPECT_EQ(part.keys[i], whole.keys[i]);
    EXPECT_EQ(part.payloads[i], whole.payloads[i]);
  }
}

TEST(Golden, WhatALaterVersionAddsIsSkipped) {
  const auto later = Open("later.tdp");
  EXPECT_TRUE(later->complete());
  EXPECT_THAT(later->damage(), IsEmpty());
  ExpectVerified(*later);
  EXPECT_THAT(ReadAll(*later).keys, ElementsAre("a@output#"));
}

TEST(Golden, PartsOfRecords) {
  const auto reader = Open("parts.tdp");
  ExpectVerified(*reader);
  const auto get = [&](uint64_t id) { return reader->Get(id).value(); };
  EXPECT_EQ(get(1).statistics->l1, 7.5);
  EXPECT_TRUE(get(2).statistics->exact_sum == __int128{INT64_MAX} * 2 - 5);
  EXPECT_FALSE(get(3).statistics->has_range());
  EXPECT_THAT(*get(4).sample, ElementsAre(std::byte{0}, std::byte{49}, std::byte{99},
                                          std::byte{149}, std::byte{199}));
  const Record slice = SliceAsRecord(get(5));
  EXPECT_THAT(slice.sizes, ElementsAre(2, 3));
  std::vector<std::byte> bytes(12);
  ASSERT_TRUE(reader->ReadPayload(slice, 0, bytes).ok());
  EXPECT_EQ(bytes[0], std::byte{12});
  EXPECT_EQ(bytes[11], std::byte{33});
}

TEST(Golden, CompressedPayloadsExpand) {
  const auto reader = Open("compressed.tdp");
  ExpectVerified(*reader);
  const Record record = reader->Get(1).value();
  EXPECT_EQ(record.payload->codec, 2);
  float last = 0;
  ASSERT_TRUE(
      reader->ReadPayload(record, 69'999 * 4, std::as_writable_bytes(std::span(&last, 1))).ok());
  EXPECT_EQ(last, 69'999.0f * 69'999.0f);
}

TEST(Golden, ThePackedFileHoldsTwoPassesAndOnePayload) {
  const auto passes = ScanPack(Env::Posix(), Path("packed.tdp"));
  ASSERT_TRUE(passes.ok()) << passes.status().message();
  ASSERT_EQ(passes->size(), 2u);
  EXPECT_EQ((*passes)[0].offset, 4096u);
  const auto first = Open("packed.tdp#0"), second = Open("packed.tdp#1");
  ExpectVerified(*first);
  ExpectVerified(*second);
  const Read a = ReadAll(*first), b = ReadAll(*second);
  ASSERT_EQ(a.payloads.size(), 1u);
  EXPECT_EQ(a.payloads[0].size(), 1500u);
  EXPECT_EQ(a.payloads, b.payloads);
  EXPECT_EQ(second->Get(2)->payload->earlier, 4096 + first->Get(1)->payload->offset);
}

TEST(Golden, ThePackedManifestPlacesItsPasses) {
  ProcessEntry process;
  ReadManifest(Env::Posix(), Path("packed_manifest.tdm"), &process);
  EXPECT_THAT(process.damage, IsEmpty());
  ASSERT_EQ(process.passes.size(), 2u);
  EXPECT_EQ(process.passes[1].offset, 8192u);
  ASSERT_EQ(process.removed.size(), 1u);
  EXPECT_EQ(process.removed[0].last, 9u);
}

TEST(Golden, TheManifestSaysWhatWasWritten) {
  ProcessEntry process;
  ReadManifest(Env::Posix(), Path("manifest.tdm"), &process);
  EXPECT_THAT(process.damage, IsEmpty());
  EXPECT_EQ(process.identity.coordinates, "dp=3 tp=1 pp=2");
  ASSERT_EQ(process.steps.size(), 1u);
  EXPECT_EQ(process.steps[0].global_step, 40u);
  ASSERT_EQ(process.passes.size(), 1u);
  EXPECT_EQ(process.passes[0].not_kept.size(), 2u);
  ASSERT_TRUE(process.close.has_value());
  EXPECT_EQ(process.close->steps_seen, 310u);
}

TEST(Golden, TheNodeFileIsRead) {
  const auto contents = ReadNodeFile(Env::Posix(), Path("node.tdn"));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_FALSE(contents->damaged);
  ASSERT_EQ(contents->members.size(), 2u);
  const auto& [first, second] = std::tie(contents->members[0], contents->members[1]);
  EXPECT_EQ(first.name, "rank2_pid7/pack00000.tdp");
  EXPECT_EQ(first.bytes, 70'000u);
  EXPECT_EQ(first.extents.size(), 2u);
  EXPECT_EQ(second.name, "rank3_pid8/pack00000.tdp");
  const auto file = ReadMember(Env::Posix(), Path("node.tdn"), second, second.name);
  ASSERT_TRUE(file.ok());
  std::string bytes((*file)->Size(), '\0');
  EXPECT_EQ(*(*file)->ReadAt(0, std::as_writable_bytes(std::span(bytes))), bytes.size());
  EXPECT_EQ(bytes, Stored("packed.tdp"));
}

}  // namespace
}  // namespace tdump::io::test
