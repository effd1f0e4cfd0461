// The passes of a packed file, found without a manifest: after a kill, or when the file was moved
// alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/env.h"
#include "core/status.h"
#include "io/records.h"

namespace tdump::io {

// One pass in a packed file.
struct PackedPass {
  uint64_t offset = 0;  // of its FileHeader
  uint64_t bytes = 0;   // with the footer; of an unfinished one: as far as it goes
  bool complete = false;
  PassInfo info;
};

// True when `path` begins as a packed file does.
bool IsPackedFile(Env* env, const std::string& path);

// The passes that begin in [from, to), by offset. Each is walked frame by frame to its footer; an
// unfinished one ends where the next begins. Bytes between passes that are none belong to the pass
// before them.
Result<std::vector<PackedPass>> ScanPack(Env* env, const std::string& path, uint64_t from,
                                         uint64_t to);
// All of them.
Result<std::vector<PackedPass>> ScanPack(Env* env, const std::string& path);

}  // namespace tdump::io
