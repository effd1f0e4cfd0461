// Gate: the few words of state that a collector reads on every operator. Written by the
// coordinator, read by everyone.
#pragma once

#include <atomic>
#include <cstdint>

namespace tdump {

// dormant: loaded, nothing on disk, the first operator activates. idle: active, this step or rank
// is not recorded. armed: the open pass records. off: tdump is out of this process for good (forked
// child, foreign torch, error).
enum class GateState : uint8_t { kDormant = 0, kIdle = 1, kArmed = 2, kOff = 3 };

struct Gate {
  std::atomic<GateState> state{GateState::kDormant};
  std::atomic<uint64_t> pass{0};  // ordinal of the open pass; changes exactly when a step begins
  // Local step, relative to the first selected step, for rules with `steps:`.
  std::atomic<uint64_t> step{0};
  std::atomic<uint32_t> micro{0};     // n-th root call inside the step
  std::atomic<uint64_t> sequence{1};  // begin and end numbers of calls

  bool armed() const { return state.load(std::memory_order_acquire) == GateState::kArmed; }
  bool off() const { return state.load(std::memory_order_relaxed) == GateState::kOff; }
  uint64_t NextSequence() { return sequence.fetch_add(1, std::memory_order_relaxed); }
};

}  // namespace tdump
