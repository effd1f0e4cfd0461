#include "coordinator/process_facts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

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

// Fields of /proc/PID/stat, counted from 1 as in proc(5).
constexpr int kState = 3, kParent = 4, kThreads = 20, kStart = 22;

// From field 3 on, behind the name (in parentheses); empty: there is no such process.
class Stat {
 public:
  explicit Stat(int64_t pid) {
    const std::string stat = ReadProc(pid, "stat", 4096);
    const size_t close = stat.rfind(')');
    if (close == std::string::npos) return;
    std::istringstream rest(stat.substr(close + 1));
    for (std::string word; rest >> word;) words_.push_back(word);
  }
  std::string Word(int field) const {
    const auto at = static_cast<size_t>(field - kState);
    return at < words_.size() ? words_[at] : "";
  }
  uint64_t Number(int field) const { return std::strtoull(Word(field).c_str(), nullptr, 10); }

 private:
  std::vector<std::string> words_;
};

int64_t ParentOf(int64_t pid) { return static_cast<int64_t>(Stat(pid).Number(kParent)); }

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

uint64_t StartTime(int64_t pid) { return Stat(pid).Number(kStart); }

// A zombie has ended, and only its parent has not asked how; unless it is a first thread that left
// the others behind.
bool IsAlive(const ProcessId& process) {
  if (process.pid <= 0) return false;
  const Stat stat(process.pid);
  const uint64_t start = stat.Number(kStart);
  if (start == 0 || start != process.start) return false;
  const std::string state = stat.Word(kState);
  return state != "X" && (state != "Z" || stat.Number(kThreads) > 1);
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
