// LateSink: the Sink of a process that has nothing on disk yet. Collectors get it when they are
// loaded; the real sink comes with activation. Before that it keeps only what is told once
// (expected operators, notes) and hands it on.
//
// Thread-safe. After Attach() a call costs one atomic load more than the sink itself. Detach() is
// for a forked child: it touches one word and nothing is ever forwarded again.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "core/fork_mutex.h"
#include "core/sink.h"

namespace tdump::launch {

class LateSink final : public Sink {
 public:
  // `sink` lives as long as the process. Called once.
  void Attach(Sink* sink) noexcept;
  void Detach() noexcept { sink_.store(nullptr, std::memory_order_release); }

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
                std::span<const std::byte> text) noexcept override;
  void expect(OperatorId op) noexcept override;
  void note(std::string_view text) noexcept override;

  bool has_notes() const noexcept;

 private:
  Sink* Target() const noexcept { return sink_.load(std::memory_order_acquire); }

  std::atomic<Sink*> sink_{nullptr};
  mutable ForkMutex mutex_;  // guards what waits
  std::set<OperatorId> expected_;
  std::set<std::string, std::less<>> notes_;
};

}  // namespace tdump::launch
