// What tdump-diff needs where the ranks of a side are put together: it must not matter much how
// many there are.
#include <malloc.h>

#include <string>
#include <vector>

#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;

// A sanitizer's shadow memory is resident memory too.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;
#else
constexpr bool kMemoryIsOurs = true;
#endif

constexpr int32_t kRecords = 300;

class DiffMemoryTest : public test::ScratchTest {
 protected:
  // No two ranks hold the same, but for rank 0 of all runs.
  void MakeRun(const std::string& name, int32_t world, Parts kept = kPartMeta | kPartHash) {
    for (int32_t rank = 0; rank < world; ++rank) {
      ProcessImage process(env_, Path(name), {.rank = rank, .world = world});
      std::vector<TensorImage> tensors;
      for (int32_t i = 0; i < kRecords; ++i) {
        const std::string path = "decoder.layers." + std::to_string(i) + ".mlp.linear_fc1";
        process.Expect(path);
        tensors.push_back({.path = path,
                           .bytes = BytesOf<float>({1.0f + static_cast<float>(rank) / 1024,
                                                    -1.0f - static_cast<float>(i) / 1024}),
                           .dtype = "float32",
                           .bits = 32,
                           .sizes = {2},
                           .level = kept});
      }
      process.Tensors(0, tensors).Exit(1);
    }
  }

  int64_t PeakKib(const std::string& a, const std::string& b, const std::string& how = "--quiet") {
    ::malloc_trim(0);  // what this process holds when it forks counts as the child's
    const auto done = Run("tdump-diff", {a, b, "-j", "2", how});
    EXPECT_EQ(done.status, 1) << done.err;
    return done.peak_kib;
  }
};

TEST_F(DiffMemoryTest, ARecordOfOneMoreRankCostsAFewWords) {
  if (!kMemoryIsOurs) GTEST_SKIP();
  constexpr int32_t kFew = 16, kMany = 80;
  MakeRun("one", 1);
  MakeRun("few", kFew);
  MakeRun("many", kMany);
  for (const bool swapped : {false, true}) {
    const auto peak = [&](const std::string& run) {
      return swapped ? PeakKib(run, "one") : PeakKib("one", run);
    };
    const int64_t more = (peak("many") - peak("few")) * 1024;
    EXPECT_LT(more / ((kMany - kFew) * kRecords), 900) << swapped;
  }
}

// Copies that all differ, with values: what is measured of each beyond some megabytes lies in a
// file.
TEST_F(DiffMemoryTest, ARecordWithValuesOfOneMoreRankCostsNoMore) {
  if (!kMemoryIsOurs) GTEST_SKIP();
  constexpr int32_t kFew = 80, kMany = 240;
  MakeRun("one", 1, kLevelFull);
  MakeRun("few", kFew, kLevelFull);
  MakeRun("many", kMany, kLevelFull);
  for (const bool swapped : {false, true}) {
    const auto peak = [&](const std::string& run) {
      return swapped ? PeakKib(run, "one") : PeakKib("one", run);
    };
    const int64_t more = (peak("many") - peak("few")) * 1024;
    EXPECT_LT(more / ((kMany - kFew) * kRecords), 450) << swapped;
  }
}

// Of each of the pairs, which are outputs, the document has a point of the error growth.
TEST_F(DiffMemoryTest, TheDocumentIsNotHeldInMemory) {
  if (!kMemoryIsOurs) GTEST_SKIP();
  constexpr int32_t kMany = 80;
  MakeRun("one", 1, kLevelFull);
  MakeRun("many", kMany, kLevelFull);
  const int64_t plain = PeakKib("one", "many"), json = PeakKib("one", "many", "--json");
  const std::string document = Text(Path(".out"));
  EXPECT_GT(document.size(), uint64_t{kMany} * kRecords * 100);
  EXPECT_LT((json - plain) * 1024 / (kMany * kRecords), 100);
}

// Without a directory for the file the same is said, of memory.
TEST_F(DiffMemoryTest, ValuesOfManyRanksNeedNoTemporaryDirectory) {
  MakeRun("one", 1, kLevelFull);
  MakeRun("many", 80, kLevelFull);
  const std::string command = "'" + PathOf("tdump-diff") + "' one many --quiet --jsonl ";
  EXPECT_EQ(WEXITSTATUS(Shell(command + "file.jsonl")), 1);
  EXPECT_EQ(WEXITSTATUS(Shell("TMPDIR=missing " + command + "memory.jsonl")), 1);
  EXPECT_EQ(Shell("cmp file.jsonl memory.jsonl"), 0);
  EXPECT_EQ(WEXITSTATUS(Shell("ulimit -f 1000 && " + command + "/dev/null")), 1);
}

// A shell's soft limit is often no more than the ranks of a job.
TEST_F(DiffMemoryTest, MoreRanksThanTheSoftLimitOfOpenFiles) {
  MakeRun("one", 1);
  MakeRun("many", 40);
  const int status =
      Shell("ulimit -Sn 32 && '" + PathOf("tdump-diff") + "' one many --quiet > out 2>&1");
  EXPECT_EQ(WEXITSTATUS(status), 1) << Text(Path("out"));
}

// One step of all ranks is one piece of work, which may take minutes. How often it is told is up to
// the clock (progress_line_test.cc); the first pairs of a slow machine are here.
TEST_F(DiffMemoryTest, WhatATerminalIsToldOfAStepIsGoneAtTheEnd) {
  if (Shell("script --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no script(1)";
  MakeRun("one", 1);
  MakeRun("many", 80);
  const auto shown = [&](const std::string& options) {
    const std::string command = "'" + PathOf("tdump-diff") + "' one many " + options;
    (void)Shell("script -qec \"" + command + "\" shown > /dev/null 2>&1");
    return Text(Path("shown"));
  };
  const std::string text = shown("-j 1");
  const size_t last = text.rfind("\rtdump-diff: step and rank 0 of 1");
  if (last != std::string::npos) {
    EXPECT_NE(text.find("\r\033[K", last + 1), std::string::npos) << text;
    EXPECT_NE(text.find(" of 300 tensors put together"), text.find(" of 24000 pairs compared"));
  }
  EXPECT_NE(text.find("DIFFERS"), std::string::npos) << text;
  EXPECT_EQ(shown("-j 1 --quiet").find("step and rank"), std::string::npos);
  (void)Shell("'" + PathOf("tdump-diff") + "' one many 2> told > /dev/null");
  EXPECT_EQ(Text(Path("told")).find('\r'), std::string::npos);  // lines, if any
}

}  // namespace
}  // namespace tdump::tools
