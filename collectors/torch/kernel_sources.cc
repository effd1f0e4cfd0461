#include "collectors/torch/kernel_sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>

#include "core/fork_mutex.h"

namespace tdump::collectors {
namespace {

constexpr off_t kMostBytes = 64 << 20;
constexpr size_t kMostKnown = 256;  // models; a server may load packages again and again

// The text in `line` between `open` and the next `close`.
std::optional<std::string_view> Between(std::string_view line, std::string_view open,
                                        std::string_view close) {
  const size_t begin = line.find(open);
  if (begin == std::string_view::npos) return std::nullopt;
  line.remove_prefix(begin + open.size());
  const size_t end = line.find(close);
  if (end == std::string_view::npos) return std::nullopt;
  return line.substr(0, end);
}

std::string KeyOf(std::string_view kernel, std::string_view arg) {
  std::string key(kernel);
  return key.append(1, ' ').append(arg);
}

// What a line that calls the printer before a launch says: kernel and argument, as one key.
std::optional<std::string> LaunchOf(std::string_view line) {
  if (line.find("aoti_torch_save_tensor_handle(") != std::string_view::npos) {
    // (buf0, "buf0", "before_launch", "kernel");
    const auto arg = Between(line, ", \"", "\"");
    const auto kernel = Between(line, "\"before_launch\", \"", "\"");
    if (arg && kernel) return KeyOf(*kernel, *arg);
  } else if (line.find("aoti_torch_print_tensor_handle(") != std::string_view::npos) {
    // (buf0, "before_launch - kernel - buf0");
    const auto kernel = Between(line, "\"before_launch - ", " - ");
    const auto rest = Between(line, "\"before_launch - ", "\"");
    if (kernel && rest) return KeyOf(*kernel, rest->substr(kernel->size() + 3));
  }
  return std::nullopt;
}

// "": none. Anyone may have laid anything there: a pipe would make the job wait.
std::string ReadSource(const std::string& object) {
  const std::string source = std::filesystem::path(object).replace_extension(".cpp").string();
  const int fd = ::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return "";
  std::string text;
  struct stat found {};
  if (::fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size <= kMostBytes) {
    text.resize(static_cast<size_t>(found.st_size));
    size_t got = 0;
    for (ssize_t now = 1; got < text.size() && now > 0; got += static_cast<size_t>(now))
      now = std::max<ssize_t>(::read(fd, text.data() + got, text.size() - got), 0);
    text.resize(got);
  }
  ::close(fd);
  return text;
}

}  // namespace

KernelSources KernelSources::Parse(std::string_view source) {
  KernelSources sources;
  Origin origin;
  bool fresh = false;     // the comment is of the next launch
  bool launched = false;  // between the calls of the printer before a launch and behind it
  while (!source.empty()) {
    const std::string_view line = source.substr(0, source.find('\n'));
    source.remove_prefix(std::min(line.size() + 1, source.size()));
    if (const auto nodes = Between(line, "Source Nodes: [", "]"); nodes) {
      origin = {std::string(*nodes),
                std::string(Between(line, "Original ATen: [", "]").value_or(""))};
      fresh = true;
    } else if (line.find("\"after_launch") != std::string_view::npos) {
      fresh = launched = false;
    } else if (const auto launch = LaunchOf(line); launch) {
      launched = true;
      if (fresh) sources.origins_.emplace(*launch, origin);
    } else if (launched) {
      sources.ReadLaunched(line);
    } else {
      sources.ReadMoved(line);
    }
  }
  return sources;
}

void KernelSources::ReadLaunched(std::string_view line) {
  if (line.find("aoti_torch_") == std::string_view::npos) return;
  constexpr std::string_view kHandle = "_handle";
  for (size_t at = line.find('&'); at != std::string_view::npos; at = line.find('&', at + 1)) {
    const std::string_view rest = line.substr(at + 1);
    const std::string_view word = rest.substr(0, rest.find_first_of(",)"));
    if (word.starts_with("buf") && word.ends_with(kHandle))
      made_.emplace(word.substr(0, word.size() - kHandle.size()), Made::kByKernel);
  }
}

void KernelSources::ReadMoved(std::string_view line) {
  const auto to = Between(line, "auto ", " = std::move(");
  const auto from = Between(line, " = std::move(", ")");
  if (to && from && MadeOf(*from) != Made::kUnknown) made_.emplace(*to, Made::kInItsMemory);
}

KernelSources::Made KernelSources::MadeOf(std::string_view name) const {
  const auto found = made_.find(name);
  return found != made_.end() ? found->second : Made::kUnknown;
}

std::shared_ptr<const KernelSources> KernelSources::Of(const std::string& path) {
  static auto* const mutex = new ForkMutex;
  static auto* const known = new std::map<std::string, std::shared_ptr<const KernelSources>>;
  std::lock_guard lock(*mutex);
  if (known->size() > kMostKnown) known->clear();
  std::shared_ptr<const KernelSources>& sources = (*known)[path];
  if (sources == nullptr) sources = std::make_shared<const KernelSources>(Parse(ReadSource(path)));
  return sources;
}

const KernelSources::Origin* KernelSources::Find(std::string_view kernel,
                                                 std::string_view arg) const {
  const auto found = origins_.find(KeyOf(kernel, arg));
  return found != origins_.end() ? &found->second : nullptr;
}

void KernelSources::AddTo(CallText* text, std::string_view kernel, std::string_view arg) const {
  const Origin* origin = Find(kernel, arg);
  if (origin == nullptr) return;
  if (!origin->aten.empty()) text->AddText("aten", origin->aten);
  if (!origin->nodes.empty()) text->AddText("nodes", origin->nodes);
}

}  // namespace tdump::collectors
