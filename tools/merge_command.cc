#include "tools/merge_command.h"

#include <algorithm>

#include "coordinator/merge.h"
#include "io/merged_manifest.h"
#include "tools/run_source.h"

namespace tdump::tools {
namespace {

constexpr const char* kTool = "tdump-merge";

constexpr const char* kAbout =
    "Merge the manifests of all ranks of a run into RUN/manifest.tdm and say whether the run is\n"
    "complete. Optional: tdump-view and tdump-diff merge in memory when there is none.";

constexpr const char* kTeach =
    "Examples:\n"
    "  tdump-merge latest                 the newest run\n"
    "  tdump-merge runs/a --strict        fail when something is missing\n"
    "\n"
    "Exit status: 0 merged, 1 merged and --strict found holes, 2 trouble.";

}  // namespace

MergeCommand::MergeCommand() : options_(kTool, kAbout, kTeach) {
  options_.Positional("RUN", &runs_, 1, 4096, "directories of runs, or 'latest'");
  options_.Flag("--strict", &strict_, "exit 1 when the run has holes");
  options_.Number("-j,--jobs", &jobs_, "N", "threads; default: one a core, at most 16");
}

int MergeCommand::Merge(const std::string& run) {
  auto ref = io::ResolveRun(Env::Posix(), run);
  if (!ref.ok()) return Fail(kTool, ref.status().message());
  auto store = io::PassStore::Open(Env::Posix(), ref->path);
  if (!store.ok()) return Fail(kTool, store.status().message());
  const auto indexes = coordinator::BuildRunIndexes(**store, MergeOptionsHere());
  const Status status = io::WriteMergedManifest(Env::Posix(), **store, indexes);
  if (!status.ok()) return Fail(kTool, status.message());
  const bool holes =
      std::any_of(indexes.begin(), indexes.end(), [](const auto& i) { return !i.complete(); });
  return strict_ && holes ? kExitDiffers : kExitOk;
}

int MergeCommand::Run(int argc, char** argv) {
  if (const auto status = options_.Parse(argc, argv)) return *status;
  int worst = kExitOk;
  for (const std::string& run : runs_) worst = std::max(worst, Merge(run));
  return worst;
}

}  // namespace tdump::tools
