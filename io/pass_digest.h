// PassDigest: two passes with equal digests hold the same tensors, by the hashes of their values.
// Found in one walk over the frames, without resolving names: a fraction of what decoding the
// records costs.
#pragma once

#include <cstdint>
#include <string>

#include "core/env.h"
#include "core/status.h"
#include "io/frame_file.h"
#include "io/records.h"

namespace tdump::io {

struct PassDigest {
  // Of everything a record is known by: names, operators, and each record's key, in file order.
  Hash128 keys{};
  // Of each record's dtype, layout, sizes, strides, what is kept of it, and hash, in file order.
  Hash128 values{};
  uint64_t records = 0;
};

// The pass of `path` at `offset`, as in PassReader::Open. Frames are checked against their
// checksums; payloads, the digests of many tiles, and calls are not read. Error (kUnsupported): the
// pass is unfinished, of the other byte order, or keeps no hash of some record; then nothing can be
// said.
Result<PassDigest> DigestPass(Env* env, const std::string& path, uint64_t offset = 0,
                              uint64_t bytes = FrameFile::kToTheEnd);

}  // namespace tdump::io
