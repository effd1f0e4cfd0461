#include "io/pass_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/manifest_reader.h"
#include "io/manifest_writer.h"
#include "tests/io/pass_image.h"

namespace tdump::io::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kPid = 4242;  // of SmallPass

std::string Complete(uint64_t ordinal = 7) {
  Image image = SmallPass(ordinal);
  image.Finish();
  return image.bytes();
}

Image Manifest(int32_t rank, uint32_t generation = 0, int64_t pid = kPid) {
  FileHeader header;
  header.rank = rank;
  header.generation = generation;
  header.pid = pid;
  Image image(kManifestMagic, header);
  IdentitySection identity;
  identity.rank = rank;
  identity.world = 2;
  identity.host = "node1";
  identity.job_key = "job";
  identity.generation = generation;
  identity.selected = 1;
  image.Frame(FrameKind::kIdentity, EncodeSection(identity));
  return image;
}

PassDoneSection Done(uint64_t ordinal, std::string file, uint64_t bytes) {
  PassDoneSection done;
  done.ordinal = ordinal;
  done.local_step = ordinal + 10;
  done.file = std::move(file);
  done.file_bytes = bytes;
  done.records = 2;
  done.not_kept = {{static_cast<uint8_t>(SkipReason::kLayout), 3}};
  return done;
}

class PassStoreTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, std::string_view bytes) {
    ASSERT_TRUE(env_->MakeDirs(path.substr(0, path.rfind('/')), 0700).ok());
    Store(env_.get(), path, bytes);
  }
  std::unique_ptr<PassStore> Open(const std::string& run) {
    auto store = PassStore::Open(env_.get(), run);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? std::move(*store) : nullptr;
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
};

TEST_F(PassStoreTest, ListsProcessesByGenerationAndRank) {
  Put("/run/rank1_pid5/manifest.tdm", Manifest(1).bytes());
  Put("/run/rank0_pid9/manifest.tdm", Manifest(0, 1).bytes());
  Put("/run/rank0_pid4/manifest.tdm", Manifest(0).bytes());
  Put("/run/clock/rank0.slot", "x");
  Put("/run/config.yaml", "version: 1\n");
  const auto store = Open("/run");
  ASSERT_EQ(store->processes().size(), 3u);
  EXPECT_EQ(store->processes()[0].directory, "rank0_pid4");
  EXPECT_EQ(store->processes()[1].directory, "rank1_pid5");
  EXPECT_EQ(store->processes()[2].directory, "rank0_pid9");
  EXPECT_EQ(store->processes()[2].identity.generation, 1u);
}

TEST_F(PassStoreTest, KnowsListedAndUnlistedPasses) {
  Image manifest = Manifest(3);
  manifest.Frame(FrameKind::kPassDone, EncodeSection(Done(0, "pass00000.tdp", Complete(0).size())));
  Put("/run/rank3_pid1/manifest.tdm", manifest.bytes());
  Put("/run/rank3_pid1/pass00000.tdp", Complete(0));
  Put("/run/rank3_pid1/pass00007.tdp.part", SmallPass().bytes());
  Put("/run/rank3_pid1/notes.txt", "not a pass");
  const auto store = Open("/run");
  const ProcessEntry& process = store->processes()[0];
  EXPECT_THAT(process.damage, IsEmpty());
  ASSERT_EQ(process.passes.size(), 2u);
  EXPECT_TRUE(process.passes[0].listed);
  EXPECT_FALSE(process.passes[0].part);
  EXPECT_EQ(process.passes[0].info.local_step, 10u);
  EXPECT_EQ(process.passes[0].info.world, 2);
  EXPECT_EQ(process.passes[0].file, "rank3_pid1/pass00000.tdp");
  ASSERT_EQ(process.passes[0].not_kept.size(), 1u);
  EXPECT_EQ(process.passes[0].not_kept[0].count, 3u);
  EXPECT_FALSE(process.passes[1].listed);
  EXPECT_TRUE(process.passes[1].part);
  EXPECT_EQ(process.passes[1].info.ordinal, 7u);
  EXPECT_EQ(process.passes[1].info.local_step, 5u);
  for (const PassEntry& pass : process.passes) {
    const auto reader = store->OpenPass(process, pass);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ((*reader)->record_count(), 2u);
  }
}

// Truncated after the manifest said it was done.
TEST_F(PassStoreTest, MissingAndShortFilesAreDamage) {
  Image manifest = Manifest(0);
  manifest.Frame(FrameKind::kPassDone, EncodeSection(Done(0, "pass00000.tdp", Complete().size())));
  manifest.Frame(FrameKind::kPassDone, EncodeSection(Done(1, "pass00001.tdp", 10)));
  Put("/run/rank0_pid1/manifest.tdm", manifest.bytes());
  Put("/run/rank0_pid1/pass00000.tdp", std::string_view(Complete()).substr(0, 400));
  const auto store = Open("/run");
  const ProcessEntry& process = store->processes()[0];
  ASSERT_EQ(process.damage.size(), 2u);
  EXPECT_THAT(process.damage[0].what, HasSubstr("the file has 400 bytes, the manifest says"));
  EXPECT_EQ(process.damage[0].file, "/run/rank0_pid1/pass00000.tdp");
  EXPECT_EQ(process.damage[0].offset, 400u);
  EXPECT_THAT(process.damage[1].what, HasSubstr("missing"));
  EXPECT_FALSE(process.passes[0].error.empty());
  EXPECT_FALSE(process.passes[1].error.empty());
}

TEST_F(PassStoreTest, AForgedFileNameDoesNotLeaveTheDirectory) {
  Image manifest = Manifest(0);
  manifest.Frame(FrameKind::kPassDone, EncodeSection(Done(0, "../../etc/passwd", 10)));
  Put("/run/rank0_pid1/manifest.tdm", manifest.bytes());
  const ProcessEntry process = Open("/run")->processes()[0];
  EXPECT_THAT(process.passes, IsEmpty());
  ASSERT_EQ(process.damage.size(), 1u);
  EXPECT_THAT(process.damage[0].what, HasSubstr("'../../etc/passwd'"));
}

// Inside it is sound: only its header says that its values are of another step or process.
TEST_F(PassStoreTest, AFileThatWasCopiedOverAnotherIsDamage) {
  const auto opened = [&](uint64_t ordinal, int64_t pid) {
    Image manifest = Manifest(3, 0, pid);
    manifest.Frame(FrameKind::kPassDone,
                   EncodeSection(Done(ordinal, "pass.tdp", Complete().size())));
    Put("/run/rank3_pid1/manifest.tdm", manifest.bytes());
    Put("/run/rank3_pid1/pass.tdp", Complete());
    const auto store = Open("/run");
    return store->OpenPass(store->processes()[0], store->processes()[0].passes[0]).status();
  };
  EXPECT_TRUE(opened(7, kPid).ok()) << opened(7, kPid).message();
  EXPECT_EQ(opened(6, kPid).code(), StatusCode::kCorrupt);
  EXPECT_THAT(opened(6, kPid).message(),
              HasSubstr("this is pass 7 of rank 3 (pid 4242); by the manifest pass 6 of rank 3 "
                        "(pid 4242) belongs here"));
  EXPECT_EQ(opened(7, 1).code(), StatusCode::kCorrupt);
}

TEST_F(PassStoreTest, APassThatFinishesAfterTheListingIsFound) {
  Put("/run/rank3_pid1/pass00007.tdp.part", SmallPass().bytes());
  const auto store = Open("/run");
  ASSERT_TRUE(
      env_->Rename("/run/rank3_pid1/pass00007.tdp.part", "/run/rank3_pid1/pass00007.tdp").ok());
  EXPECT_TRUE(store->OpenPass(store->processes()[0], store->processes()[0].passes[0]).ok());
}

TEST_F(PassStoreTest, PassesWithoutAManifestTellTheirRank) {
  Put("/run/rank3_pid1/pass00007.tdp", Complete());
  Put("/run/rank3_pid1/pass00008.tdp.part", "");  // killed before the first byte
  const auto store = Open("/run");
  const ProcessEntry& process = store->processes()[0];
  EXPECT_EQ(process.identity.rank, 3);
  EXPECT_EQ(process.identity.world, 4);
  EXPECT_THAT(process.damage, IsEmpty());
  ASSERT_EQ(process.passes.size(), 2u);
  EXPECT_EQ(process.passes[1].info.ordinal, 8u);
  EXPECT_FALSE(process.passes[1].error.empty());
}

TEST_F(PassStoreTest, OpensARankDirectoryAndASingleFile) {
  Put("/run/rank3_pid1/manifest.tdm", Manifest(3).bytes());
  Put("/run/rank3_pid1/pass00007.tdp", Complete());
  for (const char* path : {"/run/rank3_pid1", "/run/rank3_pid1/pass00007.tdp"}) {
    const auto store = Open(path);
    ASSERT_EQ(store->processes().size(), 1u) << path;
    const ProcessEntry& process = store->processes()[0];
    EXPECT_EQ(process.identity.rank, 3);
    ASSERT_EQ(process.passes.size(), 1u);
    EXPECT_TRUE(store->OpenPass(process, process.passes[0]).ok()) << path;
  }
  EXPECT_EQ(PassStore::Open(env_.get(), "/nothing").status().code(), StatusCode::kNotFound);
}

TEST(Manifest, ReadsEveryKindOfEntry) {
  const auto env = NewMemoryEnv();
  Image image = Manifest(1);
  image.Frame(FrameKind::kStepMap, EncodeSection(StepMapSection{4, 4, 0, 0}));
  image.Frame(FrameKind::kStepMap, EncodeSection(StepMapSection{3, 2, 1, 1}));
  image.Frame(FrameKind::kStepMap, EncodeSection(StepMapSection{4, 3, 1 | 2, 2}));
  image.Frame(FrameKind::kExpect, EncodeSection(ExpectSection{0, "", "a", "", "Linear"}));
  OperatorCountSection count;
  count.path = "a";
  count.calls = 1;
  image.Frame(FrameKind::kExpect, EncodeSection(count));
  count.calls = 5;
  image.Frame(FrameKind::kExpect, EncodeSection(count));
  image.Frame(FrameKind::kRule, EncodeSection(RuleSection{0, 1, "{name: x}", "x", 0}));
  image.Frame(FrameKind::kNote, EncodeSection(NoteSection{3, 1, "not captured"}));
  image.Frame(FrameKind::kAgreement, EncodeSection(AgreementSection{"file", 2, {7}}));
  image.Frame(static_cast<FrameKind>(150), RawSection(0x7001, "later"));
  image.Frame(FrameKind::kClose,
              EncodeSection(CloseSection{9, 8, 7, "exit"}) + RawSection(0x7002, "later"));
  Store(env.get(), "/m.tdm", image.bytes());
  ProcessEntry process;
  ReadManifest(env.get(), "/m.tdm", &process);
  EXPECT_THAT(process.damage, IsEmpty());
  EXPECT_EQ(process.identity.job_key, "job");
  ASSERT_EQ(process.steps.size(), 2u);
  EXPECT_EQ(process.steps[0].local_step, 3u);
  EXPECT_EQ(process.steps[1].global_step, 3u);  // the later word
  EXPECT_EQ(process.steps[1].flags, 3);
  EXPECT_EQ(process.expected.size(), 1u);
  ASSERT_EQ(process.counts.size(), 1u);
  EXPECT_EQ(process.counts[0].calls, 5u);
  EXPECT_EQ(process.rules[0].selector, "x");
  EXPECT_EQ(process.notes[0].text, "not captured");
  EXPECT_THAT(process.agreements[0].lost, ElementsAre(7));
  ASSERT_TRUE(process.close.has_value());
  EXPECT_EQ(process.close->how, "exit");
}

TEST(Manifest, AZeroTailIsACleanEndAndAnythingElseIsDamage) {
  const auto env = NewMemoryEnv();
  Image image = Manifest(1);
  const std::string zeros(kManifestReserve, '\0');
  Store(env.get(), "/clean", image.bytes() + zeros);
  ProcessEntry clean;
  ReadManifest(env.get(), "/clean", &clean);
  EXPECT_THAT(clean.damage, IsEmpty());
  EXPECT_EQ(clean.identity.world, 2);
  std::string torn = image.bytes() + zeros;
  torn[image.bytes().size() + 1000] = 'x';
  Store(env.get(), "/torn", torn);
  ProcessEntry damaged;
  ReadManifest(env.get(), "/torn", &damaged);
  EXPECT_EQ(damaged.identity.world, 2);
  ASSERT_EQ(damaged.damage.size(), 1u);
  EXPECT_EQ(damaged.damage[0].offset, image.bytes().size());
  ProcessEntry none;
  Store(env.get(), "/none", "hello");
  ReadManifest(env.get(), "/none", &none);
  ASSERT_EQ(none.damage.size(), 1u);
  EXPECT_THAT(none.damage[0].what, HasSubstr("not a tdump manifest"));
}

TEST_F(PassStoreTest, ListsThatRanksHaveAlikeAreKeptOnce) {
  for (const int32_t rank : {0, 1, 2}) {
    Image manifest = Manifest(rank);
    manifest.Frame(FrameKind::kExpect, EncodeSection(ExpectSection{0, "", "a", "", "Linear"}));
    manifest.Frame(FrameKind::kExpect, EncodeSection(OperatorCountSection{
                                           "", "a", "", rank == 2 ? uint64_t{4} : 5, 5, 0}));
    Put("/run/rank" + std::to_string(rank) + "_pid1/manifest.tdm", manifest.bytes());
  }
  const auto store = Open("/run");
  const auto& processes = store->processes();
  ASSERT_EQ(processes.size(), 3u);
  EXPECT_TRUE(processes[0].expected.SharesWith(processes[1].expected));
  EXPECT_TRUE(processes[0].expected.SharesWith(processes[2].expected));
  EXPECT_TRUE(processes[0].counts.SharesWith(processes[1].counts));
  EXPECT_FALSE(processes[0].counts.SharesWith(processes[2].counts));
  EXPECT_EQ(processes[1].counts[0].calls, 5u);
  EXPECT_EQ(processes[2].counts[0].calls, 4u);
  EXPECT_EQ(processes[2].expected[0].path, "a");
}

TEST(SharedListTest, WhatIsChangedIsChangedInOneOnly) {
  SharedList<int> a;
  a.Edit() = {1, 2};
  SharedList<int> b = a;
  EXPECT_TRUE(a.SharesWith(b));
  b.Edit().push_back(3);
  EXPECT_THAT(std::vector<int>(a.begin(), a.end()), ElementsAre(1, 2));
  EXPECT_THAT(std::vector<int>(b.begin(), b.end()), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace tdump::io::test
