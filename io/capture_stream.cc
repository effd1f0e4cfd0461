// Payloads in pieces, and statistics in place of payloads.
#include <algorithm>
#include <array>

#include "io/capture_sink_impl.h"
#include "io/hash.h"
#include "io/value_summary.h"

namespace tdump::io {

void CaptureSinkImpl::stream(const Call& call, const Observation& observation, const Keep& keep,
                             uint64_t bytes, PieceSource* source) noexcept {
  if (refuses()) return;
  PassSlot* pass = Enter(call);
  if (pass == nullptr) return;
  RecordEntry from{call, observation, keep, bytes, SkipReason::kNone, "", nullptr, nullptr};
  if (bytes > max_slot_) {
    from.payload = 0;
    if (!TakeStream(pass)) return GiveUp(pass, from, bytes, source);
    StreamPieces(pass, from, bytes, source);
    streams_.fetch_sub(1);
    return;
  }
  // There may be room by now.
  if (CaptureEntry* entry = NewRecord(pass, from)) {
    Push(entry);
    const bool copied = source->CopyTo(0, {entry->payload, bytes});
    if (!copied) entry->reason = SkipReason::kCopyFailed;
    entry->is_committed.store(true, std::memory_order_release);
    return;
  }
  from.payload = 0;
  GiveUp(pass, from, bytes, source);
}

// The record's entry is pushed first and committed last; its pieces come in between, in order. It
// is made with room for the summary that stands for the payload when the limit is met on the way.
void CaptureSinkImpl::StreamPieces(PassSlot* pass, RecordEntry from, uint64_t bytes,
                                   PieceSource* source) {
  const Statistics no_statistics;
  const Hash128 no_hash{};
  from.statistics = &no_statistics;
  from.hash = &no_hash;
  CaptureEntry* head = NewMeta(pass, from);
  if (head == nullptr) return;
  auto* statistics = const_cast<Statistics*>(std::exchange(head->statistics, nullptr));
  auto* hash = const_cast<Hash128*>(std::exchange(head->hash, nullptr));
  head->stream = CaptureEntry::Stream::kPieces;
  head->bytes = bytes;
  Push(head);  // uncommitted, so neither the entry nor its pass goes away
  head->reason = PushPieces(head, source);
  if (head->reason == SkipReason::kMemoryLimit && AtLimitNow(*pass) == AtLimit::kStats &&
      Summarise(from.observation, bytes, source, hash, statistics)) {
    head->hash = hash;
    head->statistics = statistics;
  }
  head->is_committed.store(true, std::memory_order_release);
}

// On the calling thread, through one tile's worth of memory. False: the values cannot be read.
bool CaptureSinkImpl::Summarise(const Observation& observation, uint64_t bytes, PieceSource* source,
                                Hash128* hash, Statistics* statistics) {
  try {
    ValueSummary summary(observation.meta.dtype);
    std::array<std::byte, kHashTile> tile;
    for (uint64_t offset = 0; offset < bytes; offset += tile.size()) {
      const auto part = std::span(tile).first(std::min<uint64_t>(tile.size(), bytes - offset));
      if (!source->CopyTo(offset, part)) return false;
      summary.Update(part);
    }
    summary.Finish();
    *hash = summary.hash;
    *statistics = summary.statistics;
    return true;
  } catch (...) {  // out of memory
    return false;
  }
}

// A record without its payload, for want of room.
void CaptureSinkImpl::GiveUp(PassSlot* pass, RecordEntry from, uint64_t bytes,
                             PieceSource* source) {
  Statistics statistics;
  Hash128 hash;
  from.reason = SkipReason::kMemoryLimit;
  if (AtLimitNow(*pass) == AtLimit::kStats &&
      Summarise(from.observation, bytes, source, &hash, &statistics)) {
    from.statistics = &statistics;
    from.hash = &hash;
  }
  CaptureEntry* entry = NewMeta(pass, from);
  if (entry == nullptr) return;
  entry->is_committed.store(true, std::memory_order_relaxed);
  Push(entry);
}

SkipReason CaptureSinkImpl::PushPieces(CaptureEntry* head, PieceSource* source) {
  const uint64_t bytes = head->bytes;
  for (uint64_t offset = 0; offset < bytes;) {
    const uint64_t take = std::min(piece_bytes_, bytes - offset);
    const uint64_t size = PieceEntryBytes(take);
    std::byte* room = TakeRoom(head->pass, size, true);
    if (room == nullptr) return SkipReason::kMemoryLimit;
    CaptureEntry* piece = MakePieceEntry(head, offset, take, size, room);
    if (!source->CopyTo(offset, {piece->payload, take})) {
      state_.arena.Give(room, size);
      return SkipReason::kCopyFailed;
    }
    ++head->pieces;
    Push(piece);
    offset += take;
  }
  return SkipReason::kNone;
}

}  // namespace tdump::io
