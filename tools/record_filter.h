// RecordFilter: which records of a run a command means, by address and by options.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/spec.h"
#include "core/status.h"
#include "io/address.h"
#include "io/pass_reader.h"
#include "tools/run_source.h"

namespace tdump::tools {

struct RecordFilter {
  std::optional<Spec> steps, ranks;
  std::string name;                                // of an address, or as printed; empty: all
  std::function<bool(const std::string&)> select;  // on plain names; empty: all
  std::function<bool(const std::string&)> arg;     // on argument names
  std::vector<Role> roles;                         // empty: all

  bool Takes(const io::Record& record) const;
};

// Comma-separated roles. Error: the word and the roles there are.
Result<std::vector<Role>> ParseRoles(const std::string& text);

// One pass of a run, opened.
struct OpenPass {
  const io::IndexedPass* place = nullptr;
  const io::ProcessEntry* process = nullptr;
  const io::PassEntry* entry = nullptr;
  std::unique_ptr<io::PassReader> reader;
};

// The passes the filter means, in order of (step, rank). A step is an agreed number; where no pass
// has any of the numbers asked for, the job's own are tried.
std::vector<const io::IndexedPass*> SelectPasses(const LoadedRun& run, const RecordFilter& filter);

Result<OpenPass> Open(const LoadedRun& run, const io::IndexedPass& place);

// Calls `visit` for the records of these passes until it says false. A pass that cannot be read is
// told to `trouble`, and the walk goes on.
void ForEachRecord(const LoadedRun& run, const RecordFilter& filter,
                   const std::function<bool(const OpenPass&, const io::Record&)>& visit,
                   const std::function<void(const std::string&)>& trouble);

}  // namespace tdump::tools
