// Which steps an address means to tdump-diff, what is said of a name that has no record there, and
// the name of a file that stands for standard output.
#include <gmock/gmock.h>

#include <utility>

#include "tests/tools/diff_process.h"

namespace tdump::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DiffAddressTest : public DiffProcessTest {
 protected:
  // Three steps; "second" returns 1, 2 and 3.
  void MakeSteps(const std::string& name, int64_t first_job_step) {
    ProcessImage process(env_, Path(name), {.first_job_step = first_job_step});
    for (uint64_t step = 0; step < 3; ++step)
      process.Tensors(step, Model(static_cast<float>(step + 1))).Map(step, step, 1);
    process.Exit(3);
  }
};

TEST_F(DiffAddressTest, TheJobsOwnNumberIsTakenWhereNoStepHasIt) {
  MakeSteps("plain", -1);
  MakeSteps("from100", 100);
  MakeSteps("from1", 1);
  const auto status = [&](const std::string& address) { return Diff({address, "plain:1"}).status; };
  EXPECT_EQ(status("from100:1"), 0);
  EXPECT_EQ(status("from100:101"), 0);
  EXPECT_EQ(status("from100:100"), 1);
  EXPECT_EQ(status("from100:103"), 2);
  EXPECT_EQ(status("plain:101"), 2);
  // tdump's own come first.
  EXPECT_EQ(status("from1:1"), 0);
  EXPECT_EQ(Diff({"from1:3", "plain:2"}).status, 0);
  // As tdump-view has them.
  EXPECT_EQ(Run("tdump-view", {"from100:101"}).out, Run("tdump-view", {"from100:1"}).out);
}

// As a rule of the capture has it that is about some ranks or steps alone.
TEST_F(DiffAddressTest, OfANameThatIsRecordedElsewhereItIsToldWhere) {
  const std::vector<TensorImage> all = Model(), one = {Model().front()};
  for (const int32_t rank : {0, 1}) {
    ProcessImage process(env_, Path("a"), {.rank = rank, .world = 2});
    process.Tensors(0, rank == 0 ? all : one).Tensors(1, one).Map(0, 0, 1).Map(1, 1, 1);
    process.Exit(2);
  }
  for (const auto& [address, text] :
       {std::pair("a:0/1/second", "'second' was not recorded on rank 1 in step 0, but on rank 0"),
        {"a:1/0/second@output",
         "'second@output' was not recorded on rank 0 in step 1, but in step 0"},
        {"a:1/1/second",
         "'second' was not recorded on rank 1 in step 1, but in step 0 on rank 0"}}) {
    const auto done = Diff({address, "a:0/0/second"});
    EXPECT_EQ(done.status, 2);
    EXPECT_THAT(done.err, HasSubstr(std::string(address) + ": " + text));
    const auto view = Run("tdump-view", {address});
    EXPECT_NE(view.status, 0);
    EXPECT_THAT(view.err, HasSubstr(text));
  }
  EXPECT_THAT(Diff({"a:0/1/nowhere", "a:0/0/second"}).err, HasSubstr("is named 'nowhere'"));
  EXPECT_THAT(Run("tdump-view", {"a:0/1/nowhere"}).err, HasSubstr("no record 'nowhere' there"));
}

TEST_F(DiffAddressTest, ADashIsStandardOutput) {
  MakeSteps("a", -1);
  const test::Finished page = Diff({"a", "a", "--html", "-", "--quiet"});
  EXPECT_EQ(page.status, 0);
  EXPECT_THAT(page.out, HasSubstr("<!doctype html>"));
  EXPECT_THAT(Diff({"a", "a", "--jsonl", "-", "--quiet"}).out, StartsWith("{\"type\":"));
  EXPECT_FALSE(std::filesystem::exists(Path("-")));
}

}  // namespace
}  // namespace tdump::tools
