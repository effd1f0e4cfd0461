// The parts of the sink that collectors' threads and the writer thread
// share. Protocol: io/capture_sink.h.
//
//   capture_sink.cc      collectors' side: reserve, commit, refer, skip, end_call; open_pass and
//                        close_pass
//   capture_room.cc      room and items: taking, waiting at the cap, giving back
//   capture_pump.cc      writer's side: from the queue to the passes, finishing passes, notes
//
// One mutex guards everything but what is marked. It is held for tens of instructions; hashing,
// file operations and the copying of metadata happen outside it. Exactly one thread pumps at a time
// (`pumping_`): the writer thread, or without one whoever needs it done.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/arena.h"
#include "io/capture_item.h"
#include "io/capture_sink.h"
#include "io/pass_recording.h"

namespace tdump::io {

// One pass, from open_pass() until it is finished and its last slot came back.
struct CapturePass {
  explicit CapturePass(RecordingContext* context, const PassInfo& info)
      : ordinal(info.ordinal), recording(context, info) {}

  const uint64_t ordinal;
  PassRecording recording;       // the pumping thread's
  uint64_t records = 0;          // ids given out
  uint64_t outstanding = 0;      // items taken and not yet handed to the recording
  CaptureItem* slots = nullptr;  // reserved and not committed
  bool closing = false;
  bool finished = false;    // takes nothing any more
  int64_t deadline_ns = 0;  // when closing: outstanding slots are no longer waited for
  uint64_t blocked_ns = 0;
  ReasonCounts lost{};  // records that could not even be noted as meta
  uint64_t lost_calls = 0;
};

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
  uint64_t max_slot() const noexcept override;
  void stream(const Call& call, const Observation& observation, const Keep& keep, uint64_t bytes,
              PieceSource* source) noexcept override;
  void when_ready(const Call& call, const Observation& observation, const Keep& keep,
                  uint64_t bytes, DeviceCopy* copy) noexcept override;
  void refer(const Call& call, const Observation& observation, const Keep& keep,
             uint64_t earlier) noexcept override;
  void skip(const Call& call, const Observation& observation, const Keep& keep, SkipReason reason,
            std::string_view detail) noexcept override;
  void end_call(const Call& call, std::span<const std::byte> arguments,
                std::string_view text) noexcept override;
  void expect(OperatorId op) noexcept override;
  void note(std::string_view text) noexcept override;

  void open_pass(const PassInfo& info) noexcept override;
  void close_pass() noexcept override;
  bool stopped() const noexcept override { return stopped_.load(std::memory_order_relaxed); }

  bool Drain(int timeout_ms) noexcept override;
  void AbandonAfterFork() noexcept override { abandoned_.store(true); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Note {
    int level;
    std::string text;
  };

  // capture_sink.cc
  bool off() const { return abandoned_.load(std::memory_order_relaxed); }
  uint64_t Seen(const Call& call);
  CapturePass* FindPass(uint64_t ordinal);
  CaptureItem* NewRecord(const Call& call, const Observation& observation, const Keep& keep,
                         uint64_t bytes, SkipReason* reason);
  void Commit(const Slot& slot, SkipReason reason);
  void Push(Lock* lock, CaptureItem* item);  // gives the lock up
  void ClosePassLocked(Lock* lock);
  bool StartThread();

  // capture_room.cc
  CaptureItem* TakeItem(Lock* lock, CapturePass* pass);
  bool GrowPool();
  Arena::Room TakeRoom(Lock* lock, CapturePass* pass, uint64_t bytes);
  bool WaitForRoom(Lock* lock, CapturePass* pass, int64_t* idle_since);
  void Recycle(CaptureItem* item);
  void Lose(CaptureItem* item, bool linked);  // takes the lock
  void Link(CaptureItem* item);
  void Unlink(CaptureItem* item);

  // capture_pump.cc
  void RunThread();
  void Wake(bool urgent);  // with the lock held
  void Pump(Lock* lock);   // until the queue is empty; gives the lock up in between
  void PumpOnce(Lock* lock);
  void WriteBatch(Lock* lock);
  void GiveBackDone();
  void FlushAll(Lock* lock);
  std::vector<CaptureItem*> OrphanSlots(CapturePass* pass);
  bool FinishOnePass(Lock* lock);
  void FinishPass(CapturePass* pass, const std::vector<CaptureItem*>& orphans);
  void WriteCounts(const std::vector<OperatorId>& operators);
  void WriteExpected(const std::vector<OperatorId>& operators);
  void WriteNote(const Note& note);
  void Check(const Status& status);  // of the manifest
  // To the user; false: the topic was told before.
  bool Report(std::string_view topic, const std::string& text);
  void Tell(std::string_view topic, int level, const std::string& text);
  bool AllDone() const;

  Env* const env_;
  const OperatorTable* const operators_;
  ManifestWriter* const manifest_;
  const CaptureSinkOptions options_;
  const uint64_t max_items_;
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> limit_reached_{false};  // the open pass is the last one
  std::atomic<uint64_t> sequence_{0};       // largest sequence number seen
  std::unique_ptr<std::atomic<uint64_t>[]> expected_bits_;

  std::mutex mutex_;
  std::condition_variable work_;  // to the writer thread
  // To whoever waits for room, for the pump or for everything to be done.
  std::condition_variable room_;
  std::thread thread_;
  bool threaded_ = false;
  bool stop_ = false;
  bool sleeping_ = false;  // the writer thread waits for the first item
  bool urgent_ = false;    // do not gather more before writing
  bool pumping_ = false;
  int waiters_ = 0;

  Arena arena_;
  std::vector<std::unique_ptr<CaptureItem>> items_;
  std::vector<CaptureItem*> pool_;
  uint64_t live_items_ = 0;
  std::vector<CaptureItem*> queue_;
  uint64_t queued_bytes_ = 0;
  std::vector<std::unique_ptr<CapturePass>> passes_;
  CapturePass* current_ = nullptr;
  uint64_t late_ = 0;  // records of passes that are gone
  std::vector<OperatorId> expected_;
  std::vector<Note> notes_;
  std::set<std::string, std::less<>> noted_;

  // The pumping thread's.
  DiskBudget budget_;
  RecordingContext context_;
  std::vector<CaptureItem*> batch_;
  std::vector<CaptureItem*> done_;
  uint64_t done_bytes_ = 0;
  std::set<std::string, std::less<>> told_;
  int failed_in_a_row_ = 0;
  int64_t flushed_ns_ = 0;
};

}  // namespace tdump::io
