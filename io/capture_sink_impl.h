// The parts of the sink. Protocol: io/capture_sink.h.
//
//   capture_sink.cc      collectors' side: reserve, commit, refer, skip, end_call
//   capture_room.cc      room in the arena, and what happens at the cap
//   capture_stream.cc    payloads in pieces, and statistics in place of payloads
//   capture_control.cc   the coordinator's side: opening and closing passes, draining
//   capture_writer.cc    writer's side: from the queue to the passes
//   capture_finish.cc    writer's side: ending passes, what goes to the manifest and to the user
//
// How an entry travels:
//   1. A producer counts itself into its pass (io/pass_slots.h), takes room (io/arena.h), makes the
//      entry there and pushes it (io/entry_queue.h): no lock, no allocation, no system call.
//   2. It copies the payload into the entry; commit() is one store. An entry that the writer meets
//      before its commit is set aside and looked at again.
//   3. The writer thread takes all entries there are, hands them to their passes in order, gives
//      the room back, and counts them out. When nothing came for a while it sleeps; only then does
//      the next push wake it. In between it looks every few milliseconds.
// Exactly one thread at a time is the writer (`writing_` is held): the thread of the sink or, with
// memory.thread: false, whoever opens or closes a pass or finds the arena full.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/arena.h"
#include "io/capture_entry.h"
#include "io/capture_sink.h"
#include "io/entry_queue.h"
#include "io/operator_losses.h"
#include "io/pass_recording.h"
#include "io/pass_slots.h"

namespace tdump::io {

class CaptureSinkImpl final : public CaptureSink {
 public:
  CaptureSinkImpl(Env* env, const OperatorTable* operators, ManifestWriter* manifest,
                  std::string directory, CaptureSinkOptions options);
  ~CaptureSinkImpl() override;
  // In a forked child nothing may be touched, so nothing is destroyed either.
  static void operator delete(CaptureSinkImpl* sink, std::destroying_delete_t);

  Slot reserve(const Call& call, const Observation& observation, const Keep& keep,
               uint64_t bytes) noexcept override;
  void commit(const Slot& slot) noexcept override;
  void abandon(const Slot& slot, SkipReason reason) noexcept override;
  uint64_t max_slot() const noexcept override { return max_slot_; }
  void stream(const Call& call, const Observation& observation, const Keep& keep, uint64_t bytes,
              PieceSource* source) noexcept override;
  void when_ready(const Call& call, const Observation& observation, const Keep& keep,
                  uint64_t bytes, DeviceCopy* copy) noexcept override;
  void refer(const Call& call, const Observation& observation, const Keep& keep,
             uint64_t earlier) noexcept override;
  void skip(const Call& call, const Observation& observation, const Keep& keep, SkipReason reason,
            std::string_view detail) noexcept override;
  void end_call(const Call& call, std::span<const std::byte> arguments,
                std::span<const std::byte> text) noexcept override;
  void expect(OperatorId op) noexcept override;
  void note(std::string_view text) noexcept override;

  void open_pass(const PassInfo& info) noexcept override;
  void close_pass() noexcept override;
  bool stopped() const noexcept override { return stopped_.load(std::memory_order_relaxed); }

  bool Drain(int timeout_ms) noexcept override;
  void AbandonAfterFork() noexcept override { abandoned_.store(true); }

  const Arena& arena() const { return arena_; }

 private:
  struct Note {
    int level;
    std::string text;
  };

  // capture_sink.cc
  bool off() const { return abandoned_.load(std::memory_order_relaxed); }
  bool refuses() const { return off() || stopped(); }
  uint64_t Seen(const Call& call);
  PassSlot* Enter(const Call& call);
  void Lose(PassSlot* pass, const Call& call, SkipReason reason);
  CaptureEntry* NewRecord(PassSlot* pass, const RecordEntry& from);
  CaptureEntry* NewMeta(PassSlot* pass, RecordEntry from);
  void Push(CaptureEntry* entry);

  // capture_room.cc
  std::byte* TryRoom(uint64_t bytes, bool values);
  std::byte* TakeRoom(PassSlot* pass, uint64_t bytes, bool values);
  AtLimit AtLimitNow(const PassSlot& pass) const;
  struct Waiting {
    int64_t idle_since = 0;
    uint32_t turn = 0;
  };
  bool WaitForRoom(PassSlot* pass, bool values, Waiting* waiting);
  bool TakeStream(PassSlot* pass);
  int64_t LeftToBlock(PassSlot* pass, int64_t now, double share) const;

  // capture_stream.cc
  void StreamPieces(PassSlot* pass, RecordEntry from, uint64_t bytes, PieceSource* source);
  SkipReason PushPieces(CaptureEntry* head, PieceSource* source);
  void GiveUp(PassSlot* pass, RecordEntry from, uint64_t bytes, PieceSource* source);
  static bool Summarise(const Observation& observation, uint64_t bytes, PieceSource* source,
                        Hash128* hash, Statistics* statistics);

  // capture_control.cc
  bool StartThread();
  void CloseOpenPass();
  bool AllDone();

  // capture_writer.cc
  enum Sleep : uint32_t { kAwake = 0, kNap = 1, kAsleep = 2 };
  void RunThread();
  void Wake(Sleep deepest);  // when the writer sleeps at least as deep
  bool WriteNow();           // a turn of the calling thread; false: another one is writing
  bool Turn();               // false: there was nothing to do
  bool TakeQueue();
  bool LookAgain();
  bool IsReady(CaptureEntry* entry);
  void Hand(CaptureEntry* entry);
  void TakePiece(CaptureEntry* piece);
  PassRecording* RecordingOf(PassSlot* pass);
  void CountOut(PassSlot* pass, uint64_t entries);
  void GiveBack(CaptureEntry* entry);
  void GiveBackDone();
  void Break(const char* why);

  // capture_finish.cc
  void FinishPasses();
  bool FinishPass(PassSlot* pass);
  void OrphanEntries(PassSlot* pass);
  void TellOverShare(const PassSlot& pass);
  void NoteRefusal();
  void Flush(bool all);
  void CloseFiles();
  bool TakeMail();
  void WriteCounts(const std::vector<OperatorId>& operators);
  void WriteExpected(const std::vector<OperatorId>& operators);
  void WriteNote(const Note& note);
  void Check(const Status& status);  // of the manifest
  // To the user; false: the topic was told before.
  bool Report(std::string_view topic, const std::string& text);
  void Tell(std::string_view topic, int level, const std::string& text);

  Env* const env_;
  const OperatorTable* const operators_;
  ManifestWriter* const manifest_;
  const CaptureSinkOptions options_;
  uint64_t max_slot_ = 0;
  uint64_t piece_bytes_ = 0;
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> limit_reached_{false};  // the open pass is the last one
  std::unique_ptr<std::atomic<uint64_t>[]> expected_bits_;

  // Producers and the writer.
  Arena arena_;
  PassSlots slots_;
  EntryQueue<CaptureEntry> queue_;
  OperatorLosses losses_;
  alignas(64) std::atomic<uint64_t> sequence_{0};  // largest sequence number seen
  std::atomic<uint64_t> late_{0};                  // records of passes that are gone
  alignas(64) std::atomic<uint32_t> sleep_{kAwake};
  std::atomic<bool> urged_{false};      // the arena fills up; the writer was told
  std::atomic<uint32_t> room_turn_{0};  // changes when room was given back
  std::atomic<uint32_t> waiters_{0};    // threads that wait for that
  std::atomic<uint32_t> streams_{0};    // payloads coming in pieces
  std::atomic<bool> in_hand_{false};    // the writer has entries that it will give back
  std::atomic<bool> mail_waits_{false};

  std::mutex control_;  // opening, closing and draining
  PassSlot* current_ = nullptr;
  int64_t step_ns_ = 0;
  std::thread thread_;
  std::atomic<bool> threaded_{false};
  std::atomic<bool> stop_{false};

  std::mutex mail_;  // what is not on the fast path
  std::vector<OperatorId> expected_;
  std::vector<Note> notes_;
  std::set<std::string, std::less<>> noted_;

  std::mutex writing_;  // held by the writer during a turn; guards what follows
  DiskBudget budget_;
  RecordingContext context_;
  std::vector<CaptureEntry*> waiting_;  // not committed, or its device has not finished
  std::vector<CaptureEntry*> orphans_;  // written without their values, not committed yet
  std::vector<PassSlot*> active_;
  std::vector<CaptureEntry*> done_;
  bool broken_ = false;  // out of memory: nothing is written any more
  std::set<std::string, std::less<>> told_;
  int failed_in_a_row_ = 0;
  int64_t flushed_ns_ = 0;
};

}  // namespace tdump::io
