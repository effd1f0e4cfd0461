// Preallocation: keeps real blocks ahead of the end of a file that grows. A full disk is an error
// of the call that asks for room, before anything of the new bytes is written. Short files are left
// alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/env.h"
#include "core/status.h"

namespace tdump::io {

class Preallocation {
 public:
  // Before `bytes` are written at `end`. As much again as the file has, at least 1 MiB, at most
  // 16 MiB, a quarter of what a full disk leaves to the job; where there is less, just the bytes.
  Status Ensure(WritableFile* file, uint64_t end, uint64_t bytes) {
    if (unsupported_ || end + bytes <= std::max(reserved_, kShort)) return Status();
    const uint64_t ahead = std::clamp(end, kShort, kMost);
    Status status = file->Preallocate(end, bytes + ahead, false);
    if (status.ok()) {
      reserved_ = end + bytes + ahead;
    } else if (status.code() == StatusCode::kNoSpace) {
      status = file->Preallocate(end, bytes, false);
      if (status.ok()) reserved_ = end + bytes;
    }
    if (status.ok() || status.code() == StatusCode::kNoSpace) return status;
    unsupported_ = true;  // the write says what is wrong, if anything is
    return Status();
  }

 private:
  static constexpr uint64_t kShort = 1 << 20;
  static constexpr uint64_t kMost = 16 << 20;
  uint64_t reserved_ = 0;
  bool unsupported_ = false;
};

}  // namespace tdump::io
