// DirectWrites: which bytes of a folder's files go past the page cache (O_DIRECT).
//
//   1. Whole pages of a large payload may, where its memory and its place in the file begin at
//      pages. The kernel then copies nothing, and the pages of the machine are left to the job.
//   2. Both ways are timed. What may go past the cache does, unless the cache takes bytes more than
//      kWorthTheCache times as fast: in front of a slow disk it absorbs what comes at once.
//   3. The way not taken is tried again every few seconds, with the first bytes of a payload.
//   4. Where the file system, the device or the memory refuses, the folder's later bytes go through
//      the cache.
#pragma once

#include <cstdint>
#include <span>

#include "core/env.h"
#include "core/status.h"

namespace tdump::io {

// Used by one thread at a time.
class DirectWrites {
 public:
  // Not `wanted`: everything goes through the cache.
  DirectWrites(Env* env, bool wanted) : env_(env), wanted_(wanted), allowed_(wanted) {}

  // As file->WriteAt().
  Status WriteAt(WritableFile* file, uint64_t offset, std::span<const std::byte> bytes);
  bool was_refused() const { return wanted_ && !allowed_; }

 private:
  // How fast the last bytes went.
  struct Way {
    uint64_t bytes = 0;
    int64_t ns = 0;
    int64_t used_ns = 0;  // when it was last taken; 0: never
    void Add(uint64_t written, int64_t took);
    double rate() const { return static_cast<double>(bytes) / static_cast<double>(ns + 1); }
  };

  bool IsDue(const Way& way, int64_t now) const;
  Status Write(bool direct, WritableFile* file, uint64_t offset, std::span<const std::byte> bytes);

  Env* const env_;
  const bool wanted_;
  bool allowed_;
  Way direct_, cached_;
};

}  // namespace tdump::io
