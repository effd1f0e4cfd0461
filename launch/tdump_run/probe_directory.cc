#include "launch/tdump_run/probe_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "coordinator/hash64.h"
#include "coordinator/identity.h"
#include "coordinator/job_key.h"
#include "core/env.h"

namespace tdump::launch {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kLateRanks{5000};  // for ranks of other nodes nobody waits longer
constexpr milliseconds kEndingRanks{500};
constexpr milliseconds kLook{20};
constexpr uint64_t kMostYaml = 4 << 20;

std::string Temporary() {
  std::error_code error;
  const fs::path path = fs::temp_directory_path(error);
  return error ? "/tmp" : path.string();
}

Status CannotMake(const std::string& path) {
  return InvalidArgument("cannot make " + path + ": " + std::strerror(errno) +
                         "; TMPDIR names another place for it");
}

// Somebody else's directory of that name is an error.
Status MakeOrFind(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return Status::Ok();
  struct stat found {};
  if (errno == EEXIST && ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
      found.st_uid == ::geteuid())
    return Status::Ok();
  return CannotMake(path);
}

// Files "PREFIX.N..." of the directory by N.
std::map<int, std::string> Numbered(const std::string& directory, std::string_view prefix) {
  std::map<int, std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.size() <= prefix.size()) continue;
    int number = 0;
    const char* digits = name.data() + prefix.size();
    if (std::from_chars(digits, name.data() + name.size(), number).ec == std::errc())
      files[number] = entry.path().string();
  }
  return files;
}

bool Lock(const std::string& file, int flags, int operation) {
  const int fd = ::open(file.c_str(), flags | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  int locked;
  do locked = ::flock(fd, operation);
  while (locked != 0 && errno == EINTR);
  return locked == 0;
}

}  // namespace

Result<ProbeDirectory> ProbeDirectory::Make(int world, const Environment& present) {
  ProbeDirectory probe;
  if (world < 2) {
    probe.path_ = Temporary() + "/tdump-estimate-XXXXXX";
    if (::mkdtemp(probe.path_.data()) == nullptr) return CannotMake(probe.path_);
    return probe;
  }
  std::vector<std::string> ignored;
  probe.world_ = world;
  probe.rank_ = coordinator::RankFromEnvironment(present, &ignored).rank;
  const coordinator::JobKey job =
      coordinator::FindJobKey(present, coordinator::CurrentFacts(), world, &ignored);
  probe.path_ = fmt::format("{}/tdump-estimate-{}-{:016x}", Temporary(), ::geteuid(),
                            coordinator::Hash64(job.key));
  TDUMP_RETURN_IF_ERROR(MakeOrFind(probe.path_));
  const std::string mine = fmt::format("{}/rank.{}", probe.path_, probe.rank_);
  if (!Lock(mine, O_CREAT | O_RDWR, LOCK_EX)) return CannotMake(mine);
  return probe;
}

bool ProbeDirectory::Speaks() const {
  if (!shared()) return true;
  std::map<int, std::string> ranks = Numbered(path_, "rank.");
  for (milliseconds waited{0}; waited < kLateRanks; waited += kLook) {
    if (std::ssize(ranks) >= world_ || (!ranks.empty() && ranks.begin()->first < rank_)) break;
    std::this_thread::sleep_for(kLook);
    ranks = Numbered(path_, "rank.");
  }
  if (ranks.empty() || ranks.begin()->first != rank_) return false;
  for (const auto& [rank, file] : ranks) {
    if (rank != rank_) (void)Lock(file, O_RDONLY, LOCK_SH);  // free when that rank has ended
  }
  return true;
}

// A rank that is being ended may still make a file: then once more.
void ProbeDirectory::Remove() const {
  std::error_code error;
  for (milliseconds waited{0}; waited < kEndingRanks; waited += kLook) {
    fs::remove_all(path_, error);
    if (!fs::exists(path_, error)) return;
    std::this_thread::sleep_for(kLook);
  }
}

std::optional<std::string> EnclosingEstimate(const Environment& present) {
  const auto found = present.find(kEstimateVariable);
  if (found == present.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Status LeaveAsked(const std::string& directory, int rank, const std::string& yaml) {
  TDUMP_RETURN_IF_ERROR(Env::Posix()->MakeDirs(directory, 0700));
  return WriteFileAtomically(Env::Posix(), fmt::format("{}/asked.{}.yaml", directory, rank), yaml,
                             0600);
}

std::optional<AskedConfig> ReadAsked(const std::string& directory) {
  std::optional<AskedConfig> first;
  for (const auto& [rank, file] : Numbered(directory, "asked.")) {
    auto yaml = ReadFile(Env::Posix(), file, kMostYaml);
    if (!yaml.ok()) continue;
    if (!first)
      first = AskedConfig{.yaml = std::move(*yaml), .differs = false};
    else
      first->differs |= *yaml != first->yaml;
  }
  return first;
}

}  // namespace tdump::launch
