#include "launch/tdump_run/torchrun.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "core/parse_number.h"

namespace tdump::launch {
namespace {

using Words = std::vector<std::string>;

// What argparse has in torch/distributed/run.py and launch.py, '-' for '_'.
constexpr std::string_view kFlags[] = {"--standalone", "-m",         "--module",
                                       "--no-python",  "--run-path", "--virtual-local-rank",
                                       "--use-env"};
constexpr std::string_view kWithValue[] = {"--nnodes",
                                           "--nproc-per-node",
                                           "--rdzv-backend",
                                           "--rdzv-endpoint",
                                           "--rdzv-id",
                                           "--rdzv-conf",
                                           "--max-restarts",
                                           "--monitor-interval",
                                           "--start-method",
                                           "--event-log-handler",
                                           "--role",
                                           "--log-dir",
                                           "-r",
                                           "--redirects",
                                           "-t",
                                           "--tee",
                                           "--log-line-prefix-template",
                                           "--local-ranks-filter",
                                           "--duplicate-stdout-filters",
                                           "--duplicate-stderr-filters",
                                           "--node-rank",
                                           "--master-addr",
                                           "--master-port",
                                           "--local-addr",
                                           "--logs-specs",
                                           "--numa-binding",
                                           "--signals-to-handle",
                                           "--shutdown-timeout"};

template <size_t kCount>
bool IsOneOf(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Words that Python takes before a script or -m: 0, none of its options that are known here.
size_t WordsOfPythonOption(std::string_view word) {
  if (word == "-X" || word == "-W") return 2;
  if (word.starts_with("-X") || word.starts_with("-W")) return 1;
  constexpr std::string_view kLetters = "bBdEIOPqsSuvx";
  const bool known = word.size() > 1 && word[0] == '-' &&
                     word.find_first_not_of(kLetters, 1) == std::string_view::npos;
  return known ? 1 : 0;
}

// Where the options of torchrun begin.
std::optional<size_t> BeginOfOptions(const Words& command) {
  if (command.empty()) return std::nullopt;
  if (FileName(command[0]) == "torchrun") return 1;
  if (!FileName(command[0]).starts_with("python")) return std::nullopt;
  size_t at = 1;
  while (at < command.size()) {
    const size_t words = WordsOfPythonOption(command[at]);
    if (words == 0) break;
    at += words;
  }
  if (at >= command.size()) return std::nullopt;
  if (FileName(command[at]) == "torchrun") return at + 1;
  const bool is_module =
      command[at] == "-m" && at + 1 < command.size() &&
      (command[at + 1] == "torch.distributed.run" || command[at + 1] == "torch.distributed.launch");
  return is_module ? std::optional(at + 2) : std::nullopt;
}

struct Size {
  std::string nodes = "1", processes;
};

// Takes the option at `*at` with its value. False: not known here.
bool TakeOption(const Words& command, size_t* at, Size* size) {
  const std::string& word = command[(*at)++];
  const size_t equals = word.find('=');
  std::string name = word.substr(0, equals);
  std::replace(name.begin(), name.end(), '_', '-');
  if (IsOneOf(kFlags, name)) return equals == std::string::npos;
  const bool glued = name.size() > 2 && (name.starts_with("-r") || name.starts_with("-t"));
  if (glued) return true;  // -r3
  if (!IsOneOf(kWithValue, name)) return false;
  if (equals == std::string::npos && *at == command.size()) return false;
  const std::string value =
      equals == std::string::npos ? command[(*at)++] : word.substr(equals + 1);
  if (name == "--nnodes") size->nodes = value;
  if (name == "--nproc-per-node") size->processes = value;
  return true;
}

// "2", "2:2"; 0: not certain.
int64_t Number(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view least = text.substr(0, colon);
  if (colon != std::string_view::npos && text.substr(colon + 1) != least) return 0;
  return std::max(ParseNumber<int32_t>(least).value_or(0), 0);
}

}  // namespace

int RanksOfTorchrun(const Words& command, const Environment& present) {
  const std::optional<size_t> begin = BeginOfOptions(command);
  if (!begin) return 0;
  Size size;
  if (const std::string nodes = ValueOf(present, "PET_NNODES"); !nodes.empty()) size.nodes = nodes;
  size.processes = ValueOf(present, "PET_NPROC_PER_NODE");
  for (size_t at = *begin; at < command.size() && command[at].starts_with('-');) {
    if (!TakeOption(command, &at, &size)) return 0;
  }
  const std::optional<int32_t> processes = ParseNumber<int32_t>(size.processes);
  const int64_t ranks = Number(size.nodes) * std::max(processes.value_or(0), 0);
  return ranks <= std::numeric_limits<int>::max() ? static_cast<int>(ranks) : 0;
}

}  // namespace tdump::launch
