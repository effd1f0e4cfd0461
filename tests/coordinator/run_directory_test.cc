#include "coordinator/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

namespace tdump::coordinator {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectoryTest() {
    char pattern[] = "/tmp/tdump_run_XXXXXX";
    base = ::mkdtemp(pattern);
    options.pattern = base + "/outputs/tdump_{job}";
  }
  ~RunDirectoryTest() override { fs::remove_all(base); }

  static Identity Rank(int rank, int64_t pid, const std::string& key = "openmpi a-b",
                       const std::string& host = "n1") {
    Identity identity;
    identity.rank = rank;
    identity.pid = pid;
    identity.host = host;
    identity.start_time = 1000 + static_cast<uint64_t>(rank);
    identity.job_key = key;
    identity.job_label = "1450";
    return identity;
  }
  RunDirectory Prepare(const Identity& identity) {
    Result<RunDirectory> run = PrepareRunDirectory(Env::Posix(), identity, options);
    EXPECT_TRUE(run.ok()) << run.status().ToString();
    return std::move(run).value();
  }
  std::string Text(const std::string& path) { return *ReadFile(Env::Posix(), path, 1 << 20); }

  std::string base;
  RunDirectoryOptions options;
};

TEST_F(RunDirectoryTest, RanksOfAJobComeTogether) {
  options.config = "version: 1\n";
  const RunDirectory a = Prepare(Rank(0, 17));
  const RunDirectory b = Prepare(Rank(1, 18));
  EXPECT_EQ(a.run, base + "/outputs/tdump_1450");
  EXPECT_EQ(b.run, a.run);
  EXPECT_EQ(a.generation, 0u);
  EXPECT_EQ(b.generation, 0u);
  EXPECT_TRUE(a.first);
  EXPECT_FALSE(b.first);
  EXPECT_EQ(a.rank_directory, a.run + "/rank0_pid17");
  EXPECT_TRUE(fs::is_directory(b.run + "/rank1_pid18"));
  EXPECT_TRUE(fs::exists(a.run + "/clock/rank0_pid17.slot"));
  EXPECT_EQ(Text(a.run + "/generations"), "openmpi a-b\n");
  EXPECT_EQ(Text(a.run + "/config.yaml"), "version: 1\n");
  EXPECT_EQ(fs::read_symlink(base + "/outputs/latest"), "tdump_1450");
  struct stat info {};
  ASSERT_EQ(::stat(a.run.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

// Killed and run again in the same directory; then one rank has the wrong restart count.
TEST_F(RunDirectoryTest, RestartsAreGenerations) {
  options.pattern = base + "/fixed";
  options.config = "a\n";
  EXPECT_EQ(Prepare(Rank(0, 1, "torchrun r restart 0")).generation, 0u);
  EXPECT_EQ(Prepare(Rank(1, 2, "torchrun r restart 0")).generation, 0u);
  std::ofstream(base + "/fixed/rank0_pid1/pass00000.tdp") << "first attempt";
  options.config = "b\n";
  EXPECT_EQ(Prepare(Rank(0, 3, "torchrun r restart 1")).generation, 1u);
  EXPECT_EQ(Prepare(Rank(1, 4, "torchrun r restart 0")).generation, 0u);
  EXPECT_EQ(Text(base + "/fixed/rank0_pid1/pass00000.tdp"), "first attempt");
  EXPECT_EQ(Text(base + "/fixed/config.yaml"), "a\n");
  EXPECT_EQ(Text(base + "/fixed/config.generation1.yaml"), "b\n");
  EXPECT_EQ(Text(base + "/fixed/generations"), "torchrun r restart 0\ntorchrun r restart 1\n");
  EXPECT_FALSE(fs::exists(base + "/latest"));  // the user named the directory
}

// Equal rank and pid on two hosts, and in two containers with one host name.
TEST_F(RunDirectoryTest, EqualPidsGetDirectoriesOfTheirOwn) {
  const RunDirectory a = Prepare(Rank(0, 17, "job x", "n1"));
  const RunDirectory b = Prepare(Rank(0, 17, "job x", "n2"));
  Identity container = Rank(0, 17, "job x", "n1");
  container.start_time = 5;
  const RunDirectory c = Prepare(container);
  const RunDirectory d = Prepare(container);  // even everything equal
  const std::set<std::string> names = {a.name, b.name, c.name, d.name};
  EXPECT_EQ(names.size(), 4u);
  EXPECT_EQ(a.name, "rank0_pid17");
  EXPECT_THAT(b.name, testing::StartsWith("rank0_pid17_h"));
}

TEST_F(RunDirectoryTest, ADirectoryWithoutItsSlotIsNotTaken) {
  const RunDirectory a = Prepare(Rank(0, 17));
  fs::remove_all(a.clock_directory);
  EXPECT_NE(Prepare(Rank(0, 17)).name, a.name);
}

TEST_F(RunDirectoryTest, IfExistsError) {
  options.pattern = base + "/fixed";
  options.error_if_exists = true;
  Prepare(Rank(0, 1, "job a"));
  Prepare(Rank(1, 2, "job a"));  // the same job
  Result<RunDirectory> other = PrepareRunDirectory(Env::Posix(), Rank(0, 3, "job b"), options);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(other.status().message(), HasSubstr("if_exists"));
}

TEST_F(RunDirectoryTest, LabelsBecomeOneComponent) {
  options.start_time = "20261127-222801";
  options.pattern = "o/{job}";
  EXPECT_EQ(ResolveRunPath(options, ""), "o/20261127-222801");
  EXPECT_EQ(ResolveRunPath(options, "8123456.0"), "o/8123456.0");
  EXPECT_THAT(ResolveRunPath(options, "../x"), testing::StartsWith("o/_._x_"));
  EXPECT_NE(ResolveRunPath(options, "a/b"), ResolveRunPath(options, "a:b"));
  options.pattern = "o/";
  EXPECT_EQ(ResolveRunPath(options, "x"), "o");
}

TEST(Generations, Lines) {
  EXPECT_EQ(FindGeneration("", "a"), -1);
  EXPECT_EQ(FindGeneration("a\nb\n", "a"), 0);
  EXPECT_EQ(FindGeneration("a\nb\n", "b"), 1);
  EXPECT_EQ(FindGeneration("a\na\nb\n", "b"), 1);  // twice written, once counted
  EXPECT_EQ(FindGeneration("a\nb", "b"), -1);      // torn
  EXPECT_EQ(GenerationLine("a\nb"), "a?b");
}

// 64 processes come at once, five directories deep; mkdir now and then says "exists" or "not
// found". All end up in one generation.
TEST_F(RunDirectoryTest, ManyProcessesAtOnce) {
  constexpr int kProcesses = 64;
  options.pattern = base + "/a/b/c/d/e";
  std::vector<pid_t> children;
  for (int rank = 0; rank < kProcesses; ++rank) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      uint64_t failed = 0;
      std::unique_ptr<Env> env =
          NewFaultyEnv(Env::Posix(), [&](uint64_t n, std::string_view call, std::string_view) {
            if (call != "mkdir" || (n + static_cast<uint64_t>(rank)) % 3 != 0 || ++failed > 4)
              return 0;
            return failed % 2 == 0 ? EEXIST : ENOENT;
          });
      Result<RunDirectory> run = PrepareRunDirectory(env.get(), Rank(rank, ::getpid()), options);
      ::_exit(run.ok() && run->generation == 0 ? 0 : 1);
    }
    children.push_back(pid);
  }
  int good = 0;
  for (pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  EXPECT_EQ(good, kProcesses);
  EXPECT_EQ(Text(base + "/a/b/c/d/e/generations"), "openmpi a-b\n");
}

TEST_F(RunDirectoryTest, FailuresAreAStatus) {
  std::ofstream(base + "/file") << "x";
  options.pattern = base + "/file/run";
  EXPECT_FALSE(PrepareRunDirectory(Env::Posix(), Rank(0, 1), options).ok());
  for (uint64_t at = 0; at < 40; ++at) {
    const std::string fresh = base + "/r" + std::to_string(at);
    options.pattern = fresh;
    std::unique_ptr<Env> env = NewFaultyEnv(
        Env::Posix(),
        [&](uint64_t n, std::string_view, std::string_view) { return n >= at ? ENOSPC : 0; });
    Result<RunDirectory> run = PrepareRunDirectory(env.get(), Rank(0, 1), options);
    // Config and link may fail; directory, key and slot may not.
    EXPECT_TRUE(!run.ok() || at > 3) << at;
  }
}

}  // namespace
}  // namespace tdump::coordinator
