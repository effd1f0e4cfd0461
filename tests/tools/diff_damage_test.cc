// tdump-diff as a process, on runs that are damaged or of which a part is missing.
#include <gmock/gmock.h>

#include "tests/tools/diff_process.h"

namespace tdump::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DiffDamageTest : public DiffProcessTest {};

TEST_F(DiffDamageTest, ADamagedPayloadIsNoDifference) {
  MakeRun("a", {{2}});
  MakeRun("b", {{4}});
  const std::string file = Path("b/rank0_pid100/pass00000.tdp");
  std::string bytes = Text(file);
  const size_t at = bytes.find(BytesOf<float>({4.0f, 2.5f}));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(env_, file, bytes, 0600).ok());
  const auto done = Diff({"a", "b", "--select", "second"});
  EXPECT_EQ(done.status, 2);
  EXPECT_THAT(done.out, HasSubstr("DAMAGED  1 place could not be read; of 0 pairs"));
  EXPECT_THAT(done.out, HasSubstr("pass00000.tdp"));
  EXPECT_THAT(done.out, Not(HasSubstr("ORIGIN")));
  const Json report = Report({"a", "b"});
  EXPECT_EQ(report["verdict"], "damaged");
  EXPECT_EQ(report["counts"]["unreadable"], 1);
  EXPECT_EQ(report["counts"]["failing"], 1);  // of "third", which is whole
}

TEST_F(DiffDamageTest, VerifyReadsWhatHashesSayIsEqual) {
  MakeRun("a", {{2}});
  MakeRun("b", {{2}});
  EXPECT_EQ(Diff({"a", "b", "--verify"}).status, 0);
  const Json report = Report({"a", "b", "--verify"});
  EXPECT_THAT(report["notes"].dump(), HasSubstr("equal by hash, and read (3 pairs)"));
  const std::string file = Path("b/rank0_pid100/pass00000.tdp");
  std::string bytes = Text(file);
  const size_t at = bytes.find(BytesOf<float>({2.0f, 2.5f}));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(env_, file, bytes, 0600).ok());
  EXPECT_EQ(Diff({"a", "b"}).status, 0);
  const auto damaged = Diff({"a", "b", "--verify"});
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.out, HasSubstr("pass00000.tdp"));
}

TEST_F(DiffDamageTest, ATruncatedPassIsDamageWhereverItEnds) {
  MakeRun("a", {{2}});
  MakeRun("b", {{2}});
  const std::string file = Path("b/rank0_pid100/pass00000.tdp");
  const std::string bytes = Text(file);
  for (size_t i = 0; i < 12; ++i) {
    const std::string cut = bytes.substr(0, bytes.size() * i / 12);
    ASSERT_TRUE(WriteFileAtomically(env_, file, cut, 0600).ok());
    const auto done = Diff({"a", "b"});
    EXPECT_EQ(done.status, 2) << cut.size() << ": " << done.out;
    EXPECT_THAT(done.out + done.err, HasSubstr("pass00000.tdp")) << cut.size();
    EXPECT_THAT(done.out, Not(HasSubstr("ORIGIN"))) << cut.size();
  }
}

// The manifest says how long it was, and reading it stops somewhere.
TEST_F(DiffDamageTest, AFileThatIsCutShortIsOnePlace) {
  MakeRun("a", {{2}, {2}});
  MakeRun("b", {{2}, {2}});
  const std::string file = Path("b/rank1_pid101/pass00000.tdp");
  const std::string bytes = Text(file);
  const std::string one = "DAMAGED  1 place could not be read";
  for (size_t i = 0; i < 12; ++i) {
    const std::string cut = bytes.substr(0, bytes.size() * i / 12);
    ASSERT_TRUE(WriteFileAtomically(env_, file, cut, 0600).ok());
    EXPECT_THAT(Diff({"a", "b"}).out, HasSubstr(one)) << cut.size();
    EXPECT_THAT(Diff({"a", "b", "--ranks", "1"}).out, HasSubstr("1 place could")) << cut.size();
  }
  std::filesystem::remove(file);
  const auto missing = Diff({"a", "b"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.out, HasSubstr(one));
  EXPECT_THAT(missing.out, HasSubstr("pass00000.tdp: offset 0: listed in the manifest, but the "
                                     "file is missing"));
  // Another file is another place.
  std::filesystem::remove(Path("b/rank0_pid100/pass00000.tdp"));
  const auto both = Diff({"a", "b", "--json"});
  EXPECT_EQ(Json::parse(both.out)["damage"].size(), 2u) << both.out;
}

TEST_F(DiffDamageTest, AKilledRankIsComparedAsFarAsItCame) {
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("b", {{2, 2}});
  std::filesystem::remove_all(Path("b"));
  ProcessImage(env_, Path("b"), {.rank = 0, .world = 2})
      .Tensors(0, Model())
      .Tensors(1, Model())
      .Exit(2);
  ProcessImage(env_, Path("b"), {.rank = 1, .world = 2}).Tensors(0, Model());
  const auto done = Diff({"a", "b"});
  EXPECT_EQ(done.status, 1) << done.err;
  EXPECT_THAT(done.out, HasSubstr("steps 0-1   INCOMPLETE\n  missing   rank 1 (node0, pid 101) "
                                  "wrote no closing record"));
  EXPECT_THAT(done.out, HasSubstr("DIFFERS  3 records without a partner; the 9 pairs agree\n"));
  EXPECT_THAT(done.out, HasSubstr("  only in A   rank 1, step 1: the whole step (3 records); rank "
                                  "1: "));
  EXPECT_EQ(Report({"a", "b"})["b"]["complete"], false);
  EXPECT_EQ(Diff({"a", "b", "--steps", "0"}).status, 0);
  // What is missing of rank 1 is nothing to rank 0.
  EXPECT_THAT(Diff({"a", "b", "--ranks", "0"}).out, Not(HasSubstr("INCOMPLETE")));
  EXPECT_THAT(Diff({"a/rank0", "b/rank0"}).out, Not(HasSubstr("INCOMPLETE")));
  EXPECT_THAT(Diff({"a/rank1", "b/rank1"}).out, HasSubstr("missing   rank 1 (node0, pid 101)"));
  // A run that was asked to be whole.
  ASSERT_TRUE(WriteFileAtomically(env_, Path("b/config.yaml"), "strict: true\n", 0600).ok());
  const auto strict = Diff({"a", "b", "--steps", "0"});
  EXPECT_EQ(strict.status, 2);
  EXPECT_THAT(strict.err, HasSubstr("b@0 is incomplete and its configuration says strict"));
}

TEST_F(DiffDamageTest, ATornPassIsComparedAsFarAsItGoes) {
  ProcessImage(env_, Path("a"), {}).Pass(0, {"x", "yy", "zzz"}).Exit(1);
  ProcessImage(env_, Path("whole"), {}).TornPass(0, {"x", "yy", "zzz"}, 0);
  uint64_t most = 0;
  for (const uint64_t cut : {100, 400, 700, 900}) {
    std::filesystem::remove_all(Path("b"));
    ProcessImage(env_, Path("b"), {}).TornPass(0, {"x", "yy", "zzz"}, cut);
    const Json report = Report({"a", "b"});
    EXPECT_NE(report["verdict"], "damaged") << cut;
    EXPECT_EQ(report["counts"]["failing"], 0) << cut;
    const uint64_t paired = report["counts"]["paired"];
    EXPECT_EQ(paired + report["counts"]["unpaired_a"].get<uint64_t>(), 3) << cut;
    most = std::max(most, paired);
  }
  EXPECT_EQ(most, 3u);  // only index and footer were missing
}

}  // namespace
}  // namespace tdump::tools
