// Where tools get a run from: RUN of the command line -> PassStore and RunIndex. Uses the merged
// manifest when it is fresh, else merges in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "coordinator/merge.h"
#include "coordinator/merge_here.h"
#include "core/status.h"
#include "io/address.h"
#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::tools {

struct LoadedRun {
  io::RunRef ref;
  std::unique_ptr<io::PassStore> store;
  io::RunIndex index;
  std::string label;  // "runs/ref@0", "runs/ref@0/rank2"
};

// Error: kNotFound, saying what there is instead.
Result<LoadedRun> LoadRun(const std::string& text);
Result<LoadedRun> LoadRun(const io::RunRef& ref);

// Settles the numbers of the last steps, which the ranks had no time to agree on,
// for every generation; what changes goes into the run, beside the manifests.
// Nothing to do for ranks that may still run.
Status SettleSteps(const io::PassStore& store, const coordinator::MergeOptions& options);

using coordinator::MergeOptionsHere;

}  // namespace tdump::tools
