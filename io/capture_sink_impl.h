// The parts of the sink. Protocol: io/capture_sink.h.
//
//   capture_sink.cc      collectors' side: reserve, commit, refer, skip, end_call
//   capture_room.cc      room in the arena, and what happens at the cap
//   capture_stream.cc    payloads in pieces, and statistics in place of payloads
//   capture_control.cc   the coordinator's side: opening and closing passes, draining
//   capture_writer.h     writer's side: from the queue to the passes and to the manifest
//   capture_state.h      what the sides share
//
// How an entry travels:
//   1. A producer counts itself into its pass (io/pass_slots.h), takes room (io/arena.h), makes the
//      entry there and pushes it (io/entry_queue.h): no lock, no allocation, no system call.
//   2. It copies the payload into the entry; commit() is one store. An entry that the writer meets
//      before its commit is set aside and looked at again.
//   3. The writer thread takes all entries there are, hands them to their passes in order, gives
//      the room back, and counts them out. When nothing came for a while it sleeps; only then does
//      the next push wake it. In between it looks every few milliseconds.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "io/capture_sink.h"
#include "io/capture_state.h"
#include "io/capture_writer.h"

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
  bool has_backward() noexcept override;
  bool stopped() const noexcept override { return state_.stopped.load(std::memory_order_relaxed); }

  bool Drain(int timeout_ms) noexcept override;
  void AbandonAfterFork() noexcept override { abandoned_.store(true); }

  const Arena& arena() const { return state_.arena; }

 private:
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
  void LeaveOut(const PassInfo& info);
  void WakeForMail();

  CaptureState state_;
  CaptureWriter writer_;
  uint64_t max_slot_ = 0;
  uint64_t piece_bytes_ = 0;
  std::atomic<bool> abandoned_{false};  // by a fork
  std::unique_ptr<std::atomic<uint64_t>[]> expected_bits_;
  alignas(64) std::atomic<uint64_t> sequence_{0};  // largest sequence number seen
  std::atomic<uint32_t> streams_{0};               // payloads coming in pieces

  std::mutex control_;  // opening, closing and draining
  PassSlot* current_ = nullptr;
  int64_t step_ns_ = 0;
  std::thread thread_;
  std::atomic<bool> threaded_{false};
};

}  // namespace tdump::io
