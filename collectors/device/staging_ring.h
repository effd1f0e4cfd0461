// StagingRing: which part of a device's staging memory belongs to which copy. Given out in order
// and taken back in order: room that is returned early is free again once everything older is.
// Not thread-safe: Stager holds its lock around every call.
#pragma once

#include <cstdint>
#include <vector>

namespace tdump::collectors {

class StagingRing {
 public:
  static constexpr uint64_t kAlignment = 256;

  // `slots`: how many parts can be out at a time.
  StagingRing(uint64_t bytes, uint32_t slots)
      : capacity_(bytes / kAlignment * kAlignment), slots_(slots) {}

  static constexpr uint32_t kNone = ~uint32_t{0};
  // Number of a slot whose `bytes` start at offset(slot), or kNone: no room now.
  uint32_t Take(uint64_t bytes);
  void Give(uint32_t slot);

  uint64_t offset(uint32_t slot) const { return slots_[slot].begin % capacity_; }
  uint64_t capacity() const { return capacity_; }
  uint32_t out() const { return out_; }  // slots not given back

 private:
  // Positions count bytes ever given out; the place is the position modulo the capacity.
  struct Slot {
    uint64_t begin = 0, end = 0;
    bool out = false;
  };

  uint64_t capacity_;
  std::vector<Slot> slots_;
  uint64_t head_ = 0, tail_ = 0;         // positions: next to give, oldest not free
  uint64_t next_slot_ = 0, oldest_ = 0;  // numbers of slots ever given out
  uint32_t out_ = 0;
};

}  // namespace tdump::collectors
