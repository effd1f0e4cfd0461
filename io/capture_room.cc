// Room in the arena, and what happens at the cap.
#include <algorithm>

#include "io/capture_sink_impl.h"
#include "io/futex.h"

namespace tdump::io {
namespace {

// How long a thread waits for room that only other threads' uncommitted slots could give back.
constexpr int64_t kWaitForCommitsNs = 200'000'000;
constexpr int64_t kWaitNs = 20'000'000;
constexpr uint64_t kMostForMetadata = 4 << 20;

}  // namespace

// `values`: part of the arena is left to records that keep their metadata only.
std::byte* CaptureSinkImpl::TryRoom(uint64_t bytes, bool values) {
  const uint64_t capacity = arena_.capacity();
  const uint64_t left_over = values ? std::min(capacity / 16, kMostForMetadata) : 0;
  const uint64_t used = arena_.used();
  if (values && used + std::min(bytes, capacity) > capacity - left_over) return nullptr;
  std::byte* room = arena_.Take(bytes);
  // Much is waiting, so the writer should not nap any longer. Once per turn.
  if (used > capacity / 4 && !urged_.exchange(true, std::memory_order_relaxed)) Wake(kNap);
  return room;
}

std::byte* CaptureSinkImpl::TakeRoom(PassSlot* pass, uint64_t bytes, bool values) {
  if (std::byte* room = TryRoom(bytes, values)) return room;
  if (bytes > arena_.capacity()) return nullptr;
  int64_t idle_since = 0;
  for (;;) {
    if (!WaitForRoom(pass, values, &idle_since)) return nullptr;
    if (std::byte* room = TryRoom(bytes, values)) return room;
  }
}

AtLimit CaptureSinkImpl::AtLimitNow(const PassSlot& pass) const {
  const bool over = pass.over_share.load(std::memory_order_relaxed);
  return over && options_.at_limit == AtLimit::kBlock ? AtLimit::kStats : options_.at_limit;
}

// What is left of memory.max_block: the share of the time since the pass began or, where that was
// longer, of the step before it.
int64_t CaptureSinkImpl::LeftToBlock(PassSlot* pass, int64_t now) const {
  if (options_.max_block >= 1) return kWaitNs;
  const int64_t step = std::max(now - pass->opened_ns, pass->step_ns);
  const auto blocked = static_cast<int64_t>(pass->blocked_ns.load(std::memory_order_relaxed));
  return static_cast<int64_t>(options_.max_block * static_cast<double>(step)) - blocked;
}

// Waits once. False when waiting is not wanted, or could last for ever: nothing is on its way to
// the disk and what fills the arena is not committed, perhaps by this very thread. `*idle_since`
// starts at 0. Metadata is waited for unless everything is to be dropped: it takes no more than
// moments.
bool CaptureSinkImpl::WaitForRoom(PassSlot* pass, bool values, int64_t* idle_since) {
  Wake(kNap);
  const AtLimit at_limit = AtLimitNow(*pass);
  if (stopped() || at_limit == AtLimit::kDrop) return false;
  if (values && at_limit == AtLimit::kStats) return false;
  const int64_t start = env_->MonotonicNs();
  const int64_t left = values ? LeftToBlock(pass, start) : kWaitNs;
  if (left <= 0) {
    pass->over_share.store(true, std::memory_order_relaxed);
    return false;
  }
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t turn = room_turn_.load(std::memory_order_seq_cst);
  const bool on_its_way = in_hand_.load() || !queue_.empty();
  if (on_its_way)
    *idle_since = 0;
  else if (*idle_since == 0)
    *idle_since = start;
  const bool in_vain = !on_its_way && start - *idle_since > kWaitForCommitsNs;
  if (!in_vain) {
    if (!threaded_.load()) WriteNow();
    FutexWait(&room_turn_, turn, std::min(left, kWaitNs));
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  pass->blocked_ns.fetch_add(static_cast<uint64_t>(env_->MonotonicNs() - start),
                             std::memory_order_relaxed);
  return !in_vain;
}

}  // namespace tdump::io
