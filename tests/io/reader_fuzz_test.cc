// Passes, packed files and manifests whose bytes were changed and whose checksums were made to hold
// again: what is behind the checksums is not believed either. No crash, no allocation that a length
// from the file drives, no end without a Status. (The sanitizer builds run it too.)
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "io/manifest_reader.h"
#include "io/pass_store.h"
#include "tests/io/pass_image.h"

namespace tdump::io::test {
namespace {

std::string Pass() {
  Image image = SmallPass();
  RecordSection shard = FloatRecord(3, {2, 2});
  shard.parts_kept = kPartMeta;
  ShardSection companion;
  companion.global_shape = {2, 8};
  image.Record(3, EncodeSection(shard) + EncodeSection(companion));
  image.Record(4, EncodeSection(FloatRecord(4, {0, 5})) + image.Payload({}));
  image.Finish();
  return image.bytes();
}

std::string Manifest() {
  Image image(kManifestMagic, {});
  IdentitySection identity;
  identity.world = 4;
  identity.host = "node1";
  image.Frame(FrameKind::kIdentity, EncodeSection(identity));
  PassDoneSection done;
  done.file = "pack00000.tdp";
  done.file_bytes = 2000;
  done.not_kept = {{1, 2}};
  image.Frame(FrameKind::kPassDone, EncodeSection(done) + EncodeSection(PassPlaceSection{0, 4096}));
  done.ordinal = 3;
  done.file = "pass00003.tdp";
  image.Frame(FrameKind::kPassDone, EncodeSection(done));
  image.Frame(FrameKind::kRemoved, EncodeSection(RemovedSection{5, 9, 7, "pass00005.tdp"}));
  image.Frame(FrameKind::kStepMap, EncodeSection(StepMapSection{4, 3, 1, 2}));
  image.Frame(FrameKind::kAgreement, EncodeSection(AgreementSection{"file", 2, {7}}));
  image.Frame(FrameKind::kClose, EncodeSection(CloseSection{9, 8, 7, "exit"}));
  return image.bytes();
}

std::string Pack(const std::string& pass) {
  FileHeader header;
  Image image(kPackMagic, header);
  std::string bytes = image.bytes();
  for (int i = 0; i < 2; ++i) {
    bytes.resize(PadTo(bytes.size(), kPackAlign));
    bytes += pass;
  }
  return bytes;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  // Changes some bytes within the frames of `file`, which begin at `first`, and seals it again.
  std::string Next(std::string file, size_t first) {
    for (size_t changes = 1 + Below(3); changes > 0; --changes) {
      const size_t at = first + Below(file.size() - first);
      static constexpr uint64_t kValues[] = {0,      1,          0x7f,  0xff,
                                             0xffff, 1ull << 31, ~0ull, 1ull << 63};
      switch (Below(3)) {
        case 0:
          file[at] = static_cast<char>(random_());
          break;
        case 1: {
          const uint64_t value = kValues[Below(std::size(kValues))];
          std::memcpy(&file[at], &value, std::min<size_t>(sizeof value, file.size() - at));
          break;
        }
        default: {
          const size_t from = first + Below(file.size() - first);
          const size_t bytes = std::min({Below(32) + 1, file.size() - at, file.size() - from});
          std::memmove(&file[at], &file[from], bytes);
        }
      }
    }
    Seal(&file, first);
    return file;
  }

 private:
  size_t Below(size_t count) { return count == 0 ? 0 : random_() % count; }

  // Header and body checksums of every frame that can be walked to, and the footer's.
  static void Seal(std::string* file, size_t first) {
    for (size_t at = first; at + sizeof(FrameHeader) <= file->size();) {
      FrameHeader header;
      std::memcpy(&header, file->data() + at, sizeof header);
      const size_t body = at + sizeof header;
      if (header.magic != kFrameMagic || header.body_bytes > file->size() - body) break;
      SealSections(file, body, body + header.body_bytes);
      if (header.kind != static_cast<uint16_t>(FrameKind::kPayload))
        header.body_checksum = Checksum(file->data() + body, header.body_bytes);
      header.checksum = Checksum(&header, 24);
      std::memcpy(file->data() + at, &header, sizeof header);
      at = PadTo(body + header.body_bytes, 8);
    }
    if (file->size() < sizeof(FileFooter)) return;
    char* footer = file->data() + file->size() - sizeof(FileFooter);
    const uint64_t checksum = Checksum(footer, 56);
    std::memcpy(footer + 56, &checksum, 8);
  }
  static void SealSections(std::string* file, size_t at, size_t end) {
    while (at + sizeof(SectionHeader) <= end) {
      SectionHeader header;
      std::memcpy(&header, file->data() + at, sizeof header);
      at += sizeof header;
      if (header.bytes > end - at) return;
      header.checksum = Checksum(file->data() + at, header.bytes);
      std::memcpy(file->data() + at - sizeof header, &header, sizeof header);
      at = PadTo(at + header.bytes, 8);
    }
  }

  std::mt19937 random_;
};

// Everything that a tool may ask of a run.
size_t ReadAll(Env* env) {
  size_t records = 0;
  const auto store = PassStore::Open(env, "run", 1);
  if (!store.ok()) return 0;
  for (const ProcessEntry& process : (*store)->processes()) {
    for (const PassEntry& pass : process.passes) {
      const auto reader = (*store)->OpenPass(process, pass);
      if (!reader.ok()) continue;
      (void)(*reader)->ForEachRecord([&](const Record& record) {
        ++records;
        if (!record.payload || record.payload->logical_bytes > 1 << 20) return true;
        std::vector<std::byte> values(record.payload->logical_bytes);
        (void)(*reader)->ReadPayload(record, 0, values);
        (void)(*reader)->MapPayload(record);
        return true;
      });
      (void)(*reader)->ForEachCall([](const CallRecord&) { return true; });
      (void)(*reader)->Get(2);
      std::vector<Damage> damage;
      (void)(*reader)->Verify(&damage);
    }
  }
  return records;
}

constexpr size_t kEnough = 100;

TEST(ReaderFuzz, NothingBehindTheChecksumsIsBelieved) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  Mutator mutator(seed);
  const std::string pass = Pass(), manifest = Manifest();
  const auto env = NewMemoryEnv();
  ASSERT_TRUE(env->MakeDirs("run/rank0", 0700).ok());
  size_t records = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  // Some seconds, and on a slow machine until enough was readable to say something.
  const auto go_on = [&] { return std::chrono::steady_clock::now() < end || records <= kEnough; };
  for (int round = 0; round < 20'000 && go_on(); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    const std::string mutated = mutator.Next(pass, sizeof(FileHeader));
    Store(env.get(), "run/rank0/pass00003.tdp", mutated);
    Store(env.get(), "run/rank0/pack00000.tdp", Pack(mutated));
    Store(env.get(), "run/rank0/manifest.tdm",
          round % 2 == 0 ? manifest : mutator.Next(manifest, sizeof(FileHeader)));
    records += ReadAll(env.get());
  }
  EXPECT_GT(records, kEnough);
}

}  // namespace
}  // namespace tdump::io::test
