#include "io/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/text.h"
#include "io/pack_address.h"

namespace tdump::io {
namespace {

constexpr std::string_view kLatest = "latest";
constexpr std::string_view kRunsDirectory = "outputs";

// A file or directory, or a packed file of which a pass is named.
bool Exists(Env* env, const std::string& path) {
  if (env->Stat(path).ok()) return true;
  const auto packed = ParsePackAddress(path);
  return packed && env->Stat(packed->file).ok();
}

template <class T>
bool TakeNumber(std::string_view* text, T* number) {
  if (text->empty() || text->front() < '0' || text->front() > '9') return false;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(end - text->data());
  return true;
}

template <class T>
bool IsNumber(std::string_view text, T* number) {
  return TakeNumber(&text, number) && text.empty();
}

bool LooksLikeRun(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](std::string_view name) {
    return name == "manifest.tdm" || name == "generations" || name == "clock" ||
           name.starts_with("rank") || name.ends_with(".tdp") || name.ends_with(".tdp.part");
  });
}

constexpr size_t kMostRuns = 5;         // shown
constexpr size_t kMostLookedAt = 1000;  // names in a directory

std::string WithoutSlashes(std::string_view text) {
  while (text.size() > 1 && text.back() == '/') text.remove_suffix(1);
  return std::string(text);
}

// The last names first, which are the newest of those that tdump gave.
std::vector<std::string> RunsIn(Env* env, const std::string& directory) {
  std::vector<std::string> runs;
  const auto names = env->List(directory);
  if (!names.ok()) return runs;
  size_t looked_at = 0;
  for (auto name = names->rbegin(); name != names->rend(); ++name) {
    if (runs.size() == kMostRuns || ++looked_at > kMostLookedAt) break;
    const std::string path = directory == "." ? *name : JoinPath(directory, *name);
    const auto files = env->List(path);
    if (*name != kLatest && files.ok() && LooksLikeRun(*files)) runs.push_back(path);
  }
  return runs;
}

// Where a run that is not there would have others beside it.
std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return path == kLatest ? std::string(kRunsDirectory) : ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// "; runs here: outputs/a, outputs/b" or what to do when there is none.
std::string RunsHere(Env* env, std::string_view text) {
  const std::string path = WithoutSlashes(text);
  const auto info = env->Stat(path);
  const bool inside = info.ok() && info->is_directory;  // of several, perhaps
  const std::string beside = inside ? path : DirectoryOf(path);
  std::vector<std::string> runs = RunsIn(env, beside);
  if (runs.empty() && beside != kRunsDirectory) runs = RunsIn(env, std::string(kRunsDirectory));
  std::string listed;
  for (const std::string& run : runs) listed += (listed.empty() ? "" : ", ") + Printable(run);
  if (!listed.empty()) return "; runs here: " + listed;
  const std::string where =
      beside == "." || beside == kRunsDirectory ? "" : Printable(beside) + "/ or ";
  return fmt::format("; no runs in {}outputs/ here. A run is made by: tdump-run --dump -- COMMAND",
                     where);
}

Status NoRun(Env* env, std::string_view text, std::string_view why) {
  return NotFound(fmt::format("'{}': {}{}", Printable(text), Printable(why), RunsHere(env, text)));
}

// The place on disk a RUN without "@" means, and the rank in "RUN/rank3".
bool Locate(Env* env, std::string_view text, RunRef* run) {
  std::string path = WithoutSlashes(text);
  if (Exists(env, path)) {
    run->path = path;
    return true;
  }
  if (path == kLatest || path.starts_with("latest/")) {
    path = JoinPath(kRunsDirectory, path);
    if (Exists(env, path)) {
      run->path = path;
      return true;
    }
  }
  const size_t slash = path.rfind('/');
  int32_t rank = 0;
  if (slash == std::string::npos || slash == 0) return false;
  const std::string_view last = std::string_view(path).substr(slash + 1);
  if (!last.starts_with("rank") || !IsNumber(last.substr(4), &rank)) return false;
  RunRef above;
  if (!Locate(env, path.substr(0, slash), &above) || above.rank) return false;
  run->path = above.path;
  run->rank = rank;
  return true;
}

// "5", "5/2", "5/2/name".
bool ParsePlace(std::string_view text, Address* address) {
  uint64_t step = 0;
  if (!TakeNumber(&text, &step)) return false;
  address->step = step;
  if (text.empty()) return true;
  int32_t rank = 0;
  if (text.front() != '/') return false;
  text.remove_prefix(1);
  if (text.empty()) return true;
  if (!TakeNumber(&text, &rank)) return false;
  address->rank = rank;
  if (text.empty()) return true;
  if (text.front() != '/') return false;
  address->name = text.substr(1);
  return true;
}

// The name as ToText(key) begins.
std::string EscapedName(const Key& key) {
  std::string text = key.root.empty() ? "" : EscapeField(key.root) + ":";
  text += EscapeField(key.path);
  return key.op.empty() ? text : text + "/" + EscapeField(key.op);
}

// "~m1.b" may stand behind whatever was not left out.
std::string_view WithoutMarks(std::string_view name, const Key& key) {
  const std::string marks = KeyMarks(key);
  if (!marks.empty() && name.ends_with(marks)) name.remove_suffix(marks.size());
  return name;
}

// Whether `name` is `base`, then the parts that may be left out, in order.
bool MatchesAfter(std::string_view name, const std::string& base, const Key& key) {
  if (!name.starts_with(base)) return false;
  name.remove_prefix(base.size());
  const auto take = [&](const std::string& part) {
    const bool there = name.starts_with(part);
    if (there) name.remove_prefix(part.size());
    return there;
  };
  if (!take(fmt::format("::call{}", key.call)) && key.call != 0) return false;
  take(fmt::format("@{}", ToString(key.role)));
  return name.empty() || name == "#" + key.arg || name == "#" + EscapeField(key.arg);
}

}  // namespace

Result<RunRef> ResolveRun(Env* env, std::string_view text) {
  RunRef run;
  run.text = text;
  if (text.empty())
    return InvalidArgument("RUN is empty: expected a directory, 'latest', or RUN@generation");
  if (!Locate(env, text, &run)) {
    const size_t at = text.rfind('@');
    uint32_t generation = 0;
    if (at == std::string_view::npos) return NoRun(env, text, "no such directory");
    std::string_view digits = text.substr(at + 1);
    if (!TakeNumber(&digits, &generation) || (!digits.empty() && !digits.starts_with("/rank"))) {
      return NoRun(env, text, "no such directory, and no number of a generation after @");
    }
    // "RUN@1/rank2" is "RUN/rank2" of generation 1.
    if (!Locate(env, std::string(text.substr(0, at)) + std::string(digits), &run)) {
      return NoRun(env, text, fmt::format("no such directory '{}'", text.substr(0, at)));
    }
    run.generation = generation;
  }
  const auto info = env->Stat(run.path);
  if (info.ok() && info->is_directory) {
    TDUMP_ASSIGN_OR_RETURN(const auto names, env->List(run.path));
    if (!LooksLikeRun(names))
      return NoRun(env, text, "holds no run (no rank directories, no manifest.tdm)");
  }
  return run;
}

Result<Address> ResolveAddress(Env* env, std::string_view text) {
  Address address;
  if (!Exists(env, std::string(text))) {
    for (size_t colon = text.find(':'); colon != std::string_view::npos;
         colon = text.find(':', colon + 1)) {
      Address found;
      if (!ParsePlace(text.substr(colon + 1), &found)) continue;
      TDUMP_ASSIGN_OR_RETURN(found.run, ResolveRun(env, text.substr(0, colon)));
      if (found.run.rank && !found.rank) found.rank = found.run.rank;
      return found;
    }
  }
  Result<RunRef> run = ResolveRun(env, text);
  if (!run.ok()) return Status(run.status()).Annotate("expected RUN or RUN:step/rank/name");
  address.run = std::move(*run);
  address.rank = address.run.rank;
  return address;
}

bool NameMatches(std::string_view name, const Key& key) {
  if (name.find('~') != std::string_view::npos) {
    const std::string_view unmarked = WithoutMarks(name, key);
    if (unmarked.size() < name.size() && NameMatches(unmarked, key)) return true;
  }
  // Most records of a walk are told apart by their names alone.
  if (MatchesAfter(name, PlainName(key.root, key.path, key.op), key)) return true;
  const std::string escaped = EscapedName(key);
  if (!name.starts_with(escaped)) return false;
  return MatchesAfter(name, escaped, key) || name == ToText(key);
}

uint32_t GenerationOf(const RunRef& run, const PassStore& store) {
  if (run.generation) return *run.generation;
  uint32_t newest = 0;
  for (const ProcessEntry& process : store.processes())
    newest = std::max(newest, process.identity.generation);
  return newest;
}

}  // namespace tdump::io
