#include "coordinator/process_facts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace tdump::coordinator {
namespace {

TEST(ProcessFacts, AProcessThatRunsOrIsStoppedIsAlive) {
  EXPECT_TRUE(IsAlive({::getpid(), StartTime(::getpid())}));
  EXPECT_FALSE(IsAlive({::getpid(), StartTime(::getpid()) + 1}));  // its number was used again
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_TRUE(IsAlive({child, StartTime(child)}));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
}

TEST(ProcessFacts, AZombieIsNotAlive) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const uint64_t start = StartTime(child);
  EXPECT_NE(start, 0u);
  EXPECT_FALSE(IsAlive({child, start}));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(StartTime(child), 0u);
}

}  // namespace
}  // namespace tdump::coordinator
