// Forged sizes in pass files and manifests. The tools refuse them without
// allocating what the file claims.
#include <gmock/gmock.h>

#include <functional>

#include "tests/io/pass_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using io::EncodeSection;
using io::FrameKind;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr long kMostKib = 64 * 1024;

class ForgedProcessTest : public test::ScratchTest {
 protected:
  void WriteRun(const std::function<void(io::IdentitySection*)>& forge_identity,
                const std::string& pass_bytes) {
    std::filesystem::remove_all(Path("run"));
    ASSERT_TRUE(env_->MakeDirs(Path("run/rank0_pid1"), 0700).ok());
    io::test::Image manifest(io::kManifestMagic, {});
    io::IdentitySection identity;
    identity.job_key = "job";
    forge_identity(&identity);
    manifest.Frame(FrameKind::kIdentity, EncodeSection(identity));
    io::test::Store(env_, Path("run/rank0_pid1/manifest.tdm"), manifest.bytes());
    io::test::Store(env_, Path("run/rank0_pid1/pass00000.tdp"), pass_bytes);
  }
  // Each tool that reads runs; all end by themselves, within bounds.
  void RunAll() {
    for (const auto& [tool, arguments] :
         std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"tdump-view", {"run"}},
             {"tdump-view", {"run", "--coverage"}},
             {"tdump-view", {"run", "--records", "--sort", "absmax"}},
             {"tdump-view", {"run", "--verify"}},
             {"tdump-view", {"run", "--txt", "-"}},
             {"tdump-diff", {"run", "run"}},
             {"tdump-merge", {"run"}}}) {
      const auto done = Run(tool, arguments);
      EXPECT_LE(done.status, 2) << tool << " " << arguments.back() << done.err;
      EXPECT_LT(done.peak_kib, kMostKib) << tool << " " << arguments.back();
    }
  }
  static void Honest(io::IdentitySection*) {}
};

// A record frame with a right checksum whose fields lie.
std::string ForgedRecord(
    const std::function<void(io::RecordSection*, io::PayloadSection*)>& forge) {
  io::test::Image image(io::kPassMagic);
  image.Name(1, "float32");
  image.Name(2, "a");
  image.Operator(0, 2);
  io::RecordSection record = io::test::FloatRecord(1, {2, 3});
  io::PayloadSection payload;
  payload.offset = 4096;
  payload.stored_bytes = payload.logical_bytes = 24;
  record.parts_kept = record.parts_asked = kPartMeta | kPartPayload;
  forge(&record, &payload);
  image.Record(1, EncodeSection(record) + EncodeSection(payload));
  image.Finish();
  return image.bytes();
}

TEST_F(ForgedProcessTest, SizesOfTensors) {
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{int64_t{1} << 31},
                                         {int64_t{1} << 40},
                                         {INT64_MAX},
                                         {-1, 4},
                                         {int64_t{1} << 32, int64_t{1} << 32, int64_t{1} << 32}}) {
    WriteRun(Honest, ForgedRecord([&](auto* record, auto* payload) {
               record->sizes = sizes;
               record->strides.assign(sizes.size(), 1);
               payload->logical_bytes = payload->stored_bytes = ~0ull;
             }));
    RunAll();
    EXPECT_EQ(Run("tdump-view", {"run", "--verify"}).status, 1);
  }
}

TEST_F(ForgedProcessTest, PayloadBeyondTheFile) {
  WriteRun(Honest, ForgedRecord([](auto*, auto* payload) { payload->offset = uint64_t{1} << 40; }));
  RunAll();
  const auto verified = Run("tdump-view", {"run", "--verify"});
  EXPECT_EQ(verified.status, 1);
  EXPECT_THAT(verified.out, HasSubstr("payload"));
}

TEST_F(ForgedProcessTest, LengthOfAName) {
  for (const uint64_t length : {uint64_t{1} << 31, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::string archive(4, '\1');
    archive.append(reinterpret_cast<const char*>(&length), 8);
    archive += "short";
    io::test::Image image(io::kPassMagic);
    image.Frame(FrameKind::kName, io::test::RawSection(io::NameSection::kId, archive));
    image.Finish();
    WriteRun(Honest, image.bytes());
    RunAll();
    EXPECT_THAT(Run("tdump-view", {"run", "--verify"}).out, HasSubstr("DAMAGED"));
  }
}

TEST_F(ForgedProcessTest, RanksOfTheWorld) {
  WriteRun([](auto* identity) { identity->world = INT32_MAX; }, io::test::SmallPass().bytes());
  RunAll();
  EXPECT_THAT(Run("tdump-view", {"run"}).out, HasSubstr("INCOMPLETE"));
  WriteRun([](auto* identity) { identity->rank = -7; }, io::test::SmallPass().bytes());
  RunAll();
}

}  // namespace
}  // namespace tdump::tools
