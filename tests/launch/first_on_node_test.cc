#include "launch/config/first_on_node.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tdump::launch {
namespace {

// What a child process gets when it claims `name`; it ends at once.
Claim ClaimOfChild(const std::string& name) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(static_cast<int>(ClaimOnNode(name)));
  int status = 0;
  ::waitpid(child, &status, 0);
  return static_cast<Claim>(WEXITSTATUS(status));
}

std::string Own(const std::string& name) { return name + std::to_string(::getpid()); }

TEST(FirstOnNode, TheFirstHasItUntilItEnds) {
  EXPECT_EQ(ClaimOfChild(Own("a")), Claim::kMine);  // and gone with the child
  EXPECT_EQ(ClaimOnNode(Own("a")), Claim::kMine);
  EXPECT_EQ(ClaimOnNode(Own("a")), Claim::kTaken);
  EXPECT_EQ(ClaimOfChild(Own("a")), Claim::kTaken);
  EXPECT_EQ(ClaimOfChild(Own("b")), Claim::kMine);
}

TEST(FirstOnNode, LongNamesCountToTheirEnd) {
  const std::string longer = Own(std::string(500, 'x'));
  EXPECT_EQ(ClaimOnNode(longer + "1"), Claim::kMine);
  EXPECT_EQ(ClaimOnNode(longer + "2"), Claim::kMine);
}

}  // namespace
}  // namespace tdump::launch
