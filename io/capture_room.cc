// Room in the arena, and what happens at the cap.
#include <algorithm>

#include "io/capture_sink_impl.h"
#include "io/futex.h"

namespace tdump::io {
namespace {

// How long a thread waits for room that only other threads' uncommitted slots could give back.
constexpr int64_t kWaitForCommitsNs = 500'000'000;
constexpr uint32_t kMostStreams = 4;
constexpr int64_t kWaitNs = 20'000'000;
constexpr uint64_t kMostForMetadata = 4 << 20;
constexpr int64_t kLeastStepNs = 100'000'000;  // a share of less is noise of the scheduler
// How much longer than values the metadata of a pass may wait before it is lost.
constexpr int64_t kMetadataWaitNs = 1'000'000'000;

}  // namespace

// `values`: part of the arena is left to records that keep their metadata only.
std::byte* CaptureSinkImpl::TryRoom(uint64_t bytes, bool values) {
  const uint64_t capacity = state_.arena.capacity();
  const uint64_t left_over = values ? std::min(capacity / 16, kMostForMetadata) : 0;
  const uint64_t used = state_.arena.used();
  if (values && used + std::min(bytes, capacity) > capacity - left_over) return nullptr;
  std::byte* room = state_.arena.Take(bytes);
  // Much is waiting, so the writer should not nap any longer. Once per turn.
  if (used > capacity / 4 && !state_.urged.exchange(true, std::memory_order_relaxed))
    state_.Wake(CaptureState::kNap);
  return room;
}

std::byte* CaptureSinkImpl::TakeRoom(PassSlot* pass, uint64_t bytes, bool values) {
  if (std::byte* room = TryRoom(bytes, values)) return room;
  if (bytes > state_.arena.capacity()) return nullptr;
  Waiting waiting;
  for (;;) {
    if (!WaitForRoom(pass, values, &waiting)) return nullptr;
    if (std::byte* room = TryRoom(bytes, values)) return room;
  }
}

AtLimit CaptureSinkImpl::AtLimitNow(const PassSlot& pass) const {
  const bool over = pass.over_share.load(std::memory_order_relaxed);
  return over && state_.options.at_limit == AtLimit::kBlock ? AtLimit::kStats
                                                            : state_.options.at_limit;
}

// What is left of `share`: of the time since the pass began, of the step before it or of 100 ms,
// whichever is longest.
int64_t CaptureSinkImpl::LeftToBlock(PassSlot* pass, int64_t now, double share) const {
  if (state_.options.max_block >= 1) return kWaitNs;
  const int64_t step = std::max({now - pass->opened_ns, pass->step_ns, kLeastStepNs});
  const auto blocked = static_cast<int64_t>(pass->blocked_ns.load(std::memory_order_relaxed));
  return static_cast<int64_t>(share * static_cast<double>(step)) - blocked;
}

// A stream holds its record's entry while it waits for room for pieces, so few may run at a time.
bool CaptureSinkImpl::TakeStream(PassSlot* pass) {
  Waiting waiting;
  for (;;) {
    uint32_t running = streams_.load(std::memory_order_relaxed);
    while (running < kMostStreams) {
      if (streams_.compare_exchange_weak(running, running + 1)) return true;
    }
    if (!WaitForRoom(pass, true, &waiting)) return false;
  }
}

// Waits once. False when waiting is not wanted, or could last for ever: nothing is on its way to
// the disk and what fills the arena is not committed, perhaps by this very thread. Metadata may
// wait for a second more than the share before it is lost, and counted.
bool CaptureSinkImpl::WaitForRoom(PassSlot* pass, bool values, Waiting* waiting) {
  state_.Wake(CaptureState::kNap);
  const AtLimit at_limit = AtLimitNow(*pass);
  if (stopped() || at_limit == AtLimit::kDrop) return false;
  if (values && at_limit == AtLimit::kStats) return false;
  const int64_t start = state_.env->MonotonicNs();
  const int64_t left =
      LeftToBlock(pass, start, state_.options.max_block) + (values ? 0 : kMetadataWaitNs);
  if (left <= 0) {
    if (values) pass->over_share.store(true, std::memory_order_relaxed);
    return false;
  }
  state_.waiters.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t turn = state_.room_turn.load(std::memory_order_seq_cst);
  const bool on_its_way = state_.in_hand.load() || !state_.queue.empty() || turn != waiting->turn;
  if (on_its_way || waiting->idle_since == 0) *waiting = {start, turn};
  const bool in_vain = !on_its_way && start - waiting->idle_since > kWaitForCommitsNs;
  if (!in_vain) {
    if (!threaded_.load()) writer_.WriteNow();
    FutexWait(&state_.room_turn, turn, std::min(left, kWaitNs));
  }
  state_.waiters.fetch_sub(1, std::memory_order_relaxed);
  pass->blocked_ns.fetch_add(static_cast<uint64_t>(state_.env->MonotonicNs() - start),
                             std::memory_order_relaxed);
  return !in_vain;
}

}  // namespace tdump::io
