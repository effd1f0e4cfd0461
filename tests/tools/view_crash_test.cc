// tdump-view --crash as a process: rank 0 ended well, rank 1 within a kernel, rank 2 between two.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "io/breadcrumb_ring.h"
#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::ProcessImage;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ViewCrashTest : public test::ScratchTest {
 protected:
  ViewCrashTest() {
    EXPECT_TRUE(env_->MakeDirs(Path("run/clock"), 0700).ok());
    for (int rank : {0, 1, 2}) {
      ProcessImage process(env_, Path("run"), {.rank = rank, .world = 3, .host = "node042"});
      if (rank == 0) process.Exit(0);
    }
  }
  static std::string File(int rank) {
    return "rank" + std::to_string(rank) + "_pid" + std::to_string(100 + rank) + ".crumbs";
  }
  std::unique_ptr<io::BreadcrumbRing> Ring(int rank, const std::string& path) {
    Identity identity;
    identity.rank = rank;
    identity.pid = 100 + rank;
    return std::move(io::BreadcrumbRing::Create(path, identity)).value();
  }
  void LeaveCrumbs() {
    const auto one = Ring(1, Path("run/clock/" + File(1))),
               two = Ring(2, Path("run/clock/" + File(2)));
    one->SetStep(41);
    for (io::BreadcrumbRing* ring : {one.get(), two.get()}) {
      const uint64_t mm = ring->AddName("attn/mm_out");
      ring->Leave(mm, false);
      ring->Leave(mm, true);
    }
    one->Leave(one->AddName("cpp_\033fused_0"), false);
  }
  test::Finished View(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "--crash"});
    return Run("tdump-view", arguments);
  }
};

TEST_F(ViewCrashTest, NamesTheKernelThatARankWasIn) {
  LeaveCrumbs();
  const auto done = View({});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out,
              ContainsRegex("1 +node042 +101 +41 +cpp_.x1bfused_0 +attn/mm_out +[a-z_ ]+<- in "
                            "this kernel\n"));
  EXPECT_THAT(done.out,
              ContainsRegex("2 +node042 +102 +- +attn/mm_out +attn/mm_out +[a-z_ ]+between "
                            "kernels\n"));
  EXPECT_EQ(View({"--rank", "2"}).out.find("cpp_"), std::string::npos);
}

TEST_F(ViewCrashTest, AsJson) {
  LeaveCrumbs();
  const auto json = nlohmann::json::parse(View({"--json"}).out)["processes"];
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0]["trouble"], "");  // it took its own away
  EXPECT_EQ(json[1]["in"][0]["name"], "cpp_\033fused_0");
  EXPECT_EQ(json[1]["in"][0]["step"], 41);
  EXPECT_EQ(json[1]["last_returned"]["name"], "attn/mm_out");
  EXPECT_EQ(json[2]["in"], nlohmann::json::array());
  EXPECT_EQ(json[2]["last_begun"]["step"], nullptr);
}

TEST_F(ViewCrashTest, WithoutAnySaysHowToGetThem) {
  const auto done = View({});
  EXPECT_EQ(done.status, 2);
  EXPECT_THAT(done.err, HasSubstr("collect.kernels=names"));
  EXPECT_THAT(View({"--rank", "0"}).err, HasSubstr("every process ended well"));
}

TEST_F(ViewCrashTest, ThoseOnAnotherNodeAreSaidToBeThere) {
  LeaveCrumbs();
  ASSERT_TRUE(env_->Remove(Path("run/clock/" + File(2))).ok());
  ASSERT_TRUE(env_->Symlink("/dev/shm/not_here.crumbs", Path("run/clock/" + File(2))).ok());
  EXPECT_THAT(View({}).out, HasSubstr("rank 2: no breadcrumbs can be read: they are in "
                                      "/dev/shm/not_here.crumbs on node042, which"));
}

TEST_F(ViewCrashTest, ForeignAndDamagedFilesAreNotTaken) {
  LeaveCrumbs();
  ASSERT_TRUE(env_->Rename(Path("run/clock/" + File(1)), Path("run/clock/" + File(0))).ok());
  std::filesystem::resize_file(Path("run/clock/" + File(2)), 100);
  const auto done = View({});
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.out, HasSubstr("those of rank 1, pid 101\n"));
  EXPECT_THAT(done.out, HasSubstr("100 bytes are no file of breadcrumbs\n"));
  EXPECT_THAT(done.out, Not(HasSubstr("<- in this kernel")));
}

TEST_F(ViewCrashTest, AFileThatIsTooLongIsNotRead) {
  LeaveCrumbs();
  std::filesystem::resize_file(Path("run/clock/" + File(1)), io::kCrumbFileBytes + 1);
  const auto done = View({});
  EXPECT_THAT(done.out, HasSubstr("rank 1: no breadcrumbs can be read: "));
  EXPECT_THAT(done.out, HasSubstr("262145 bytes, more than the 262144 that are read"));
}

}  // namespace
}  // namespace tdump::tools
