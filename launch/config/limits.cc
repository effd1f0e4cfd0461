#include "launch/config/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>

namespace tdump::launch {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;
constexpr uint64_t kNone = ~uint64_t{0};
constexpr uint64_t kMostFiles = 9'999;  // of a run, output.layout: auto
constexpr uint64_t kFilesOfRun = 16;    // config, generations, merged manifest and the like
constexpr uint64_t kFilesOfRank = 2;    // manifest and slot
constexpr uint64_t kPackedFiles = 2;    // of a writer, where passes overlap

// A limit file of the memory controller; "max" and anything that is no number are no limit.
uint64_t LimitIn(Env* env, const std::string& path) {
  const auto text = ReadFile(env, path, 4096);
  if (!text.ok()) return kNone;
  uint64_t value = kNone;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc{} ? value : kNone;
}

// The limits from `path` (of this process, below `mount`) up to the mount: a parent may be tighter.
uint64_t TightestLimit(Env* env, const std::string& mount, std::string path, const char* file) {
  uint64_t limit = kNone;
  while (true) {
    limit = std::min(limit, LimitIn(env, mount + path + "/" + file));
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return limit;
    path.resize(slash);
  }
}

// Lines of /proc/self/cgroup: "0::/path" (version 2), "9:memory:/path" (version 1).
uint64_t CgroupLimit(Env* env) {
  const auto text = ReadFile(env, "/proc/self/cgroup", 64 * 1024);
  if (!text.ok()) return kNone;
  uint64_t limit = kNone;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers.empty())
      limit = std::min(limit, TightestLimit(env, "/sys/fs/cgroup", path, "memory.max"));
    if (controllers.find("memory") != std::string::npos) {
      limit = std::min(limit,
                       TightestLimit(env, "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

// What ulimit -v and -d leave one process; the arena counts in full against both when it is mapped.
uint64_t LimitOfProcess() {
  uint64_t limit = kNone;
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit found{};
    if (::getrlimit(resource, &found) == 0 && found.rlim_cur != RLIM_INFINITY)
      limit = std::min(limit, uint64_t{found.rlim_cur});
  }
  return limit;
}

}  // namespace

uint64_t MemoryOfNode(Env* env) {
  const uint64_t node = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(node, CgroupLimit(env));
}

uint64_t ArenaBytes(Env* env, uint64_t configured, int local_ranks) {
  if (configured != 0) return configured;
  return AutomaticArena(MemoryOfNode(env), LimitOfProcess(), local_ranks);
}

uint64_t AutomaticArena(uint64_t node, uint64_t process, int local_ranks) {
  const uint64_t share = node / static_cast<uint64_t>(std::max(local_ranks, 1));
  return std::clamp(std::min(share, process) / 20, 16 * kMiB, 4 * kGiB);
}

uint64_t RunLimitBytes(uint64_t configured, uint64_t free_bytes) {
  return configured != 0 ? configured : std::min(free_bytes / 10, 100 * kGiB);
}

uint64_t SelectedRanks(const filters::Config& config, int world) {
  uint64_t count = 0;
  for (int rank = 0; rank < world; ++rank) count += config.ranks.Contains(rank, world) ? 1 : 0;
  return count;
}

namespace {

uint64_t FilesBesidePasses(uint64_t world, uint64_t writers) {
  return kFilesOfRun + world * kFilesOfRank + writers * kPackedFiles;
}

}  // namespace

bool NeedsNodeFiles(uint64_t world, uint64_t writers) {
  return FilesBesidePasses(world, writers) > kMostFiles;
}

uint64_t SingleFiles(uint64_t world, uint64_t writers) {
  const uint64_t others = FilesBesidePasses(world, writers);
  return others < kMostFiles ? (kMostFiles - others) / writers : 0;
}

}  // namespace tdump::launch
