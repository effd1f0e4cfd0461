#include "coordinator/run_directory.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "coordinator/hash64.h"
#include "core/text.h"

namespace tdump::coordinator {
namespace {

constexpr std::string_view kJob = "{job}";
constexpr uint64_t kGenerationsBytes = 16 << 20;
constexpr int kLockMs = 10'000;
constexpr int kNames = 100;  // that are tried before a process gives up
constexpr int kFileMode = 0600;

std::string SafeLabel(const std::string& label) {
  std::string safe = label.substr(0, 100);
  for (char& c : safe) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    if (!plain) c = '_';
  }
  // Two labels that differ only in what was replaced are two jobs.
  if (safe != label) safe += "_" + Hex8(Hash64(label));
  if (safe.starts_with('.')) safe.front() = '_';
  return safe;
}

Result<std::string> ReadGenerations(Env* env, const std::string& path) {
  Result<std::string> text = ReadFile(env, path, kGenerationsBytes);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) return std::string();
  return text;
}

Status AppendGeneration(Env* env, const std::string& path, const std::string& before,
                        const std::string& job_key) {
  TDUMP_ASSIGN_OR_RETURN(auto file, env->OpenAppend(path, kFileMode));
  // What a process that died left unfinished becomes a line of its own.
  std::string line = GenerationLine(job_key) + "\n";
  if (!before.empty() && before.back() != '\n') line.insert(0, "\n");
  TDUMP_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(line))));
  return file->Close();
}

// Keeps the effective config of the first generation as config.yaml, of later ones beside it.
Status WriteConfig(Env* env, const RunDirectory& run, const std::string& config) {
  const std::string name = run.generation == 0
                               ? "config.yaml"
                               : "config.generation" + std::to_string(run.generation) + ".yaml";
  return WriteFileAtomically(env, JoinPath(run.run, name), config, kFileMode);
}

// `latest` stands beside runs that tdump names itself, never beside
// a directory that the user named.
Status TurnLatest(Env* env, const RunDirectory& run, const std::string& pattern) {
  const size_t slash = run.run.rfind('/');
  const std::string parent = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : run.run.substr(0, slash);
  const std::string base = slash == std::string::npos ? run.run : run.run.substr(slash + 1);
  const bool ours = pattern.find(kJob) != std::string::npos || parent == "outputs" ||
                    parent.ends_with("/outputs");
  return ours ? env->Symlink(base, JoinPath(parent, "latest")) : Status();
}

Status OpenGeneration(Env* env, const Identity& identity, const RunDirectoryOptions& options,
                      RunDirectory* run) {
  const std::string path = JoinPath(run->run, "generations");
  TDUMP_ASSIGN_OR_RETURN(std::string text, ReadGenerations(env, path));
  int64_t found = FindGeneration(text, identity.job_key);
  if (found < 0) {
    TDUMP_RETURN_IF_ERROR(env->WithLock(path, kLockMs, [&]() -> Status {
      TDUMP_ASSIGN_OR_RETURN(text, ReadGenerations(env, path));
      found = FindGeneration(text, identity.job_key);
      if (found >= 0) return {};
      const bool used = text.find('\n') != std::string::npos;
      if (used && options.error_if_exists) {
        return Status(
            StatusCode::kAlreadyExists,
            "'" + run->run +
                "' holds an earlier run (output.if_exists: error); name another directory");
      }
      TDUMP_RETURN_IF_ERROR(AppendGeneration(env, path, text, identity.job_key));
      TDUMP_ASSIGN_OR_RETURN(text, ReadGenerations(env, path));
      found = FindGeneration(text, identity.job_key);
      run->first = true;
      return {};
    }));
  }
  if (found < 0) return Internal("'" + path + "' does not keep what is appended");
  run->generation = static_cast<uint32_t>(found);
  return {};
}

std::string ProcessName(const Identity& identity, int attempt) {
  std::string name = "rank" + std::to_string(identity.rank) + "_pid" + std::to_string(identity.pid);
  if (attempt == 0) return name;
  const std::string who =
      identity.host + " " + std::to_string(identity.start_time) + " " + identity.job_key;
  name += "_h" + Hex8(Hash64(who));
  return attempt == 1 ? name : name + "-" + std::to_string(attempt);
}

Status ClaimName(Env* env, const Identity& identity, const RunDirectoryOptions& options,
                 RunDirectory* run) {
  for (int attempt = 0; attempt < kNames; ++attempt) {
    const std::string name = ProcessName(identity, attempt);
    const std::string directory = JoinPath(run->run, name);
    auto slot = env->CreateExclusive(JoinPath(run->clock_directory, name + ".slot"), kFileMode);
    if (!slot.ok()) {
      if (slot.status().code() == StatusCode::kAlreadyExists) continue;
      return std::move(slot).status();
    }
    if (env->Stat(directory).ok()) continue;  // its slot was removed; the data is still somebody's
    TDUMP_RETURN_IF_ERROR(env->MakeDirs(directory, options.mode));
    run->name = name;
    run->rank_directory = directory;
    run->slot = std::move(slot).value();
    return {};
  }
  return Status(StatusCode::kAlreadyExists,
                "'" + run->run + "' has a directory of rank " + std::to_string(identity.rank) +
                    ", pid " + std::to_string(identity.pid) + " under every name tried");
}

}  // namespace

std::string ResolveRunPath(const RunDirectoryOptions& options, const std::string& job_label) {
  std::string label = SafeLabel(job_label);
  if (job_label.empty()) label = options.start_time.empty() ? LocalTimeText() : options.start_time;
  std::string path = options.pattern;
  for (size_t at = path.find(kJob); at != std::string::npos;
       at = path.find(kJob, at + label.size())) {
    path.replace(at, kJob.size(), label);
  }
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string GenerationLine(const std::string& job_key) {
  std::string line = job_key;
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return line;
}

int64_t FindGeneration(const std::string& generations, const std::string& job_key) {
  const std::string line = GenerationLine(job_key);
  std::vector<std::string_view> seen;
  std::string_view rest(generations);
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view key = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (key.empty() || std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    if (key == line) return static_cast<int64_t>(seen.size());
    seen.push_back(key);
  }
  return -1;
}

Result<RunDirectory> PrepareRunDirectory(Env* env, const Identity& identity,
                                         const RunDirectoryOptions& options) {
  RunDirectory run;
  run.run = ResolveRunPath(options, identity.job_label);
  run.clock_directory = JoinPath(run.run, "clock");
  TDUMP_RETURN_IF_ERROR(env->MakeDirs(run.clock_directory, options.mode));
  TDUMP_RETURN_IF_ERROR(OpenGeneration(env, identity, options, &run));
  TDUMP_RETURN_IF_ERROR(ClaimName(env, identity, options, &run));
  if (run.first) {
    // Neither is needed to read the run.
    if (!options.config.empty()) (void)WriteConfig(env, run, options.config);
    (void)TurnLatest(env, run, options.pattern);
  }
  return run;
}

}  // namespace tdump::coordinator
