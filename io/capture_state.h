// What the threads of a sink share: those that record, the coordinator's, and the writer's. How an
// entry travels between them is told in io/capture_sink_impl.h.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "io/arena.h"
#include "io/capture_entry.h"
#include "io/capture_sink.h"
#include "io/entry_queue.h"
#include "io/futex.h"
#include "io/operator_losses.h"
#include "io/pass_slots.h"

namespace tdump::io {

struct CaptureState {
  enum Sleep : uint32_t { kAwake = 0, kNap = 1, kAsleep = 2 };
  struct Note {
    int level;
    std::string text;
  };

  CaptureState(Env* env, const OperatorTable* operators, ManifestWriter* manifest,
               CaptureSinkOptions options)
      : env(env),
        operators(operators),
        manifest(manifest),
        options(std::move(options)),
        arena(this->options.arena_bytes) {}

  // Wakes the writer when it sleeps at least as deep.
  void Wake(Sleep deepest) {
    const uint32_t now = sleep.load(std::memory_order_seq_cst);
    if (now == kAwake || now < deepest) return;
    if (sleep.exchange(kAwake, std::memory_order_seq_cst) != kAwake) FutexWakeAll(&sleep);
  }

  Env* const env;
  const OperatorTable* const operators;
  ManifestWriter* const manifest;
  const CaptureSinkOptions options;
  std::atomic<bool> stopped{false};
  std::atomic<bool> limit_reached{false};  // the open pass is the last one

  Arena arena;
  PassSlots slots;
  EntryQueue<CaptureEntry> queue;
  OperatorLosses losses;
  alignas(64) std::atomic<uint64_t> late{0};  // records of passes that are gone
  alignas(64) std::atomic<uint32_t> sleep{kAwake};
  std::atomic<bool> urged{false};      // the arena fills up; the writer was told
  std::atomic<uint32_t> room_turn{0};  // changes when room was given back
  std::atomic<uint32_t> waiters{0};    // threads that wait for that
  std::atomic<bool> in_hand{false};    // the writer has entries that it will give back
  std::atomic<bool> mail_waits{false};
  std::atomic<bool> end_thread{false};

  std::mutex mail;  // what is not on the fast path
  std::vector<OperatorId> expected;
  std::vector<Note> notes;
};

}  // namespace tdump::io
