#include "tools/merge_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "coordinator/coverage_text.h"
#include "coordinator/merge.h"
#include "core/text.h"
#include "io/address.h"
#include "io/merged_manifest.h"
#include "io/node_env.h"
#include "tools/coverage_json.h"
#include "tools/run_source.h"
#include "tools/strict.h"

namespace tdump::tools {
namespace {

constexpr const char* kTool = "tdump-merge";

constexpr const char* kAbout =
    "Merge what the ranks of a run wrote into one index, RUN/manifest.tdm, and say what is there "
    "and\n"
    "what is missing. Optional: tdump-view and tdump-diff merge in memory when there is no index. "
    "Works\n"
    "while the job runs and after a kill; no pass file is changed.";

constexpr const char* kTeach =
    "RUN is a directory or 'latest'. Several directories of one job (node-local disks, copied "
    "together)\n"
    "become one run under the first: their rank directories are linked into it, or copied where "
    "they\n"
    "are on another file system.\n"
    "\n"
    "Examples:\n"
    "  tdump-merge latest                        the newest run in outputs/\n"
    "  tdump-merge outputs/* --strict            every run here; exit 1 when one has a hole\n"
    "  tdump-merge /shared/node0 /shared/node1   one run from two nodes, in /shared/node0\n"
    "  tdump-merge latest --json | jq .runs[0].holes\n"
    "\n"
    "Exit status: 0 merged, 1 merged with holes and strict (--strict, or 'strict: true' in the "
    "run's\n"
    "config), 2 trouble.\n"
    "See also: tdump-view RUN --coverage";

}  // namespace

MergeCommand::MergeCommand() : options_(kTool, kAbout, kTeach) {
  options_.Positional("RUN", &runs_, 1, 1 << 20, "runs; directories of one job are joined");
  options_.Flag("--strict", &strict_, "exit 1 when something is missing");
  options_.Number("-j,--jobs", &jobs_, "N", "manifests read at a time; default: one a core");
}

int MergeCommand::Merge(const JoinedRun& run, const std::string& shown) {
  Env* env = io::RunEnv();
  const coordinator::MergeOptions options = MergeOptionsHere();
  auto store = io::PassStore::Open(env, run.path, jobs_);
  if (!store.ok()) return Fail(kTool, store.status().message());
  if (const Status settled = SettleSteps(**store, options); !settled.ok())
    Fail(kTool, "the last steps keep their own numbers: " + settled.message());
  store = io::PassStore::Open(env, run.path, jobs_);
  if (!store.ok()) return Fail(kTool, store.status().message());
  const auto indexes = coordinator::BuildRunIndexes(**store, options);
  if (indexes.empty())
    return Fail(kTool, fmt::format("'{}': no rank has written anything yet", Printable(run.path)));
  const Status status = io::WriteMergedManifest(env, **store, indexes);
  if (!status.ok()) return Fail(kTool, status.message());
  bool holes = false;
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const io::RunIndex& index : indexes) {
    holes |= !index.complete();
    if (options_.common.json) {
      runs.push_back(CoverageJson(**store, index));
    } else if (!options_.common.quiet) {
      Print(coordinator::CoverageText(**store, index,
                                      {.shown = shown, .colour = WantsColour(options_.common)}));
    }
  }
  if (options_.common.json) {
    Print(JsonText({{"run", run.path},
                    {"joined", run.from},
                    {"files_linked", run.linked},
                    {"files_copied", run.copied},
                    {"manifest", JoinPath(run.path, io::kMergedManifestName)},
                    {"runs", std::move(runs)}}));
  } else if (!run.from.empty() && !options_.common.quiet) {
    Print(fmt::format("  joined     {} into {}: {} linked, {} copied\n",
                      Plural(run.from.size(), "directory"), Printable(run.path),
                      Plural(run.linked, "file"), Plural(run.copied, "file")));
  }
  return holes && (strict_ || IsStrict(run.path)) ? kExitDiffers : kExitOk;
}

int MergeCommand::Run(int argc, char** argv) {
  if (const auto status = options_.Parse(argc, argv)) return *status;
  std::vector<std::string> paths;
  for (const std::string& text : runs_) {
    const auto ref = io::ResolveRun(io::RunEnv(), text);
    if (!ref.ok()) return Fail(kTool, ref.status().message());
    if (ref->rank || ref->generation) {
      return Fail(kTool, fmt::format("'{}': a run is merged as a whole; name its directory, '{}'",
                                     Printable(text), Printable(ref->path)));
    }
    paths.push_back(ref->path);
  }
  const auto runs = JoinRuns(paths);
  if (!runs.ok()) return Fail(kTool, runs.status().message());
  int worst = kExitOk;
  for (const JoinedRun& run : *runs) {
    const auto at = std::find(paths.begin(), paths.end(), run.path);
    worst = std::max(worst, Merge(run, runs_[at - paths.begin()]));
  }
  return worst;
}

}  // namespace tdump::tools
