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

Slot LateSink::reserve(const Call& call, const Observation& observation, Parts parts,
                       uint64_t bytes) noexcept {
  Sink* sink = Target();
  return sink != nullptr ? sink->reserve(call, observation, parts, bytes) : Slot{};
}

void LateSink::commit(const Slot& slot) noexcept {
  if (Sink* sink = Target()) sink->commit(slot);
}

void LateSink::abandon(const Slot& slot, SkipReason reason) noexcept {
  if (Sink* sink = Target()) sink->abandon(slot, reason);
}

void LateSink::commit_when(const Slot& slot, DeviceEvent* event) noexcept {
  if (Sink* sink = Target()) sink->commit_when(slot, event);
}

void LateSink::refer(const Call& call, const Observation& observation, Parts parts,
                     uint64_t earlier) noexcept {
  if (Sink* sink = Target()) sink->refer(call, observation, parts, earlier);
}

void LateSink::skip(const Call& call, const Observation& observation, Parts parts,
                    SkipReason reason, std::string_view detail) noexcept {
  if (Sink* sink = Target()) sink->skip(call, observation, parts, reason, detail);
}

void LateSink::end_call(const Call& call, std::span<const ArgumentMeta> arguments) noexcept {
  if (Sink* sink = Target()) sink->end_call(call, arguments);
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
