#include "launch/runtime/late_sink.h"

namespace tdump::launch {

void LateSink::Attach(Sink* sink) noexcept {
  std::lock_guard lock(mutex_);
  for (OperatorId op : expected_) sink->expect(op);
  for (const std::string& text : notes_) sink->note(text);
  expected_.clear();
  notes_.clear();
  sink_.store(sink, std::memory_order_release);
}

Slot LateSink::reserve(const Call& call, const Observation& observation, const Keep& keep,
                       uint64_t bytes) noexcept {
  Sink* sink = Target();
  return sink != nullptr ? sink->reserve(call, observation, keep, bytes) : Slot{};
}

void LateSink::commit(const Slot& slot) noexcept {
  if (Sink* sink = Target()) sink->commit(slot);
}

void LateSink::abandon(const Slot& slot, SkipReason reason) noexcept {
  if (Sink* sink = Target()) sink->abandon(slot, reason);
}

uint64_t LateSink::max_slot() const noexcept {
  const Sink* sink = Target();
  return sink != nullptr ? sink->max_slot() : 0;
}

void LateSink::stream(const Call& call, const Observation& observation, const Keep& keep,
                      uint64_t bytes, PieceSource* source) noexcept {
  if (Sink* sink = Target()) sink->stream(call, observation, keep, bytes, source);
}

void LateSink::when_ready(const Call& call, const Observation& observation, const Keep& keep,
                          uint64_t bytes, DeviceCopy* copy) noexcept {
  if (Sink* sink = Target())
    sink->when_ready(call, observation, keep, bytes, copy);
  else
    copy->Release();
}

void LateSink::refer(const Call& call, const Observation& observation, const Keep& keep,
                     uint64_t earlier) noexcept {
  if (Sink* sink = Target()) sink->refer(call, observation, keep, earlier);
}

void LateSink::skip(const Call& call, const Observation& observation, const Keep& keep,
                    SkipReason reason, std::string_view detail) noexcept {
  if (Sink* sink = Target()) sink->skip(call, observation, keep, reason, detail);
}

void LateSink::end_call(const Call& call, std::span<const std::byte> arguments,
                        std::span<const std::byte> text) noexcept {
  if (Sink* sink = Target()) sink->end_call(call, arguments, text);
}

// Asking again under the lock: Attach() may have emptied the lists in between.
void LateSink::expect(OperatorId op) noexcept {
  Sink* sink = Target();
  if (sink == nullptr) {
    std::lock_guard lock(mutex_);
    sink = Target();
    if (sink == nullptr) expected_.insert(op);
  }
  if (sink != nullptr) sink->expect(op);
}

void LateSink::note(std::string_view text) noexcept {
  Sink* sink = Target();
  if (sink == nullptr) {
    std::lock_guard lock(mutex_);
    sink = Target();
    if (sink == nullptr) notes_.emplace(text);
  }
  if (sink != nullptr) sink->note(text);
}

bool LateSink::has_notes() const noexcept {
  std::lock_guard lock(mutex_);
  return !notes_.empty();
}

}  // namespace tdump::launch
