#include "launch/runtime/forked_work.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace tdump::launch {
namespace {

void InChild(ForkedWork* work, const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    work->InChild();
    body();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_EQ(status, 0);
}

TEST(ForkedWork, EachChildCountsOnce) {
  ForkedWork work;
  EXPECT_EQ(work.children(), 0u);
  for (int i = 0; i < 3; ++i) {
    InChild(&work, [&] {
      work.Count();
      work.Count();
    });
  }
  InChild(&work, [] {});  // ran nothing
  EXPECT_EQ(work.children(), 3u);
}

TEST(ForkedWork, AChildOfAChildCountsToo) {
  ForkedWork work;
  InChild(&work, [&] {
    work.Count();
    InChild(&work, [&] { work.Count(); });
  });
  EXPECT_EQ(work.children(), 2u);
}

// What it ran before it joined a group belongs to a rank, and so do its children.
TEST(ForkedWork, AChildThatBecomesARankCountsNoMore) {
  ForkedWork work;
  InChild(&work, [&] {
    work.Count();
    work.BecomeRank();
    InChild(&work, [&] { work.Count(); });
    if (work.children() != 1) ::_exit(1);
  });
  InChild(&work, [&] { work.BecomeRank(); });
  EXPECT_EQ(work.children(), 0u);
}

}  // namespace
}  // namespace tdump::launch
