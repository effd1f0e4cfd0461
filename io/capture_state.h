// What the threads of a sink share: those that record, the coordinator's, and the writer's. How an
// entry travels between them is told in io/capture_sink_impl.h.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
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

  // Set once; the objects are thread-safe.
  Env* const env;
  const OperatorTable* const operators;
  ManifestWriter* const manifest;
  const CaptureSinkOptions options;

  // Set by the writer or the coordinator's thread, never cleared; read by all.
  std::atomic<bool> stopped{false};
  std::atomic<bool> last_pass{false};      // a limit, or the disk fails: no pass after the open one
  std::atomic<int64_t> left_out_from{-1};  // the first step that got no pass for that

  // Threads that record take room, count in, push and count losses, without a lock; the writer
  // gives back, counts out, pops and takes. Which call is whose is said in each of their headers.
  Arena arena;
  PassSlots slots;
  EntryQueue<CaptureEntry> queue;
  OperatorLosses losses;                      // of records
  OperatorLosses lost_calls;                  // whose records may be there
  alignas(64) std::atomic<uint64_t> late{0};  // records of passes that are gone

  // How the writer sleeps and is woken, and threads that wait for room are: set by any of them.
  alignas(64) std::atomic<uint32_t> sleep{kAwake};
  std::atomic<bool> urged{false};      // the arena fills up; the writer was told
  std::atomic<uint32_t> room_turn{0};  // changes when room was given back
  std::atomic<uint32_t> waiters{0};    // threads that wait for that
  std::atomic<bool> in_hand{false};    // the writer has entries that it will give back
  std::atomic<bool> mail_waits{false};
  std::atomic<bool> end_thread{false};

  // To the writer, of any thread, off the fast path: whoever adds holds `mail` and sets
  // `mail_waits`.
  std::mutex mail;  // guards what follows
  std::vector<OperatorId> expected;
  std::vector<Note> notes;
  std::set<std::string, std::less<>> noted;  // texts that the job has had as notes
};

}  // namespace tdump::io
