#include "coordinator/process_facts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

extern char** environ;

namespace tdump::coordinator {
namespace {

constexpr size_t kProgramBytes = 4096;
constexpr int kAncestors = 16;

std::string ReadProc(int64_t pid, const char* file, size_t limit) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + file, std::ios::binary);
  std::string text(limit, '\0');
  in.read(text.data(), static_cast<std::streamsize>(limit));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

// Field n of /proc/PID/stat, counted from 1 as in proc(5); only fields after the name (in
// parentheses) are asked for.
uint64_t StatField(int64_t pid, int field) {
  const std::string stat = ReadProc(pid, "stat", 4096);
  const size_t close = stat.rfind(')');
  if (close == std::string::npos) return 0;
  std::istringstream rest(stat.substr(close + 1));
  std::string word;
  for (int at = 3; at <= field; ++at) {
    if (!(rest >> word)) return 0;
  }
  return std::strtoull(word.c_str(), nullptr, 10);
}

int64_t ParentOf(int64_t pid) { return static_cast<int64_t>(StatField(pid, 4)); }

bool IsInteractiveShell(int64_t pid) {
  std::string line = ReadProc(pid, "cmdline", kProgramBytes);
  while (!line.empty() && line.back() == '\0') line.pop_back();
  if (line.empty()) return false;
  std::string_view name(line);
  name = name.substr(0, name.find('\0'));
  const std::string_view rest = std::string_view(line).substr(name.size());
  const size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  if (!name.ends_with("sh")) return false;
  return rest.empty() || rest.substr(1) == "-i" || rest.substr(1) == "-l" ||
         rest.substr(1) == "--login";
}

ProcessId FindAgent(int64_t from) {
  int64_t pid = from;
  for (int i = 0; i < kAncestors && pid > 1; ++i) {
    const std::string environment = ReadProc(pid, "environ", size_t{1} << 20);
    if (environment.empty()) return {};
    if (!environment.starts_with("TORCHELASTIC_RUN_ID=") &&
        environment.find(std::string("\0TORCHELASTIC_RUN_ID=", 21)) == std::string::npos) {
      return {pid, StartTime(pid)};
    }
    pid = ParentOf(pid);
  }
  return {};
}

}  // namespace

Environment CurrentEnvironment() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equal = text.find('=');
    if (equal != std::string_view::npos)
      result.emplace(text.substr(0, equal), text.substr(equal + 1));
  }
  return result;
}

uint64_t StartTime(int64_t pid) { return StatField(pid, 22); }

bool IsAlive(const ProcessId& process) {
  if (process.pid <= 0) return false;
  const uint64_t start = StartTime(process.pid);
  return start != 0 && start == process.start;
}

ProcessFacts CurrentFacts() {
  ProcessFacts facts;
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) facts.host = host;
  facts.self = {::getpid(), StartTime(::getpid())};
  facts.parent = {::getppid(), StartTime(::getppid())};
  facts.parent_is_interactive_shell = IsInteractiveShell(facts.parent.pid);
  if (::getenv("TORCHELASTIC_RUN_ID") != nullptr) facts.agent = FindAgent(facts.parent.pid);
  facts.program = ReadProc(facts.self.pid, "cmdline", kProgramBytes);
  while (!facts.program.empty() && facts.program.back() == '\0') facts.program.pop_back();
  std::replace(facts.program.begin(), facts.program.end(), '\0', ' ');
  return facts;
}

}  // namespace tdump::coordinator
