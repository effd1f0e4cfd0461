#include "filters/config_settings.h"

#include <charconv>
#include <cstdio>
#include <string>

#include "filters/schema.h"
#include "filters/settings.h"
#include "filters/units.h"

namespace tdump::filters {
namespace {

constexpr uint64_t kLeastStaging = 1 << 20;

constexpr size_t kMaxDirBytes = 4000;  // leaves room below PATH_MAX for the names of a run

// Words that stand for the values of an enum, in its order.
constexpr const char* kLayouts[] = {"auto", "pass", "packed", "node"};
constexpr const char* kKernelModes[] = {"off", "save", "print", "names"};
constexpr const char* kSyncLevels[] = {"none", "pass", "step", "finalize"};

}  // namespace

void ReadVersion(Reader& r, const Setting& s, Config*) { r.Word(s, {"1"}); }

void ReadDir(Reader& r, const Setting& s, Config* c) {
  std::string dir;
  if (!r.Text(s, &dir)) return;
  if (dir.empty() || dir.find('\0') != std::string::npos)
    r.Bad(s, Describe(s.node), "the path of a directory");
  else if (dir.size() > kMaxDirBytes)
    r.Bad(s, "a path of " + std::to_string(dir.size()) + " bytes",
          "the path of a directory, at most " + std::to_string(kMaxDirBytes) + " bytes");
  else
    c->dir = dir;
}

void ReadIfExists(Reader& r, const Setting& s, Config* c) {
  const int word = r.Word(s, {"generation", "error"});
  if (word >= 0) c->error_if_exists = word == 1;
}

std::string PrintIfExists(const Config& c) { return c.error_if_exists ? "error" : "generation"; }

void ReadLimit(Reader& r, const Setting& s, Config* c) {
  uint64_t bytes = 0;
  if (s.node.text != "auto") {
    if (!r.Bytes(s, &bytes)) return;
    if (bytes == 0) {
      r.Bad(s, "a limit of 0 bytes keeps nothing", "auto, or bytes above 0");
      return;
    }
  }
  c->limit_bytes = bytes;
}

void ReadCompress(Reader& r, const Setting& s, Config* c) {
  const int word = r.Word(s, {"none", "zstd"});
  if (word >= 0) c->compress = static_cast<Compression>(word);
}

std::string PrintCompress(const Config& c) {
  return c.compress == Compression::kZstd ? "zstd" : "none";
}

void ReadMode(Reader& r, const Setting& s, Config* c) {
  int mode = 0;
  bool good = s.node.is_text() && !s.node.text.empty() && s.node.text.size() <= 5;
  for (size_t i = 0; good && i < s.node.text.size(); ++i) {
    const char digit = s.node.text[i];
    good = digit >= '0' && digit <= '7';
    mode = mode * 8 + (digit - '0');
  }
  if (good && (mode & 0700) == 0700 && mode <= 07777)
    c->mode = mode;
  else
    r.Bad(s, Describe(s.node),
          "an octal mode in quotes that lets the owner in, such as '0700' or '0750'");
}

std::string PrintMode(const Config& c) {
  char text[16];
  std::snprintf(text, sizeof text, "'%04o'", static_cast<unsigned>(c.mode));
  return text;
}

void ReadBoundary(Reader& r, const Setting& s, Config* c) {
  static constexpr std::string_view kForms =
      "auto | optimizer | backward | forward[:REGEX] | op:REGEX | explicit";
  std::string text;
  if (!r.Text(s, &text)) return;
  const size_t colon = text.find(':');
  const std::string word = text.substr(0, colon);
  if (colon == std::string::npos && word == "op") {
    r.Bad(s, "'op' names no operator", "op:REGEX");
  } else if (colon != std::string::npos && word != "forward" && word != "op") {
    r.Bad(s, Describe(s.node), kForms);
  } else if (colon == std::string::npos &&
             r.Word(s, {"auto", "optimizer", "backward", "forward", "explicit"}) < 0) {
    return;
  } else {
    const Result<Regex> regex =
        Regex::Compile(colon == std::string::npos ? "" : text.substr(colon + 1));
    if (regex.ok())
      c->boundary = text;
    else
      r.Bad(s, regex.status().message());
  }
}

void ReadFirst(Reader& r, const Setting& s, Config* c) {
  uint64_t number = 0;
  if (s.node.text != "auto" && !r.Count(s, &number)) return;
  c->first_step = s.node.text == "auto" ? -1 : static_cast<int64_t>(number);
}

std::string PrintFirst(const Config& c) {
  return c.first_step < 0 ? "auto" : std::to_string(c.first_step);
}

void ReadSkip(Reader& r, const Setting& s, Config* c) {
  c->skip_steps = 0;
  if (s.node.text != "auto") r.Count(s, &c->skip_steps);
}

void ReadRanks(Reader& r, const Setting& s, Config* c) {
  if (s.node.is_map() || s.node.text == "one-per-node") {
    r.Later(s, "rank numbers such as 0-7,16, 0-511:8, [-1] or all");
  } else {
    r.Specification(s, true, &c->ranks);
    c->ranks_line = s.node.at.line;
    c->ranks_column = s.node.at.column;
  }
}

void ReadRoots(Reader& r, const Setting& s, Config* c) {
  if (s.node.text == "auto") {
    c->roots.clear();
    return;
  }
  if (!s.node.is_map()) {
    r.Bad(s, Describe(s.node), "auto, or a map from class to prefix such as {EagleModel: draft}");
    return;
  }
  std::map<std::string, std::string> roots;
  for (const YamlEntry& entry : s.node.entries) {
    r.Text({s.key + "." + entry.key, *entry.value}, &roots[entry.key]);
  }
  c->roots = std::move(roots);
}

std::string PrintRoots(const Config& c) {
  if (c.roots.empty()) return "auto";
  std::string text;
  for (const auto& [cls, prefix] : c.roots) {
    text += (text.empty() ? "" : ", ") + YamlScalar(cls) + ": " + YamlScalar(prefix);
  }
  return "{" + text + "}";
}

void ReadFilters(Reader& r, const Setting& s, Config* c) {
  if (!s.node.is_map()) {
    r.Bad(s, Describe(s.node), "a map from a name to a list of rules");
    return;
  }
  std::map<std::string, std::vector<Rule>> filters;
  for (const YamlEntry& entry : s.node.entries) {
    ReadRules(r, {s.key + "." + entry.key, *entry.value}, &filters[entry.key]);
  }
  c->filters = std::move(filters);
}

void ReadHost(Reader& r, const Setting& s, Config* c) {
  uint64_t bytes = 0;
  if (s.node.text != "auto") {
    if (!r.Bytes(s, &bytes)) return;
    if (bytes == 0) {
      r.Bad(s, "an arena of 0 bytes holds nothing", "auto, or bytes above 0");
      return;
    }
  }
  c->host_bytes = bytes;
}

void ReadDevice(Reader& r, const Setting& s, Config* c) {
  uint64_t bytes = 0;
  if (!r.Bytes(s, &bytes)) return;
  if (bytes < kLeastStaging)
    return r.Bad(s, "staging of less than 1 MiB holds next to nothing", "1MiB or more");
  c->device_bytes = bytes;
}

void ReadFullArena(Reader& r, const Setting& s, Config* c) {
  const int word = r.Word(s, {"block", "drop", "stats"});
  if (word >= 0) c->full_arena = static_cast<FullArena>(word);
}

std::string PrintFullArena(const Config& c) {
  constexpr const char* kWords[] = {"block", "drop", "stats"};
  return kWords[static_cast<size_t>(c.full_arena)];
}

void ReadMaxBlock(Reader& r, const Setting& s, Config* c) {
  uint64_t percent = 0;
  const std::string& text = s.node.text;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, percent);
  if (!s.node.is_text() || error != std::errc{} || std::string_view(end, last) != "%" ||
      percent > 100)
    return r.Bad(s, Describe(s.node), "a share of the step's time from 0% to 100% (no limit)");
  c->max_block_percent = percent;
}

std::string PrintMaxBlock(const Config& c) { return std::to_string(c.max_block_percent) + "%"; }

void ReadDrain(Reader& r, const Setting& s, Config* c) { r.Seconds(s, &c->drain_seconds); }

std::string PrintDrain(const Config& c) { return FormatSeconds(c.drain_seconds); }

void ReadLog(Reader& r, const Setting& s, Config* c) {
  if (r.Word(s, {"debug", "info", "warning", "error"}) >= 0) c->log = s.node.text;
}

void ReadAtLimit(Reader& r, const Setting& s, Config* c) {
  if (const int word = r.Word(s, {"stop", "ring"}); word >= 0) c->ring = word == 1;
}

std::string PrintAtLimit(const Config& c) { return c.ring ? "ring" : "stop"; }

void ReadLayout(Reader& r, const Setting& s, Config* c) {
  const int word = r.Word(s, {kLayouts[0], kLayouts[1], kLayouts[2], kLayouts[3]});
  if (word >= 0) c->layout = static_cast<OutputLayout>(word);
}

std::string PrintLayout(const Config& c) { return kLayouts[static_cast<int>(c.layout)]; }

void ReadDurability(Reader& r, const Setting& s, Config* c) {
  const int word = r.Word(s, {kSyncLevels[0], kSyncLevels[1], kSyncLevels[2], kSyncLevels[3]});
  if (word >= 0) c->durability = static_cast<SyncLevel>(word);
}

std::string PrintDurability(const Config& c) { return kSyncLevels[static_cast<int>(c.durability)]; }

void ReadDirect(Reader& r, const Setting& s, Config* c) {
  if (const int word = r.Word(s, {"auto", "off"}); word >= 0) c->direct = word == 0;
}

std::string PrintDirect(const Config& c) { return c.direct ? "auto" : "off"; }

void ReadKernels(Reader& r, const Setting& s, Config* c) {
  if (s.node.text == "on") {
    c->kernels = KernelMode::kSave;
    return;
  }
  const int word = r.Word(s, {kKernelModes[0], kKernelModes[1], kKernelModes[2], kKernelModes[3]});
  if (word >= 0) c->kernels = static_cast<KernelMode>(word);
}

std::string PrintKernels(const Config& c) { return kKernelModes[static_cast<int>(c.kernels)]; }

void ReadCrumbRanks(Reader& r, const Setting& s, Config* c) {
  r.Specification(s, true, &c->crumb_ranks);
}

void ReadCrumbDir(Reader& r, const Setting& s, Config* c) {
  std::string dir;
  if (!r.Text(s, &dir)) return;
  if (dir == "auto")
    c->crumb_dir.clear();
  else if (!dir.starts_with('/') || dir.size() > kMaxDirBytes ||
           dir.find('\0') != std::string::npos)
    r.Bad(s, Describe(s.node), "auto, or the absolute path of a node-local directory");
  else
    c->crumb_dir = dir;
}

std::string PrintCrumbDir(const Config& c) {
  return c.crumb_dir.empty() ? "auto" : YamlScalar(c.crumb_dir);
}

void ReadRecompute(Reader& r, const Setting& s, Config* c) {
  if (const int word = r.Word(s, {"mark", "drop"}); word >= 0) c->drop_recomputed = word == 1;
}

std::string PrintRecompute(const Config& c) { return c.drop_recomputed ? "drop" : "mark"; }

// A setting that has one meaning in this version.
void ReadProfile(Reader& r, const Setting& s, Config*) {
  r.Word(s, {"auto", "none"}, {"transformers", "megatron", "vllm", "sglang", "transformer_engine"});
}

void ReadCompileCache(Reader& r, const Setting& s, Config* c) {
  if (const int word = r.Word(s, {"private", "shared"}); word >= 0) c->private_cache = word == 0;
}

std::string PrintCompileCache(const Config& c) { return c.private_cache ? "private" : "shared"; }

void ReadCaptureSets(Reader& r, const Setting& s, Config* c) { ReadCapture(r, s, &c->capture); }

}  // namespace tdump::filters
