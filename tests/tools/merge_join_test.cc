#include "tools/merge_join.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "coordinator/merge.h"
#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::ProcessImage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MergeJoinTest : public test::ScratchTest {
 protected:
  void WriteRank(const std::string& run, int32_t rank, const std::string& key = "job",
                 const std::string& host = "node0") {
    ProcessImage process(env_, Path(run),
                         {.rank = rank, .world = 2, .pid = 7, .job_key = key, .host = host});
    process.Pass(0).Exit(1);
  }
  io::RunIndex Index(const std::string& run) {
    store_ = std::move(*io::PassStore::Open(env_, Path(run)));
    return coordinator::BuildRunIndex(*store_, 0);
  }

  std::unique_ptr<io::PassStore> store_;
};

TEST_F(MergeJoinTest, PlacesOfOneJobBecomeOneRun) {
  WriteRank("n0", 0);
  WriteRank("n1", 1);
  WriteRank("other", 0, "another job");
  const auto runs = JoinRuns({Path("n0"), Path("other"), Path("n1")});
  ASSERT_TRUE(runs.ok()) << runs.status().message();
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ((*runs)[0].path, Path("n0"));
  EXPECT_THAT((*runs)[0].from, ElementsAre(Path("n1")));
  EXPECT_EQ((*runs)[0].linked + (*runs)[0].copied, 2u);
  EXPECT_THAT((*runs)[1].from, IsEmpty());
  EXPECT_THAT(Index("n0").holes, IsEmpty());
  EXPECT_EQ(Index("n0").passes.size(), 2u);
  EXPECT_EQ(Index("n1").passes.size(), 1u);  // as it was
}

TEST_F(MergeJoinTest, ASecondTimeOnlyWhatChangedIsTaken) {
  WriteRank("n0", 0);
  ProcessImage running(env_, Path("n1"), {.rank = 1, .world = 2});
  running.Pass(0).TornPass(1, {"a"}, 40);
  ASSERT_TRUE(JoinRuns({Path("n0"), Path("n1")}).ok());
  EXPECT_EQ(Index("n0").passes.size(), 3u);
  // The pass was finished meanwhile.
  const std::string part = running.directory() + "/pass00001.tdp.part";
  ASSERT_TRUE(env_->Remove(part).ok());
  running.Exit(1);
  const auto again = JoinRuns({Path("n0"), Path("n1")});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(Index("n0").passes.size(), 2u);
  EXPECT_THAT(Index("n0").holes, IsEmpty());
  const auto third = JoinRuns({Path("n0"), Path("n1")});
  EXPECT_EQ((*third)[0].linked + (*third)[0].copied, 0u);
}

TEST_F(MergeJoinTest, OneNameOfTwoProcessesKeepsBoth) {
  WriteRank("n0", 0);
  WriteRank("n1", 0, "job", "node1");  // same rank and pid in another container
  ASSERT_TRUE(JoinRuns({Path("n0"), Path("n1")}).ok());
  EXPECT_EQ(Index("n0").ranks[0].processes.size(), 2u);
}

TEST_F(MergeJoinTest, ADirectoryTwiceIsItself) {
  WriteRank("n0", 0);
  const auto runs = JoinRuns({Path("n0"), Path("n0") + "/."});
  ASSERT_TRUE(runs.ok()) << runs.status().message();
  EXPECT_EQ((*runs)[0].linked, 0u);
  EXPECT_EQ(Index("n0").passes.size(), 1u);
}

TEST_F(MergeJoinTest, DirectoriesHaveTheModeOfTheirSource) {
  namespace fs = std::filesystem;
  const auto mode_of = [](const std::string& path) {
    return static_cast<unsigned>(fs::status(path).permissions());
  };
  struct Case {
    unsigned source, umask, joined;
  };
  const mode_t before = ::umask(022);
  for (const auto& [source, umask, joined] :
       {Case{0700, 022, 0700}, {0755, 022, 0755}, {0755, 077, 0700}, {0550, 022, 0750}}) {
    SCOPED_TRACE(testing::Message() << std::oct << source << " " << umask);
    const std::string home = "n0_" + std::to_string(joined) + std::to_string(source);
    const std::string other = "n1_" + home;
    WriteRank(home, 0);
    WriteRank(other, 1);
    for (const char* name : {"/rank1_pid7", "/clock"}) {
      fs::create_directory(Path(other) + name);
      fs::permissions(Path(other) + name, static_cast<fs::perms>(source));
    }
    ::umask(umask);
    ASSERT_TRUE(JoinRuns({Path(home), Path(other)}).ok());
    EXPECT_EQ(mode_of(Path(home) + "/rank1_pid7"), joined);
    EXPECT_EQ(mode_of(Path(home) + "/clock"), joined);
    fs::permissions(Path(other) + "/rank1_pid7", fs::perms::owner_all);
    fs::permissions(Path(other) + "/clock", fs::perms::owner_all);
  }
  ::umask(before);
}

TEST_F(MergeJoinTest, OneRanksDirectoryJoinsTheRunBeforeIt) {
  WriteRank("n0", 0);
  WriteRank("n1", 1);
  EXPECT_THAT(JoinRuns({Path("n1/rank1_pid7")}).status().message(),
              HasSubstr("is one rank's directory"));
  ASSERT_TRUE(JoinRuns({Path("n0"), Path("n1/rank1_pid7")}).ok());
  EXPECT_THAT(Index("n0").holes, IsEmpty());
}

}  // namespace
}  // namespace tdump::tools
