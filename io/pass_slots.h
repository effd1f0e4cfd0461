// PassSlots: the passes in flight, as the threads that record see them. A fixed table, so nothing
// is ever freed under a producer. A slot's state is one word {ordinal, accepting, closing, entries
// outstanding}: finding the pass and counting in is one addition and a check; the pass is finished
// by a compare-and-swap that succeeds only when nothing is outstanding.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "io/pass_recording.h"
#include "io/records.h"

namespace tdump::io {

struct alignas(64) PassSlot {
  std::atomic<uint64_t> word{0};
  std::atomic<uint64_t> records{0};  // ids given out
  std::atomic<uint64_t> blocked_ns{0};
  std::atomic<bool> backward{false};                   // something of a backward came
  std::atomic<bool> over_share{false};                 // blocked for longer than memory.max_block
  std::array<std::atomic<uint64_t>, kReasons> lost{};  // records that could not even be noted
  std::atomic<uint64_t> lost_calls{0};
  std::atomic<int64_t> deadline_ns{0};  // when closing: what is outstanding is no longer waited for
  int64_t opened_ns = 0;
  int64_t step_ns = 0;  // how long the pass before this one was open

  std::atomic<bool> busy{false};  // from its opening until the writer has done with it
  PassInfo info;
  std::unique_ptr<PassRecording> recording;  // the writer's, made with the first entry
};

class PassSlots {
 public:
  static constexpr size_t kSlots = 256;

  // Counts an entry in. nullptr: no such pass, or it takes nothing any more.
  PassSlot* Enter(uint64_t ordinal) noexcept {
    PassSlot& slot = slots_[ordinal % kSlots];
    const uint64_t word = slot.word.fetch_add(1, std::memory_order_acq_rel);
    if ((word >> kOrdinalShift) == (ordinal & kOrdinalMask) && (word & kAccepting) != 0)
      return &slot;
    slot.word.fetch_sub(1, std::memory_order_acq_rel);
    return nullptr;
  }
  static void Leave(PassSlot* slot, uint64_t entries = 1) noexcept {
    slot->word.fetch_sub(entries, std::memory_order_acq_rel);
  }

  // One thread at a time opens and closes. nullptr: the writer has not done with the pass whose
  // place it takes.
  PassSlot* Open(const PassInfo& info, int64_t now_ns, int64_t step_ns);
  static void Close(PassSlot* slot, int64_t deadline_ns) noexcept;

  // The writer's. The slots opened since the last call.
  template <class Visit>
  void TakeOpened(Visit visit) {
    for (; taken_ != opened_.load(std::memory_order_acquire); ++taken_)
      visit(ring_[taken_ % kSlots]);
  }
  static bool IsClosing(const PassSlot& slot) noexcept {
    return (slot.word.load(std::memory_order_acquire) & kClosing) != 0;
  }
  static uint64_t Outstanding(const PassSlot& slot) noexcept {
    return slot.word.load(std::memory_order_acquire) & kCount;
  }
  static bool IsFinished(const PassSlot& slot) noexcept {
    return (slot.word.load(std::memory_order_acquire) & kAccepting) == 0;
  }
  // False: it is not closing, or entries are outstanding. True: it takes nothing any more.
  static bool Finish(PassSlot* slot) noexcept;

 private:
  static constexpr uint64_t kCount = (uint64_t{1} << 30) - 1;
  static constexpr uint64_t kClosing = uint64_t{1} << 30;
  static constexpr uint64_t kAccepting = uint64_t{1} << 31;
  static constexpr int kOrdinalShift = 32;
  static constexpr uint64_t kOrdinalMask = (uint64_t{1} << 32) - 1;

  std::array<PassSlot, kSlots> slots_;
  std::array<PassSlot*, kSlots> ring_{};
  std::atomic<uint64_t> opened_{0};
  uint64_t taken_ = 0;
};

}  // namespace tdump::io
