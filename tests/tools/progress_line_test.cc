#include "tools/progress_line.h"

#include <gtest/gtest.h>

namespace tdump::tools {
namespace {

TEST(ProgressLine, SaysHowMuchTimeIsLeftOnceItCanTell) {
  const ProgressLine line("tdump-diff: step and rank");
  EXPECT_EQ(line.Text(1, 40, 1), "tdump-diff: step and rank 1 of 40");
  EXPECT_EQ(line.Text(10, 40, 20), "tdump-diff: step and rank 10 of 40, 60 s left");
  EXPECT_EQ(line.Text(10, 40, 100), "tdump-diff: step and rank 10 of 40, 5 min left");
  EXPECT_EQ(line.Text(1, 4001, 9), "tdump-diff: step and rank 1 of 4001, 10.0 h left");
  EXPECT_EQ(line.Text(0, 4, 9), "tdump-diff: step and rank 0 of 4");
}

}  // namespace
}  // namespace tdump::tools
