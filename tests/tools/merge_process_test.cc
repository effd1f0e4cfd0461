// tdump-merge as a process: exit status, what it prints, what it leaves.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "io/merged_manifest.h"
#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::ProcessImage;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MergeProcessTest : public test::ScratchTest {
 protected:
  void WriteRank(int32_t rank, bool whole = true) {
    ProcessImage process(env_, Path("run"), {.rank = rank, .world = 2});
    process.Expect("a").Pass(0).Map(0, 0, 1);
    if (whole) process.Exit(1);
  }
};

TEST_F(MergeProcessTest, TheUsageLineNamesItsArguments) {
  EXPECT_THAT(Run("tdump-merge", {"--help"}).out,
              HasSubstr("Usage: tdump-merge [OPTIONS] RUN...\n"));
  EXPECT_THAT(Run("tdump-diff", {"--help"}).out, HasSubstr("Usage: tdump-diff [OPTIONS] A [B]\n"));
  EXPECT_THAT(Run("tdump-view", {"--help"}).out,
              HasSubstr("Usage: tdump-view [OPTIONS] [RUN|ADDRESS]\n"));
  EXPECT_THAT(Run("tdump-view", {"--help"}).out, HasSubstr("--sort {none,absmax,rms,nan,bytes}"));
}

TEST_F(MergeProcessTest, AWholeRunMergesAndSaysSo) {
  WriteRank(0);
  WriteRank(1);
  const auto done = Run("tdump-merge", {"run", "--strict"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("tdump: COMPLETE  run  "));
  const auto merged = io::ReadMergedManifest(env_, Path("run"));
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(merged->generations.at(0).passes.size(), 2u);
  EXPECT_TRUE(io::IsFresh(env_, **io::PassStore::Open(env_, Path("run")), *merged));
  // The merged manifest is no process, and changes nothing for the tools.
  EXPECT_EQ(Run("tdump-merge", {"run", "--strict"}).out, done.out);
  EXPECT_EQ(Run("tdump-view", {"run", "--verify"}).status, 0);
}

TEST_F(MergeProcessTest, HolesFailOnlyWhenStrict) {
  WriteRank(0);
  WriteRank(1, false);
  const auto lenient = Run("tdump-merge", {"run"});
  EXPECT_EQ(lenient.status, 0);
  EXPECT_THAT(lenient.out, StartsWith("tdump: INCOMPLETE  run"));
  EXPECT_EQ(Run("tdump-merge", {"run", "--strict", "--quiet"}).status, 1);
  EXPECT_EQ(Run("tdump-merge", {"run", "--strict", "--quiet"}).out, "");
  ASSERT_TRUE(WriteFileAtomically(env_, Path("run/config.yaml"), "strict: true\n", 0600).ok());
  EXPECT_EQ(Run("tdump-merge", {"run"}).status, 1);
  // As another version allowed it.
  constexpr const char* kOther = "strict: true\ncapture: [{dims: 'batch, seq'}]\nlater: 1\n";
  ASSERT_TRUE(WriteFileAtomically(env_, Path("run/config.yaml"), kOther, 0600).ok());
  EXPECT_EQ(Run("tdump-merge", {"run"}).status, 1);
}

// K03: nor does one that is no YAML end a tool that only asks whether it is strict.
TEST_F(MergeProcessTest, AConfigurationThatCannotBeReadIsNotStrict) {
  WriteRank(0);
  std::string keys;
  for (int i = 0; i < 100'000; ++i) keys += "{strict: ";
  for (const std::string& yaml : {std::string(100'000, '['), keys, std::string("strict: 'true\n"),
                                  std::string("strict: &x [*x]\n")}) {
    ASSERT_TRUE(WriteFileAtomically(env_, Path("run/config.yaml"), yaml, 0600).ok());
    for (const char* tool : {"tdump-merge", "tdump-view"})
      EXPECT_EQ(Run(tool, {"run"}).status, 0) << tool << yaml.substr(0, 40);
    EXPECT_EQ(Run("tdump-diff", {"run", "run"}).status, 0);
    EXPECT_EQ(Run("tdump-merge", {"run", "--strict"}).status, 1);
  }
}

TEST_F(MergeProcessTest, AHoleIsInTheJson) {
  WriteRank(0);
  const auto done = Run("tdump-merge", {"run", "--json"});
  EXPECT_EQ(done.status, 0);
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json["runs"][0]["verdict"], "INCOMPLETE");
  EXPECT_EQ(json["runs"][0]["holes"][0], "rank 1 never started under tdump");
  EXPECT_EQ(json["runs"][0]["ranks"][1]["state"], "never started");
  EXPECT_EQ(json["runs"][0]["ranks"][0]["steps"], nlohmann::json({0}));
}

TEST_F(MergeProcessTest, AMergeThatDoesNotFitLeavesTheOldOne) {
  WriteRank(0);
  ASSERT_EQ(Run("tdump-merge", {"run"}).status, 0);
  const std::string before = Text(Path("run/manifest.tdm"));
  const std::string command =
      "trap '' XFSZ && ulimit -f 1 && " + PathOf("tdump-merge") + " run 2>err >out";
  EXPECT_EQ(WEXITSTATUS(Shell(command)), 2);
  EXPECT_THAT(Text(Path("err")), HasSubstr("manifest.tdm"));
  EXPECT_EQ(Text(Path("run/manifest.tdm")), before);
  EXPECT_EQ(env_->List(Path("run"))->size(), 2u);  // and the rank's directory
}

TEST_F(MergeProcessTest, TroubleIsStatusTwo) {
  const auto none = Run("tdump-merge", {"run"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("tdump-merge: 'run': no such directory"));
  EXPECT_EQ(Run("tdump-merge", {}).status, 2);
  EXPECT_EQ(Run("tdump-merge", {"--help"}).status, 0);
  WriteRank(0);
  EXPECT_THAT(Run("tdump-merge", {"run/rank0"}).err, HasSubstr("a run is merged as a whole"));
  EXPECT_THAT(Run("tdump-merge", {"run/rank0_pid100"}).err, HasSubstr("one rank's directory"));
}

}  // namespace
}  // namespace tdump::tools
