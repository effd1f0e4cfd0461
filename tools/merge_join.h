// JoinRuns: rank directories of one job that lie in several places (node-local disks, copied
// together) become one run, under the first place.
//
//   1. A directory whose job key an earlier directory has belongs to that
//      one; else it is a run of its own.
//   2. Its rank directories of that job are linked into the earlier one, file by file: hard links
//      on one file system, copies across. The source stays as it is.
//   3. Done again, only what changed is linked again; a rank directory that is already there under
//      its name but of another process gets a name of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tdump::tools {

struct JoinedRun {
  std::string path;
  std::vector<std::string> from;    // the other directories joined into it
  uint64_t linked = 0, copied = 0;  // files
};

// `paths` are directories of runs or of single ranks (those only after a run of their
// job). The result has one entry a run, in order. Error: a directory that is no run, or
// a file that cannot be linked or copied.
Result<std::vector<JoinedRun>> JoinRuns(const std::vector<std::string>& paths);

}  // namespace tdump::tools
