#include "launch/tdump_run/tell_once.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <thread>
#include <vector>

#include "coordinator/identity.h"
#include "coordinator/process_facts.h"
#include "launch/config/first_on_node.h"
#include "launch/tdump_run/job_environment.h"

namespace tdump::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAfterRankZero{600};  // longer than ranks of a node start apart
constexpr milliseconds kHold{1200};          // the speaker outlives the claims of the others
constexpr milliseconds kUnread{3000};        // longest wait for the pipe to be read
constexpr milliseconds kOthersWait{
    4000};  // outlives the speaker; mpirun does not let it come to that

// Open MPI lists the first rank of each program: "0 2".
bool IsFirstOfItsProgram(const Environment& present, int32_t rank) {
  std::istringstream words(ValueOf(present, "OMPI_FIRST_RANKS"));
  for (int32_t first; words >> first;) {
    if (first == rank) return true;
  }
  return rank == 0;
}

bool OnOneNode(const Environment& present) {
  const std::string local = ValueOf(present, "OMPI_COMM_WORLD_LOCAL_SIZE");
  return !local.empty() && local == ValueOf(present, "OMPI_COMM_WORLD_SIZE");
}

// The job as Open MPI or PMIx names it.
Claim ClaimForJob(const Environment& present) {
  std::string job = ValueOf(present, "OMPI_MCA_orte_precondition_transports");
  if (job.empty()) job = ValueOf(present, "PMIX_NAMESPACE");
  return job.empty() ? Claim::kNone : ClaimOnNode("run " + job);
}

bool Speaks(const Environment& present, int32_t rank) {
  if (!OnOneNode(present)) return IsFirstOfItsProgram(present, rank);
  if (rank != 0) std::this_thread::sleep_for(kAfterRankZero);
  const Claim claim = ClaimForJob(present);
  return claim == Claim::kMine || (claim == Claim::kNone && IsFirstOfItsProgram(present, rank));
}

void WaitUntilRead(int fd) {
  constexpr milliseconds kStep{20};
  for (milliseconds waited{0}; waited < kUnread; waited += kStep) {
    int unread = 0;
    if (::ioctl(fd, FIONREAD, &unread) != 0 || unread == 0) return;
    std::this_thread::sleep_for(kStep);
  }
}

void Print(const std::string& message) {
  std::fputs(message.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

int FailOnce(const std::string& message, int status) {
  const Environment present = coordinator::CurrentEnvironment();
  std::vector<std::string> ignored;
  const coordinator::LauncherRank rank = coordinator::RankFromEnvironment(present, &ignored);
  if (rank.source == "none") {
    Print(message);
  } else if (Speaks(present, rank.rank)) {
    Print(message);
    WaitUntilRead(STDERR_FILENO);
    std::this_thread::sleep_for(kHold);
  } else {
    std::this_thread::sleep_for(kOthersWait);
  }
  return status;
}

}  // namespace tdump::launch
