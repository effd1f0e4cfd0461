// A packed file that is cut at any byte, or of which any byte is wrong: an error, or the right
// values; never a crash.
#include <gtest/gtest.h>

#include <cstring>

#include "io/pass_store.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

std::vector<std::byte> Values(uint64_t pass, std::string_view arg) {
  return arg == "weight" ? Bytes(1100, 3, 7) : Bytes(50, static_cast<uint8_t>(pass + 1));
}

class PackedDamage : public ::testing::Test {
 protected:
  PackedDamage() : rig_({.thread = false, .files = {.single_files = 0}}) {
    for (uint64_t pass = 0; pass < 2; ++pass) {
      rig_.Open(pass);
      rig_.Keep(rig_.NewCall(rig_.Op("a")), "weight", Values(pass, "weight"));
      rig_.Keep(rig_.NewCall(rig_.Op("b")), "", Values(pass, ""));
      rig_.sink->close_pass();
    }
    EXPECT_TRUE(rig_.sink->Drain(1000));
    file_ = ReadFile(rig_.env, path_, 1 << 20).value();
    passes_ = rig_.Manifest().passes;
    manifest_ = ReadFile(rig_.env, rig_.directory + "/manifest.tdm", 1 << 20).value();
  }

  void Put(const std::string& path, std::string_view bytes) {
    (void)rig_.env->Remove(path);
    auto file = rig_.env->CreateExclusive(path, 0600);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append(std::as_bytes(std::span(bytes))).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }

  // Reads all there is; every value that comes is right. True: something was said to be wrong.
  bool ReadAll() {
    const auto store = PassStore::Open(rig_.env, "run");
    if (!store.ok() || (*store)->processes().empty()) return true;
    bool told = false;
    size_t records = 0;
    for (const ProcessEntry& process : (*store)->processes()) {
      told |= !process.damage.empty();
      for (const PassEntry& pass : process.passes) {
        told |= pass.part || !pass.error.empty();
        const auto reader = (*store)->OpenPass(process, pass);
        told |= !reader.ok();
        if (!reader.ok()) continue;
        const Status read = (*reader)->ForEachRecord([&](const Record& record) {
          ++records;
          if (!record.payload) return true;
          std::vector<std::byte> values(record.payload->logical_bytes);
          const Status status = (*reader)->ReadPayload(record, 0, values);
          told |= !status.ok();
          if (status.ok()) EXPECT_EQ(values, Values((*reader)->info().ordinal, record.key.arg));
          return true;
        });
        std::vector<Damage> damage;
        const Status verified = (*reader)->Verify(&damage);
        told |= !read.ok() || !verified.ok() || !damage.empty();
      }
    }
    return told || records != 4;
  }

  // Bytes of a pass, as opposed to the header of the file and the zeros between passes.
  bool InPass(uint64_t at) const {
    for (const PassEntry& pass : passes_) {
      if (at >= pass.offset && at < pass.offset + pass.file_bytes) return true;
    }
    return false;
  }

  SinkRig rig_;
  const std::string path_ = rig_.directory + "/pack00000.tdp";
  std::string file_, manifest_;
  std::vector<PassEntry> passes_;
};

TEST_F(PackedDamage, TheUndamagedFileReadsWhole) { EXPECT_FALSE(ReadAll()); }

TEST_F(PackedDamage, EveryTruncationIsTold) {
  for (const bool listed : {true, false}) {
    if (!listed) ASSERT_TRUE(rig_.env->Remove(rig_.directory + "/manifest.tdm").ok());
    for (uint64_t length = 0; length < file_.size(); ++length) {
      if (length > 0 && !InPass(length) && !InPass(length - 1)) continue;
      Put(path_, std::string_view(file_).substr(0, length));
      ASSERT_TRUE(ReadAll()) << "cut at " << length;
      if (HasFailure()) return;
    }
  }
}

TEST_F(PackedDamage, EveryFlippedByteGivesAnErrorOrTheRightValues) {
  size_t told = 0, flipped = 0;
  for (const bool listed : {true, false}) {
    if (!listed) ASSERT_TRUE(rig_.env->Remove(rig_.directory + "/manifest.tdm").ok());
    for (uint64_t at = 0; at < file_.size(); ++at) {
      if (at >= sizeof(FileHeader) && !InPass(at)) continue;
      std::string bytes = file_;
      bytes[at] ^= listed ? '\x01' : '\xff';
      Put(path_, bytes);
      told += ReadAll() ? 1 : 0;
      ++flipped;
      ASSERT_FALSE(HasFailure()) << "byte " << at;
    }
  }
  // All but the file's own header, where passes are listed, and padding that nobody reads.
  EXPECT_GT(told, flipped * 3 / 4);
}

// Every bit of the heads and the footer of a pass is covered by a checksum.
TEST_F(PackedDamage, EveryBitOfHeadsAndFootersIsTold) {
  std::vector<uint64_t> heads;
  const auto add = [&](uint64_t begin, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) heads.push_back(begin + i);
  };
  for (const PassEntry& pass : passes_) {
    add(pass.offset, sizeof(FileHeader));
    const uint64_t footer = pass.offset + pass.file_bytes - sizeof(FileFooter);
    for (uint64_t at = pass.offset + sizeof(FileHeader); at < footer;) {
      FrameHeader header;
      std::memcpy(&header, file_.data() + at, sizeof header);
      ASSERT_EQ(header.magic, kFrameMagic) << at;
      add(at, sizeof header);
      at = PadTo(at + sizeof header + header.body_bytes, 8);
    }
    add(footer, sizeof(FileFooter));
  }
  EXPECT_GT(heads.size(), 2u * (64 + 8 * 32 + 64));
  for (const uint64_t at : heads) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = file_;
      bytes[at] ^= static_cast<char>(1 << bit);
      Put(path_, bytes);
      ASSERT_TRUE(ReadAll()) << "byte " << at << " bit " << bit;
      ASSERT_FALSE(HasFailure()) << "byte " << at << " bit " << bit;
    }
  }
}

// The header of the packed file itself: where a manifest lists the passes nobody needs it.
TEST_F(PackedDamage, EveryBitOfItsOwnHeaderGivesAnErrorOrTheRightValues) {
  for (const bool listed : {true, false}) {
    if (!listed) {
      ASSERT_TRUE(rig_.env->Remove(rig_.directory + "/manifest.tdm").ok());
    }
    for (uint64_t bit = 0; bit < 8 * sizeof(FileHeader); ++bit) {
      std::string bytes = file_;
      bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      Put(path_, bytes);
      EXPECT_EQ(ReadAll(), !listed) << "byte " << bit / 8 << " bit " << bit % 8;
      ASSERT_FALSE(HasFailure()) << "byte " << bit / 8 << " bit " << bit % 8;
    }
  }
}

// The manifest's places are not believed either.
TEST_F(PackedDamage, EveryFlippedByteOfTheManifestGivesTheRightValues) {
  for (uint64_t at = 0; at < std::min<size_t>(manifest_.size(), 4096); ++at) {
    std::string bytes = manifest_;
    bytes[at] ^= '\x10';
    Put(rig_.directory + "/manifest.tdm", bytes);
    (void)ReadAll();
    ASSERT_FALSE(HasFailure()) << "byte " << at;
  }
}

TEST_F(PackedDamage, AForgedPlaceIsAnError) {
  for (const uint64_t offset :
       {uint64_t{1} << 63, ~uint64_t{0} / 4096 * 4096, uint64_t{8}, uint64_t{4096} * 100}) {
    FileHeader header;
    (void)rig_.env->Remove("forged/rank0/manifest.tdm");
    ASSERT_TRUE(rig_.env->MakeDirs("forged/rank0", 0700).ok());
    const auto manifest =
        ManifestWriter::Create(rig_.env, "forged/rank0/manifest.tdm", header).value().release();
    PassDoneSection done;
    done.ordinal = 0;
    done.file = "pack00000.tdp";
    done.file_bytes = ~uint64_t{0};
    ASSERT_TRUE(manifest->Append(done, PassPlaceSection{0, offset}).ok());
    delete manifest;
    Put("forged/rank0/pack00000.tdp", file_);
    const auto store = PassStore::Open(rig_.env, "forged");
    ASSERT_TRUE(store.ok());
    EXPECT_FALSE((*store)->processes()[0].damage.empty()) << offset;
  }
}

}  // namespace
}  // namespace tdump::io
