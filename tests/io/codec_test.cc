#include "io/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "io/hash.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

std::vector<std::byte> Smooth(size_t floats) {
  std::vector<float> values(floats);
  for (size_t i = 0; i < floats; ++i) values[i] = std::sin(0.001f * static_cast<float>(i));
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> Random(size_t count) {
  std::mt19937_64 random(5);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::vector<std::byte> Stored(std::span<const std::byte> logical, uint32_t width) {
  BlockCompressor blocks(logical, width);
  EXPECT_TRUE(blocks.Shrinks());
  std::vector<std::byte> stored;
  const Status status = blocks.Write([&](std::span<const std::byte> piece) {
    stored.insert(stored.end(), piece.begin(), piece.end());
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(stored.size(), blocks.stored_bytes());
  return stored;
}

TEST(Codec, ABlockComesBack) {
  const auto logical = Smooth(1000);
  const auto stored = Stored(logical, 4);
  EXPECT_LT(stored.size(), logical.size() * 9 / 10);
  uint64_t end = 0;
  std::memcpy(&end, stored.data(), 8);
  ASSERT_EQ(end + 8, stored.size());
  std::vector<std::byte> back(logical.size());
  EXPECT_TRUE(DecompressChunk(std::span(stored).subspan(8), back).ok());
  EXPECT_EQ(back, logical);
}

// What does not fit in memory is compressed twice; the bytes are the same.
TEST(Codec, LargePayloadsAreMadeBlockByBlock) {
  const auto logical = Smooth(BlockCompressor::kHeld / 4 + 100'000);
  const auto stored = Stored(logical, 4);
  const uint64_t blocks = CodecBlocks(logical.size());
  EXPECT_EQ(blocks, 66u);
  std::vector<uint64_t> ends(blocks);
  std::memcpy(ends.data(), stored.data(), blocks * 8);
  EXPECT_EQ(ends.back() + blocks * 8, stored.size());
  const uint64_t last = logical.size() - (blocks - 1) * kCodecBlock;
  std::vector<std::byte> back(last);
  const auto chunk = std::span(stored).subspan(blocks * 8 + ends[blocks - 2]);
  ASSERT_TRUE(DecompressChunk(chunk, back).ok());
  EXPECT_EQ(std::memcmp(back.data(), logical.data() + (blocks - 1) * kCodecBlock, last), 0);
}

TEST(Codec, WhatDoesNotShrinkIsLeft) {
  EXPECT_FALSE(BlockCompressor(Random(100'000), 4).Shrinks());
  EXPECT_FALSE(BlockCompressor({}, 4).Shrinks());
  EXPECT_FALSE(BlockCompressor(Random(3), 1).Shrinks());
}

TEST(Codec, ForgedChunksAreErrors) {
  const auto logical = Smooth(5000);
  const auto stored = Stored(logical, 4);
  const std::vector<std::byte> chunk(stored.begin() + 8, stored.end());
  std::vector<std::byte> out(logical.size());
  EXPECT_FALSE(DecompressChunk(std::span(chunk).first(10), out).ok());
  EXPECT_FALSE(DecompressChunk(std::span(chunk).first(chunk.size() - 1), out).ok());
  EXPECT_FALSE(DecompressChunk(chunk, std::span(out).first(100)).ok());
  // Any single byte: an error or other bytes (which the digests tell), never a crash.
  for (size_t i = 0; i < chunk.size(); i += i < 64 ? 1 : 97) {
    auto bad = chunk;
    bad[i] ^= std::byte{0x41};
    (void)DecompressChunk(bad, out);
  }
}

struct Compressed {
  explicit Compressed(std::vector<std::byte> bytes) : logical(std::move(bytes)) {
    rig.Open(0);
    const Call call = rig.NewCall(rig.Op("a"));
    const int64_t sizes[] = {static_cast<int64_t>(logical.size() / 4)}, strides[] = {1};
    Observation seen = SinkRig::Seen("", "float32", sizes, strides);
    seen.meta.dtype = MakeDType("float32", 32);
    Keep keep(kLevelFull);
    keep.compress = Compression::kZstd;
    const Slot slot = rig.sink->reserve(call, seen, keep, logical.size());
    std::memcpy(slot.data, logical.data(), logical.size());
    rig.sink->commit(slot);
    EXPECT_TRUE(rig.sink->Drain(20000));
    reader = rig.Read("pass00000.tdp");
    record = rig.Records("pass00000.tdp").at(0);
  }
  std::vector<std::byte> logical;
  SinkRig rig;
  std::unique_ptr<PassReader> reader;
  Record record;
};

TEST(CompressedPayload, IsReadWholeAndInPart) {
  Compressed c(Smooth(200'000));
  EXPECT_EQ(c.record.payload->codec, static_cast<uint8_t>(Codec::kBlocks));
  EXPECT_LT(c.record.payload->stored_bytes, c.logical.size());
  EXPECT_EQ(c.record.hash, HashPayload(c.logical));
  EXPECT_EQ(c.rig.Payload(*c.reader, c.record), c.logical);
  for (const auto& [offset, count] :
       {std::pair<size_t, size_t>{0, 4}, {262'140, 8}, {799'996, 4}}) {
    std::vector<std::byte> part(count);
    ASSERT_TRUE(c.reader->ReadPayload(c.record, offset, part).ok());
    EXPECT_EQ(std::memcmp(part.data(), c.logical.data() + offset, count), 0) << offset;
  }
  EXPECT_FALSE(c.reader->MapPayload(c.record).ok());
  std::vector<Damage> damage;
  EXPECT_TRUE(c.reader->Verify(&damage).ok());
  EXPECT_TRUE(damage.empty());
}

TEST(CompressedPayload, RandomBytesStayAsTheyAre) {
  Compressed c(Random(40'000));
  EXPECT_EQ(c.record.payload->codec, 0);
  EXPECT_EQ(c.rig.Payload(*c.reader, c.record), c.logical);
}

}  // namespace
}  // namespace tdump::io
