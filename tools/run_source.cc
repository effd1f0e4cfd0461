#include "tools/run_source.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "coordinator/agreement_final.h"
#include "coordinator/closing.h"
#include "core/text.h"
#include "io/merged_manifest.h"
#include "io/node_env.h"

namespace tdump::tools {
namespace {

// What a copy says of an unfinished process may have changed without a byte on disk changing.
bool IsSettled(const io::RunIndex& index) {
  return std::all_of(index.ranks.begin(), index.ranks.end(), [](const io::RankState& rank) {
    return rank.closed || rank.processes.empty();
  });
}

bool TakeMerged(Env* env, const io::PassStore& store, uint32_t generation, io::RunIndex* index) {
  auto merged = io::ReadMergedManifest(env, store.run());
  if (!merged.ok() || !io::IsFresh(env, store, *merged)) return false;
  for (io::RunIndex& candidate : merged->generations) {
    if (candidate.generation != generation || !IsSettled(candidate)) continue;
    *index = std::move(candidate);
    return true;
  }
  return false;
}

// "outputs/tdump_1" of "outputs/latest", which the next job leads elsewhere.
std::string WithoutLink(const std::string& path) {
  const std::filesystem::path link(path);
  if (link.filename() != "latest") return path;
  std::error_code failed;
  const std::filesystem::path target = std::filesystem::read_symlink(link, failed);
  return failed ? path : (link.parent_path() / target).string();
}

std::string ListOf(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (const uint32_t number : numbers)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  return text;
}

// All of the job have ended, but not all steps have a number that all agree on.
bool NeedsSettling(const io::RunIndex& index) {
  const bool ended =
      std::all_of(index.ranks.begin(), index.ranks.end(), [](const io::RankState& rank) {
        return rank.closed || rank.processes.empty() || rank.how == coordinator::kGone ||
               rank.how == coordinator::kEndedUnwritten;
      });
  return ended && std::any_of(index.passes.begin(), index.passes.end(),
                              [](const io::IndexedPass& pass) { return !pass.agreed; });
}

}  // namespace

Status SettleSteps(const io::PassStore& store, const coordinator::MergeOptions& options) {
  const auto ended = [&](const io::ProcessEntry& process) {
    return process.close.has_value() || options.is_running(process.identity) == false;
  };
  for (const uint32_t generation : coordinator::Generations(store))
    TDUMP_RETURN_IF_ERROR(coordinator::SettleRun(io::RunEnv(), store, generation, ended));
  return {};
}

Result<LoadedRun> LoadRun(const std::string& text) {
  TDUMP_ASSIGN_OR_RETURN(const io::RunRef ref, io::ResolveRun(io::RunEnv(), text));
  return LoadRun(ref);
}

Result<LoadedRun> LoadRun(const io::RunRef& wanted) {
  LoadedRun run;
  run.ref = wanted;
  run.ref.path = WithoutLink(wanted.path);
  const io::RunRef ref = run.ref;
  TDUMP_ASSIGN_OR_RETURN(run.store, io::PassStore::Open(io::RunEnv(), ref.path));
  const std::vector<uint32_t> generations = coordinator::Generations(*run.store);
  if (generations.empty()) {
    return NotFound(fmt::format(
        "'{}': no process of this run has written anything yet; is the job starting? See "
        "TDUMP_LOG=debug",
        Printable(ref.path)));
  }
  const uint32_t generation = ref.generation.value_or(generations.back());
  if (std::find(generations.begin(), generations.end(), generation) == generations.end()) {
    return NotFound(fmt::format("'{}': the run has no generation {}; it has {}",
                                Printable(ref.path), generation, ListOf(generations)));
  }
  if (!TakeMerged(io::RunEnv(), *run.store, generation, &run.index)) {
    const coordinator::MergeOptions options = MergeOptionsHere();
    run.index = coordinator::BuildRunIndex(*run.store, generation, options);
    // Where the run cannot be written to, the numbers stay as they are.
    if (NeedsSettling(run.index) && SettleSteps(*run.store, options).ok()) {
      TDUMP_ASSIGN_OR_RETURN(run.store, io::PassStore::Open(io::RunEnv(), ref.path));
      run.index = coordinator::BuildRunIndex(*run.store, generation, options);
    }
  }
  run.label = fmt::format("{}@{}", ref.path, generation);
  // A rank's directory or a pass file is that rank.
  const auto& processes = run.store->processes();
  if (processes.size() == 1 && processes[0].directory.empty()) {
    run.ref.rank = processes[0].identity.rank;
  } else if (ref.rank) {
    run.label += fmt::format("/rank{}", *ref.rank);
  }
  return run;
}

}  // namespace tdump::tools
