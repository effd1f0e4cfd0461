#include "launch/tdump_run/tell_once.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "launch/config/first_on_node.h"

namespace tdump::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAfterRankZero{600};  // longer than ranks of a node start apart
constexpr milliseconds kHold{1200};          // the speaker outlives the claims of the others
constexpr milliseconds kUnread{3000};        // longest wait for the pipe to be read
constexpr milliseconds kOthersWait{
    4000};  // outlives the speaker; mpirun does not let it come to that

// A number in the environment, -1 when unset or not one.
long Number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return -1;
  long value = -1;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc{} && stop == end && value >= 0 ? value : -1;
}

long RankOfLauncher() {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"}) {
    if (const long rank = Number(name); rank >= 0) return rank;
  }
  return -1;
}

// Open MPI lists the first rank of each program: "0 2".
bool IsFirstOfItsProgram(long rank) {
  const char* list = std::getenv("OMPI_FIRST_RANKS");
  std::istringstream words(list != nullptr ? list : "");
  for (long first; words >> first;) {
    if (first == rank) return true;
  }
  return rank == 0;
}

bool OnOneNode() {
  const long local = Number("OMPI_COMM_WORLD_LOCAL_SIZE");
  return local > 0 && local == Number("OMPI_COMM_WORLD_SIZE");
}

// The job as Open MPI or PMIx names it.
Claim ClaimForJob() {
  const char* job = std::getenv("OMPI_MCA_orte_precondition_transports");
  if (job == nullptr) job = std::getenv("PMIX_NAMESPACE");
  return job != nullptr ? ClaimOnNode(std::string("run ") + job) : Claim::kNone;
}

bool Speaks(long rank) {
  if (!OnOneNode()) return IsFirstOfItsProgram(rank);
  if (rank != 0) std::this_thread::sleep_for(kAfterRankZero);
  const Claim claim = ClaimForJob();
  return claim == Claim::kMine || (claim == Claim::kNone && IsFirstOfItsProgram(rank));
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
  const long rank = RankOfLauncher();
  if (rank < 0) {
    Print(message);
  } else if (Speaks(rank)) {
    Print(message);
    WaitUntilRead(STDERR_FILENO);
    std::this_thread::sleep_for(kHold);
  } else {
    std::this_thread::sleep_for(kOthersWait);
  }
  return status;
}

}  // namespace tdump::launch
