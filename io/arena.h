// Arena: room for tensor copies, bounded, taken from the system once. First fit from the low end,
// so that a writer that keeps up reuses the same few cache-warm pages. Where the system refuses the
// whole (ulimit -v), half is asked for, down to a mebibyte; then there is room on the heap only.
// Not thread-safe: the sink holds its lock around every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tdump::io {

class Arena {
 public:
  struct Room {
    std::byte* data = nullptr;
    uint64_t bytes = 0;  // as taken: rounded up to 64
    bool heap = false;   // a temporary allocation, see TakeFromHeap
  };

  explicit Arena(uint64_t bytes) : capacity_(bytes / 64 * 64) {}
  ~Arena();
  Arena(const Arena&) = delete;

  // Room of at least `bytes` > 0, aligned to 64; data == nullptr when there is none now.
  Room Take(uint64_t bytes);
  // For when the arena has the bytes free but not in one piece and nothing will be given back soon.
  // Counts against the capacity as well. data == nullptr when the capacity is used up.
  Room TakeFromHeap(uint64_t bytes);
  void Give(const Room& room);

  // Whether `bytes` could ever be taken.
  bool Fits(uint64_t bytes) const { return bytes <= capacity_; }
  uint64_t used() const { return used_; }
  uint64_t capacity() const { return capacity_; }  // may shrink at the first Take()
  // The system gave nothing, so waiting for room is in vain.
  bool refused() const { return failed_; }

 private:
  struct Block {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  bool Map();

  uint64_t capacity_;
  std::byte* base_ = nullptr;  // mapped at first use
  bool failed_ = false;
  uint64_t used_ = 0;
  std::vector<Block> free_;  // by offset, never touching each other
};

}  // namespace tdump::io
