#include "launch/tdump_run/job_environment.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "coordinator/identity.h"
#include "core/text.h"

namespace tdump::launch {
namespace {

constexpr const char* kAsanStarts = "verify_asan_link_order=0";

// `entry` in a list separated by `:`; LD_PRELOAD also takes spaces.
bool Lists(const std::string& list, const std::string& entry, const char* separators) {
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find_first_of(separators, begin), list.size());
    if (list.compare(begin, end - begin, entry) == 0) return true;
    begin = end + 1;
  }
  return false;
}

bool StartedByLauncher(const Environment& present) {
  std::vector<std::string> ignored;
  return coordinator::RankFromEnvironment(present, &ignored).source != "none";
}

}  // namespace

void AddPrivateCache(const Environment& present, EnvironmentChanges* changes) {
  constexpr const char* kVariable = "VLLM_DISABLE_COMPILE_CACHE";
  if (ValueOf(present, kVariable).empty()) changes->emplace_back(kVariable, "1");
}

EnvironmentChanges JobEnvironment(const Installation& installation, EnvironmentChanges changes,
                                  bool children, const Environment& present) {
  std::error_code ignored;
  changes.emplace_back("TDUMP_BASE", std::filesystem::current_path(ignored).string());
  changes.emplace_back("TDUMP_LAUNCHED", std::to_string(::getpid()));
  if (!StartedByLauncher(present))
    changes.emplace_back("TDUMP_LAUNCH", LocalTimeText() + "-" + std::to_string(::getpid()));
  if (!children) changes.emplace_back("TDUMP_CHILDREN", "0");

  const std::string preload = ValueOf(present, "LD_PRELOAD");
  if (!Lists(preload, installation.shim, ": ")) {
    changes.emplace_back("TDUMP_LD_PRELOAD_BEFORE", preload);
    changes.emplace_back("LD_PRELOAD",
                         preload.empty() ? installation.shim : preload + ":" + installation.shim);
  }
  // A program built with AddressSanitizer refuses to start behind a preloaded object.
  const std::string asan = ValueOf(present, "ASAN_OPTIONS");
  if (asan.find("verify_asan_link_order") == std::string::npos)
    changes.emplace_back("ASAN_OPTIONS", (asan.empty() ? "" : asan + ":") + kAsanStarts);
  const std::string python = ValueOf(present, "PYTHONPATH");
  if (!installation.python.empty() && !Lists(python, installation.python, ":")) {
    changes.emplace_back("PYTHONPATH",
                         python.empty() ? installation.python : installation.python + ":" + python);
  }
  return changes;
}

}  // namespace tdump::launch
