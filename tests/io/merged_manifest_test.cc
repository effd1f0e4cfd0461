#include "io/merged_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "io/archive.h"
#include "io/merged_codec.h"
#include "io/merged_sections.h"
#include "tests/io/pass_image.h"

namespace tdump::io::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// On a real file system: staleness is told by modification times.
class MergedManifestTest : public ::testing::Test {
 protected:
  MergedManifestTest()
      : run_(std::filesystem::temp_directory_path() /
             ("tdump_merged_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(run_ + "/rank0_pid1");
    std::filesystem::create_directories(run_ + "/rank1_pid2");
    for (int rank : {0, 1}) {
      FileHeader header;
      header.rank = rank;
      Image image(kManifestMagic, header);
      IdentitySection identity;
      identity.rank = rank;
      identity.job_key = "job";
      image.Frame(FrameKind::kIdentity, EncodeSection(identity));
      image.Frame(static_cast<FrameKind>(150), RawSection(0x7001, "of a later version"));
      PassDoneSection done;
      done.file_bytes = 1;
      done.error = "no space";
      image.Frame(FrameKind::kPassDone, EncodeSection(done));
      Store(env_, Manifest(rank), image.bytes());
    }
  }
  ~MergedManifestTest() override { std::filesystem::remove_all(run_); }
  std::string Manifest(int rank) const {
    return run_ + (rank == 0 ? "/rank0_pid1" : "/rank1_pid2") + "/manifest.tdm";
  }
  std::unique_ptr<PassStore> Open() const { return std::move(*PassStore::Open(env_, run_)); }

  static RunIndex Index() {
    RunIndex index;
    index.generation = 2;
    index.job_key = "job";
    index.job_label = "8123456.0";
    index.world = 2;
    index.ranks = {{.rank = 0,
                    .processes = {0},
                    .selected = true,
                    .closed = true,
                    .last_step = 9,
                    .how = "exit"},
                   {.rank = 1,
                    .processes = {1},
                    .lost = true,
                    .last_step = (1ull << 53) + 1,
                    .how = "killed"}};
    index.passes = {{.process = 0, .pass = 0, .local_step = 4, .global_step = 5, .agreed = true},
                    {.process = 1, .pass = 0, .local_step = 6, .global_step = 6, .extra = true}};
    index.operators = {{.name = "a",
                        .cls = "Linear",
                        .kind = OperatorKind::kAten,
                        .ranks_expected = 2,
                        .ranks_called = 1,
                        .calls = 3,
                        .records = 4,
                        .not_kept = 5,
                        .overwritten = 2}};
    index.rules = {{.rule = {0, 3, "{name: dwon}", "dwon", 0}, .near_names = {"down"}}};
    index.not_kept = {{"memory limit (rank 1)", 97}};
    index.notes = {"rank 1: compiled"};
    index.damage = {{"x.tdp", 12, "torn"}};
    index.boundary = "optimizer (AdamW)";
    index.transport = "file";
    index.rank_source = "MPI";
    index.max_lag = 2;
    index.steps_seen = 310;
    index.bytes = 1000;
    index.files = 2;
    index.holes = {"rank 1 wrote no closing record"};
    return index;
  }

  Env* env_ = Env::Posix();
  std::string run_;
};

TEST_F(MergedManifestTest, RoundTripsARunIndex) {
  ASSERT_TRUE(WriteMergedManifest(env_, *Open(), {Index()}).ok());
  const auto merged = ReadMergedManifest(env_, run_);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(merged->head.sources, 2u);
  ASSERT_EQ(merged->sources.size(), 2u);
  EXPECT_EQ(merged->sources[0].directory, "rank0_pid1");
  ASSERT_EQ(merged->generations.size(), 1u);
  const RunIndex& index = merged->generations[0];
  EXPECT_EQ(index.run, run_);
  EXPECT_EQ(index.generation, 2u);
  EXPECT_EQ(index.job_label, "8123456.0");
  ASSERT_EQ(index.ranks.size(), 2u);
  EXPECT_TRUE(index.ranks[0].selected && index.ranks[0].closed && !index.ranks[0].lost);
  EXPECT_TRUE(index.ranks[1].lost && !index.ranks[1].closed);
  EXPECT_EQ(index.ranks[1].last_step, (1ull << 53) + 1);
  EXPECT_THAT(index.ranks[1].processes, ElementsAre(1u));
  ASSERT_EQ(index.passes.size(), 2u);
  EXPECT_TRUE(index.passes[0].agreed && !index.passes[0].extra);
  EXPECT_TRUE(index.passes[1].extra && !index.passes[1].agreed);
  EXPECT_EQ(index.passes[0].global_step, 5u);
  EXPECT_EQ(index.operators[0].kind, OperatorKind::kAten);
  EXPECT_EQ(index.operators[0].not_kept, 5u);
  EXPECT_EQ(index.operators[0].overwritten, 2u);
  EXPECT_EQ(index.rules[0].rule.text, "{name: dwon}");
  EXPECT_THAT(index.rules[0].near_names, ElementsAre("down"));
  EXPECT_EQ(index.not_kept[0].first, "memory limit (rank 1)");
  EXPECT_EQ(index.damage[0].offset, 12u);
  EXPECT_EQ(index.boundary, "optimizer (AdamW)");
  EXPECT_EQ(index.max_lag, 2u);
  EXPECT_THAT(index.holes, ElementsAre("rank 1 wrote no closing record"));
  EXPECT_FALSE(index.complete());
}

TEST_F(MergedManifestTest, KeepsFramesItDoesNotKnow) {
  ASSERT_TRUE(WriteMergedManifest(env_, *Open(), {Index()}).ok());
  const std::string bytes = *ReadFile(env_, run_ + "/manifest.tdm", 1 << 20);
  EXPECT_NE(
      bytes.find(RawFrame(static_cast<FrameKind>(150), RawSection(0x7001, "of a later version"))),
      std::string::npos);
}

TEST_F(MergedManifestTest, IsFreshUntilASourceChanges) {
  ASSERT_TRUE(WriteMergedManifest(env_, *Open(), {Index()}).ok());
  const auto merged = ReadMergedManifest(env_, run_);
  EXPECT_TRUE(IsFresh(env_, *Open(), *merged));
  auto file = env_->OpenAppend(Manifest(1), 0600);
  ASSERT_TRUE((*file)->Append(std::as_bytes(std::span("x", 1))).ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_FALSE(IsFresh(env_, *Open(), *merged));
}

TEST_F(MergedManifestTest, ANewProcessOrPassFileMakesItStale) {
  ASSERT_TRUE(WriteMergedManifest(env_, *Open(), {Index()}).ok());
  const auto merged = ReadMergedManifest(env_, run_);
  Store(env_, run_ + "/rank0_pid1/pass00001.tdp.part", "");
  EXPECT_FALSE(IsFresh(env_, *Open(), *merged));
  ASSERT_TRUE(WriteMergedManifest(env_, *Open(), {Index()}).ok());
  const auto again = ReadMergedManifest(env_, run_);
  EXPECT_TRUE(IsFresh(env_, *Open(), *again));
  ASSERT_TRUE(env_->MakeDirs(run_ + "/rank2_pid3", 0700).ok());
  Store(env_, run_ + "/rank2_pid3/manifest.tdm", Image(kManifestMagic).bytes());
  EXPECT_FALSE(IsFresh(env_, *Open(), *again));
}

TEST_F(MergedManifestTest, WhatAKilledMergeLeftGoesWithTheNext) {
  Store(env_, run_ + "/manifest.tdm.tdump-4711.part", "half");
  Store(env_, run_ + "/manifest.tdm.tdump-4712.part", "of a merge that runs");
  Store(env_, run_ + "/manifest.tdm.3.part", "the user's");
  const auto run = Open();
  const Status status = env_->WithLock(run_ + "/manifest.tdm.tdump-4712.part", 0,
                                       [&] { return WriteMergedManifest(env_, *run, {Index()}); });
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<std::string> names = *env_->List(run_);
  std::erase_if(names, [](const std::string& name) { return name.starts_with("rank"); });
  EXPECT_THAT(names,
              ElementsAre("manifest.tdm", "manifest.tdm.3.part", "manifest.tdm.tdump-4712.part"));
}

TEST_F(MergedManifestTest, RefusesIndicesOutsideItsLists) {
  RunIndex index = Index();
  index.passes[1].process = 2;
  ASSERT_TRUE(WriteMergedManifest(env_, *Open(), {index}).ok());
  const Status status = ReadMergedManifest(env_, run_).status();
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("process: 2 of 2"));
}

TEST_F(MergedManifestTest, RefusesOverwrittenRecordsOfNoOperator) {
  std::string body = EncodeRunIndex(Index());
  AppendSection(MergedOverwrittenSection{{{.place = 1, .records = 7}}}, &body);
  RunIndex index;
  const Status status = DecodeRunIndex(std::as_bytes(std::span(body)), false, 2, &index);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("place: 1 of 1 operators"));
}

// Readers count on one entry for each rank.
TEST_F(MergedManifestTest, RefusesAWorldOfWhichItHasNotEveryRank) {
  for (const int32_t world : {-1, 1, 3, std::numeric_limits<int32_t>::max()}) {
    RunIndex index = Index();
    index.world = world;
    ASSERT_TRUE(WriteMergedManifest(env_, *Open(), {index}).ok());
    const Status status = ReadMergedManifest(env_, run_).status();
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("world: " + std::to_string(world) + ", of 2 ranks"));
  }
}

TEST_F(MergedManifestTest, TellsAProcessManifestFromAMergedOne) {
  EXPECT_EQ(ReadMergedManifest(env_, run_).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadMergedManifest(env_, run_ + "/rank0_pid1").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tdump::io::test
