#include "collectors/device/staging_ring.h"

#include <algorithm>

namespace tdump::collectors {

uint32_t StagingRing::Take(uint64_t bytes) {
  if (bytes > capacity_ || next_slot_ - oldest_ == slots_.size()) return kNone;
  const uint64_t length = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t to_end = capacity_ - head_ % capacity_;
  const uint64_t begin = length <= to_end ? head_ : head_ + to_end;
  if (begin + length - tail_ > capacity_) {
    if (out_ != 0) return kNone;
    tail_ = begin;  // nothing is out: what was skipped is free too
  }
  const auto number = static_cast<uint32_t>(next_slot_++ % slots_.size());
  slots_[number] = {begin, begin + length, true};
  head_ = begin + length;
  ++out_;
  return number;
}

void StagingRing::Give(uint32_t slot) {
  slots_[slot].out = false;
  --out_;
  for (; oldest_ != next_slot_; ++oldest_) {
    const Slot& oldest = slots_[oldest_ % slots_.size()];
    if (oldest.out) return;
    tail_ = oldest.end;
  }
}

}  // namespace tdump::collectors
