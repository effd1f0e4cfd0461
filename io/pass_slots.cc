#include "io/pass_slots.h"

namespace tdump::io {

PassSlot* PassSlots::Open(const PassInfo& info, int64_t now_ns, int64_t step_ns) {
  PassSlot& slot = slots_[info.ordinal % kSlots];
  if (slot.busy.load(std::memory_order_acquire)) return nullptr;
  slot.info = info;
  slot.records.store(0, std::memory_order_relaxed);
  slot.blocked_ns.store(0, std::memory_order_relaxed);
  slot.backward.store(false, std::memory_order_relaxed);
  slot.over_share.store(false, std::memory_order_relaxed);
  for (auto& count : slot.lost) count.store(0, std::memory_order_relaxed);
  slot.lost_calls.store(0, std::memory_order_relaxed);
  slot.opened_ns = now_ns;
  slot.step_ns = step_ns;
  slot.busy.store(true, std::memory_order_relaxed);
  // A thread that looks for a pass that is gone may be counted in for a moment.
  uint64_t word = slot.word.load(std::memory_order_relaxed);
  while (!slot.word.compare_exchange_weak(
      word, (info.ordinal & kOrdinalMask) << kOrdinalShift | kAccepting | (word & kCount),
      std::memory_order_acq_rel)) {
  }
  const uint64_t n = opened_.load(std::memory_order_relaxed);
  ring_[n % kSlots] = &slot;
  opened_.store(n + 1, std::memory_order_release);
  return &slot;
}

void PassSlots::Close(PassSlot* slot, int64_t deadline_ns) noexcept {
  slot->deadline_ns.store(deadline_ns, std::memory_order_relaxed);
  slot->word.fetch_or(kClosing, std::memory_order_acq_rel);
}

bool PassSlots::Finish(PassSlot* slot) noexcept {
  uint64_t word = slot->word.load(std::memory_order_acquire);
  if ((word & kClosing) == 0 || (word & kCount) != 0) return false;
  return slot->word.compare_exchange_strong(word, word & ~(kAccepting | kClosing),
                                            std::memory_order_acq_rel);
}

}  // namespace tdump::io
