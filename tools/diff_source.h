// Where tdump-diff gets a side from: a run, an address in one, or a dump of another tool.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/foreign/foreign_side.h"
#include "compare/picked_side.h"
#include "compare/run_side.h"
#include "core/spec.h"
#include "core/status.h"
#include "tools/run_source.h"

namespace tdump::tools {

struct DiffSource {
  std::unique_ptr<LoadedRun> run;         // null: a dump of another tool
  std::shared_ptr<const void> stands_on;  // what `side` needs besides
  std::unique_ptr<compare::RunSide> side;
  compare::foreign::ForeignSide* foreign = nullptr;    // within `side`
  const compare::foreign::AskedSide* asked = nullptr;  // `side`, where it is that
  std::optional<compare::Picked> picked;               // an address: only this part of the run
};

// `text`: RUN or RUN:STEP[/RANK[/NAME]] (io/address.h); a path of another tool's dump, with
// ":STEP[/RANK[/NAME]]" behind it, or ":NAME" where it is one file. Error: kNotFound, saying what
// was looked for.
Result<DiffSource> OpenDiffSource(const std::string& text);

// Both sides; one that does not know what its tensors are to their operators takes that from the
// other, and a whole run against an address in one of as many ranks is compared at that address.
struct DiffSources {
  DiffSource a, b;
};
Result<DiffSources> OpenDiffSources(const std::string& a, const std::string& b);

// With the holes of the ranks that are compared.
compare::SideInfo DescribeCompared(const DiffSource& source, const Spec& ranks);

// "A: 'name': os.system (offset 12), never run": of what was opened of dumps of other tools.
std::vector<std::string> NotesOf(const DiffSources& sources);

}  // namespace tdump::tools
