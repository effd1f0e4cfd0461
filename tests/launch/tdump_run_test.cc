// The parts of tdump-run that need no other process: files, environment, command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "launch/runtime/terminal.h"
#include "launch/tdump_run/commands.h"
#include "launch/tdump_run/installation.h"
#include "launch/tdump_run/job_environment.h"
#include "launch/tdump_run/options.h"

namespace tdump::launch {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

void Touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "";
}

class Installed : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }
  std::string Executable() const { return (root_ / "bin/tdump-run").string(); }
  fs::path root_;
};

TEST_F(Installed, BuildTree) {
  Touch(root_ / "lib/libtdump_shim.so");
  Touch(root_ / "python/tdump_autoload.py");
  auto found = FindInstallation(Executable());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->shim, (root_ / "lib/libtdump_shim.so").string());
  EXPECT_EQ(found->python, (root_ / "python").string());
  EXPECT_EQ(found->recipes, "");
}

TEST_F(Installed, Prefix) {
  Touch(root_ / "lib/tdump/libtdump_shim.so");
  Touch(root_ / "lib/tdump/python/tdump_autoload.py");
  Touch(root_ / "share/tdump/configs/port.yaml");
  Touch(root_ / "share/tdump/configs/nan.yaml");
  Touch(root_ / "share/tdump/configs/README.md");
  auto found = FindInstallation(Executable());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->python, (root_ / "lib/tdump/python").string());
  EXPECT_THAT(RecipeNames(found->recipes), ElementsAre("nan", "port"));
  EXPECT_THAT(ListRecipes(*found),
              EndsWith("\nfiles, as -c takes them: " +
                       (root_ / "share/tdump/configs/NAME.yaml").string() + "\n"));
}

TEST_F(Installed, InsideThePythonPackageNoPythonPathIsNeeded) {
  Touch(root_ / "tdump_autoload.py");
  Touch(root_ / "tdump/lib/tdump/libtdump_shim.so");
  Touch(root_ / "tdump/lib/tdump/python/tdump_autoload.py");
  auto found = FindInstallation((root_ / "tdump/bin/tdump-run").string());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->shim, (root_ / "tdump/lib/tdump/libtdump_shim.so").string());
  EXPECT_EQ(found->python, "");
}

TEST_F(Installed, MissingShimNamesThePlaces) {
  const auto found = FindInstallation(Executable());
  EXPECT_EQ(found.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(found.status().message(), HasSubstr((root_ / "lib/libtdump_shim.so").string()));
}

TEST(JobEnvironment, AddsToWhatIsThere) {
  const Environment present = {{"LD_PRELOAD", "/x/libasan.so"}, {"PYTHONPATH", "/mine"}};
  const auto changes = JobEnvironment({"/t/libtdump_shim.so", "/t/python", ""},
                                      {{"TDUMP_EFFECTIVE", "steps: 0\n"}}, true, present);
  EXPECT_THAT(changes, Contains(Pair("LD_PRELOAD", "/x/libasan.so:/t/libtdump_shim.so")));
  EXPECT_THAT(changes, Contains(Pair("TDUMP_LD_PRELOAD_BEFORE", "/x/libasan.so")));
  EXPECT_THAT(changes, Contains(Pair("PYTHONPATH", "/t/python:/mine")));
  EXPECT_THAT(changes, Contains(Pair("TDUMP_EFFECTIVE", "steps: 0\n")));
}

TEST(JobEnvironment, AddsNothingTwice) {
  const Environment present = {{"LD_PRELOAD", "/x/libasan.so /t/libtdump_shim.so"},
                               {"PYTHONPATH", "/t/python"}};
  const auto changes = JobEnvironment({"/t/libtdump_shim.so", "/t/python", ""}, {}, true, present);
  for (const auto& [name, value] : changes) {
    EXPECT_NE(name, "LD_PRELOAD");
    EXPECT_NE(name, "PYTHONPATH");
  }
}

TEST(JobEnvironment, NamesTheJobOnlyWhereNoLauncherDoes) {
  const auto names = [](const Environment& present) {
    std::vector<std::string> found;
    for (const auto& [name, value] : JobEnvironment({"/t/s.so", "", ""}, {}, true, present))
      found.push_back(name);
    return found;
  };
  EXPECT_THAT(names({}), Contains("TDUMP_LAUNCH"));
  EXPECT_THAT(names({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
              Not(Contains("TDUMP_LAUNCH")));
}

TEST(JobEnvironment, NoCodeThatAnEngineKeptIsUsedNorLeft) {
  const auto added = [](const Environment& present) {
    EnvironmentChanges changes;
    AddPrivateCache(present, &changes);
    return changes;
  };
  EXPECT_THAT(added({}), ElementsAre(Pair("VLLM_DISABLE_COMPILE_CACHE", "1")));
  EXPECT_THAT(added({{"VLLM_DISABLE_COMPILE_CACHE", "0"}}), IsEmpty());
}

ParsedOptions Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "tdump-run");
  return ParseOptions(static_cast<int>(words.size()), words.data());
}

TEST(Options, CommandAfterTheDashes) {
  const auto parsed = Parse({"-c", "a.yaml", "--steps", "0-1", "--", "python", "app.py", "--dump"});
  ASSERT_FALSE(parsed.ends) << parsed.error;
  EXPECT_EQ(parsed.options.config, "a.yaml");
  EXPECT_FALSE(parsed.options.dump);
  EXPECT_THAT(parsed.options.command, ElementsAre("python", "app.py", "--dump"));
  EXPECT_THAT(parsed.options.settings, ElementsAre(Pair("steps.select", "0-1")));
}

TEST(Options, AMistypedOneIsNamedWithWhatIsNear) {
  EXPECT_EQ(Parse({"--levle", "hash", "--", "true"}).error,
            "--levle: no such option; did you mean --level? tdump-run --help lists them");
  EXPECT_EQ(Parse({"--zzzzzz=1", "--", "true"}).error,
            "--zzzzzz: no such option; tdump-run --help lists them");
}

TEST(StartLines, OnlyRanksThatThereAreWrite) {
  StartFacts facts;
  facts.identity.world = 2;
  facts.steps = *Spec::Parse("0-5");
  facts.ranks = *Spec::Parse("5");
  EXPECT_THAT(StartLines(facts), HasSubstr("; writing nothing: no rank is selected\n"));
  facts.ranks = *Spec::Parse("1-7");
  EXPECT_THAT(StartLines(facts), HasSubstr("; writing steps 0-5 on rank 1\n"));
}

// What is taken before a serving engine measures what is free is said before it does.
TEST(StartLines, MemoryStagingAndDiskHaveTheirSizes) {
  StartFacts facts;
  facts.arena_bytes = uint64_t{4} << 30;
  facts.limit_bytes = uint64_t{100} << 30;
  facts.free_bytes = uint64_t{61} << 40;
  EXPECT_THAT(StartLines(facts),
              HasSubstr("\ntdump: arena 4.0 GiB a process, disk at most 100 GiB (free 61 TiB)\n"));
  facts.staging_bytes = 256 << 20;
  EXPECT_THAT(StartLines(facts), HasSubstr("\ntdump: arena 4.0 GiB a process, staging 256 MiB a "
                                           "GPU, disk at most 100 GiB (free 61 TiB)\n"));
}

TEST(Options, RepeatedOptionsKeepTheirOrder) {
  const auto parsed = Parse({"--dump", "--filter", "a", "--filter", "b,c", "--set",
                             "memory.host=1GiB", "--set", "x=y=z", "--", "true"});
  ASSERT_FALSE(parsed.ends) << parsed.error;
  EXPECT_THAT(parsed.options.name_patterns, ElementsAre("a", "b,c"));
  EXPECT_THAT(parsed.options.settings, ElementsAre(Pair("memory.host", "1GiB"), Pair("x", "y=z")));
}

TEST(Options, NumberOfRanksBelongsToCheck) {
  const auto check = Parse({"-c", "a.yaml", "--check", "--ranks", "4"});
  ASSERT_FALSE(check.ends) << check.error;
  EXPECT_EQ(check.options.check_ranks, 4);
  EXPECT_TRUE(check.options.settings.empty());
  const auto run = Parse({"--ranks", "1,3", "--", "true"});
  EXPECT_THAT(run.options.settings, ElementsAre(Pair("ranks", "1,3")));
  const auto as_of_view = Parse({"--rank", "1,3", "--step", "2", "--", "true"});
  EXPECT_THAT(as_of_view.options.settings,
              ElementsAre(Pair("steps.select", "2"), Pair("ranks", "1,3")));
}

TEST(Options, MistakesEndWith125BeforeTheJobAnd2ForCheck) {
  EXPECT_EQ(Parse({"--dump"}).status, 125);
  EXPECT_THAT(Parse({"--dump"}).error, HasSubstr("no COMMAND"));
  EXPECT_EQ(Parse({"--dmup", "--", "true"}).status, 125);
  EXPECT_EQ(Parse({"--set", "novalue", "--", "true"}).status, 125);
  EXPECT_EQ(Parse({"--check", "--ranks", "x"}).status, 2);
  EXPECT_THAT(Parse({"--dump", "-c", "a.yaml", "--", "true"}).error,
              HasSubstr("expected one of them"));
  EXPECT_TRUE(Parse({"--estimate", "--", "true"}).options.estimate);
  EXPECT_THAT(Parse({"--from", "latest", "--", "true"}).error, HasSubstr("--estimate with it"));
}

TEST(Options, OneQuestionAtATime) {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"--check", "--print"}, {"--explain", "norm", "--estimate"}, {"--recipes", "--check"}}) {
    const auto parsed = Parse(words);
    EXPECT_EQ(parsed.status, 2);
    EXPECT_THAT(parsed.error, HasSubstr("--check, --explain, --estimate, --print and --recipes"));
  }
}

TEST(Options, TheDashesMayBeLeftOut) {
  const auto parsed = Parse({"--dump", "--no-children", "python", "app.py", "--steps", "3"});
  ASSERT_FALSE(parsed.ends) << parsed.error;
  EXPECT_FALSE(parsed.options.children);
  EXPECT_THAT(parsed.options.command, ElementsAre("python", "app.py", "--steps", "3"));
  EXPECT_TRUE(parsed.options.settings.empty());
}

TEST(Options, HelpAndVersionEndWith0) {
  const auto help = Parse({"--help"});
  EXPECT_TRUE(help.ends);
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("mpirun -n 4 tdump-run"));
  EXPECT_EQ(Parse({"--version"}).output, "tdump-run " TDUMP_VERSION "\n");
}

}  // namespace
}  // namespace tdump::launch
