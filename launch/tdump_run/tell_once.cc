#include "launch/tdump_run/tell_once.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

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

enum class ClaimResult { kMine, kTaken, kNoKey };

// Holds the claim until the process ends.
ClaimResult Claim() {
  const char* job = std::getenv("OMPI_MCA_orte_precondition_transports");
  if (job == nullptr) job = std::getenv("PMIX_NAMESPACE");
  if (job == nullptr) return ClaimResult::kNoKey;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name =
      std::string("tdump-run ").append(job).substr(0, sizeof address.sun_path - 2);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ClaimResult::kNoKey;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 ? ClaimResult::kMine
                                                                              : ClaimResult::kTaken;
}

bool Speaks(long rank) {
  if (!OnOneNode()) return IsFirstOfItsProgram(rank);
  if (rank != 0) std::this_thread::sleep_for(kAfterRankZero);
  const ClaimResult claim = Claim();
  return claim == ClaimResult::kMine || (claim == ClaimResult::kNoKey && IsFirstOfItsProgram(rank));
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
