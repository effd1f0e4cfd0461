// DiskBudget: how much this process may still write. Two limits: bytes written in all, and bytes
// that the file system must keep free. A small part of either is set aside for metadata, so that
// records refused their payload can still be told. A ring removes older passes first, for either
// limit; where that is not enough it is tried anew with the next pass. Writer thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/env.h"

namespace tdump::io {

// What payloads may take of a limit; the rest is set aside for metadata.
uint64_t PayloadLimit(uint64_t limit_bytes);

class DiskBudget {
 public:
  DiskBudget(Env* env, std::string directory, uint64_t limit_bytes, uint64_t min_free_bytes);

  // May `bytes` more be written? `payload`: refused as soon as a limit is near, metadata only when
  // its part is used up.
  bool Allow(uint64_t bytes, bool payload);
  // Total written so far, kept by the caller.
  void SetUsed(uint64_t bytes) {
    if (bytes > used_) unchecked_ += bytes - used_;
    used_ = bytes;
  }
  uint64_t used() const { return used_; }
  // `make_room(bytes)` frees older files' bytes at the limit and says how many; asked before
  // anything is refused.
  void OnFull(std::function<uint64_t(uint64_t bytes)> make_room) {
    make_room_ = std::move(make_room);
  }
  // With OnFull(): what an earlier pass was refused says nothing about this one.
  void BeginPass();
  // With OnFull(): the file system refused to write. Frees `bytes`, what it counts as free or not.
  void NoSpace(uint64_t bytes) { MakeRoom(bytes); }
  const std::string& why() const { return why_; }  // "the limit of 1048576 bytes is reached"

 private:
  void CheckFree(uint64_t bytes);
  bool MakeRoom(uint64_t bytes);  // false: nothing can go

  Env* const env_;
  const std::string directory_;
  const uint64_t limit_;
  const uint64_t min_free_;
  const uint64_t check_every_;
  uint64_t soft_limit_;
  uint64_t used_ = 0;
  uint64_t unchecked_ = 0;              // written since the file system was asked
  uint64_t check_after_ = 0;            // ask it again then
  uint64_t metadata_left_ = 0;          // once exhausted
  std::optional<uint64_t> least_free_;  // while the disk is short: metadata stops there
  bool exhausted_ = false;
  std::string why_;
  std::function<uint64_t(uint64_t)> make_room_;
};

}  // namespace tdump::io
