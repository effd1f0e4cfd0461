#include "tools/progress_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/io/forwarding_env.h"

namespace tdump::tools {
namespace {

TEST(ProgressLine, SaysHowMuchTimeIsLeftOnceItCanTell) {
  const ProgressLine line("tdump-diff: step and rank", true);
  EXPECT_EQ(line.Text(1, 40, 1), "tdump-diff: step and rank 1 of 40");
  EXPECT_EQ(line.Text(10, 40, 20), "tdump-diff: step and rank 10 of 40, 60 s left");
  EXPECT_EQ(line.Text(10, 40, 100), "tdump-diff: step and rank 10 of 40, 5 min left");
  EXPECT_EQ(line.Text(1, 4001, 9), "tdump-diff: step and rank 1 of 4001, 10.0 h left");
  EXPECT_EQ(line.Text(0, 4, 9), "tdump-diff: step and rank 0 of 4");
}

TEST(ProgressLine, TellsHowFarThePieceInHandIs) {
  const ProgressLine line("tdump-diff: step and rank", true);
  const ProgressPart first{"tensors put together", 30, 40, false};
  EXPECT_EQ(line.Text(0, 1, 50, first, 50),
            "tdump-diff: step and rank 0 of 1, 30 of 40 tensors put together");
  // One that is not the last says nothing of how long it takes; pieces before it do.
  EXPECT_EQ(line.Text(1, 3, 40, first, 10),
            "tdump-diff: step and rank 1 of 3, 30 of 40 tensors put together, 80 s left");
  const ProgressPart last{"pairs compared", 10, 40, true};
  EXPECT_EQ(line.Text(0, 1, 50, last, 20),
            "tdump-diff: step and rank 0 of 1, 10 of 40 pairs compared, 60 s left");
  // The first took 40 s, of the second 30 s are left.
  EXPECT_EQ(line.Text(1, 3, 50, last, 10),
            "tdump-diff: step and rank 1 of 3, 10 of 40 pairs compared, 70 s left");
}

// A clock that stands.
class StillClock : public io::test::ForwardingEnv {
 public:
  StillClock() : ForwardingEnv(NewMemoryEnv()) {}
  int64_t MonotonicNs() override { return now_ns; }
  int64_t now_ns = 1;
};

TEST(ProgressLine, ATerminalIsWrittenOverTenTimesASecondAtMost) {
  StillClock clock;
  std::vector<std::string> written;
  ProgressLine line(
      "x", true, [&](std::string_view text) { written.emplace_back(text); }, &clock);
  for (int ms = 0; ms < 1000; ++ms) {
    clock.now_ns += 1'000'000;
    line.Show(0, 1, {"pairs compared", static_cast<size_t>(ms), 1000, true});
  }
  EXPECT_EQ(written.size(), 10u);
  EXPECT_EQ(written.front(), "\rx 0 of 1, 99 of 1000 pairs compared\033[K");
  line.Show(1, 1);
  EXPECT_EQ(written.back(), "\r\033[K");
}

TEST(ProgressLine, AFileGetsALineEveryTenSeconds) {
  StillClock clock;
  std::vector<std::string> written;
  ProgressLine line(
      "x", false, [&](std::string_view text) { written.emplace_back(text); }, &clock);
  for (int seconds = 1; seconds <= 35; ++seconds) {
    clock.now_ns += 1'000'000'000;
    line.Show(static_cast<size_t>(seconds) / 20, 2);
  }
  line.Show(2, 2);
  EXPECT_EQ(written, (std::vector<std::string>{"x 0 of 2\n", "x 1 of 2, 20 s left\n",
                                               "x 1 of 2, 30 s left\n"}));
}

}  // namespace
}  // namespace tdump::tools
