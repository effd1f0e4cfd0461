// The collectors' side. What runs per record is here and in io/arena.cc.
#include <algorithm>

#include "io/capture_sink_impl.h"

namespace tdump::io {
namespace {

constexpr size_t kMaxNotes = 1000;
constexpr size_t kMaxOperators = 1 << 22;
constexpr uint64_t kMostOfAPiece = 4 << 20;

}  // namespace

std::unique_ptr<CaptureSink> CaptureSink::Create(Env* env, const OperatorTable* operators,
                                                 ManifestWriter* manifest, std::string directory,
                                                 CaptureSinkOptions options) {
  return std::make_unique<CaptureSinkImpl>(env, operators, manifest, std::move(directory),
                                           std::move(options));
}

CaptureSinkImpl::CaptureSinkImpl(Env* env, const OperatorTable* operators, ManifestWriter* manifest,
                                 std::string directory, CaptureSinkOptions options)
    : state_(env, operators, manifest, std::move(options)),
      writer_(&state_, std::move(directory)),
      expected_bits_(new std::atomic<uint64_t>[kMaxOperators / 64]()) {
  max_slot_ = state_.arena.capacity() / 4;
  // At least one tile of the hash; several pieces are on their way at a time.
  piece_bytes_ =
      std::clamp<uint64_t>(max_slot_ / 4 / kHashTile, 1, kMostOfAPiece / kHashTile) * kHashTile;
}

CaptureSinkImpl::~CaptureSinkImpl() {
  (void)Drain(10'000);
  state_.end_thread.store(true);
  state_.Wake(CaptureState::kNap);
  if (thread_.joinable()) thread_.join();
}

void CaptureSinkImpl::operator delete(CaptureSinkImpl* sink, std::destroying_delete_t) {
  if (sink->off()) return;
  sink->~CaptureSinkImpl();
  ::operator delete (sink, std::align_val_t{alignof(CaptureSinkImpl)});
}

// Largest sequence number any call has shown so far: orders what was
// seen without a number of its own.
uint64_t CaptureSinkImpl::Seen(const Call& call) {
  const uint64_t now = std::max(call.begin, call.end);
  uint64_t seen = sequence_.load(std::memory_order_relaxed);
  while (seen < now && !sequence_.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  return std::max(seen, now);
}

PassSlot* CaptureSinkImpl::Enter(const Call& call) {
  PassSlot* pass = state_.slots.Enter(call.pass);
  if (pass != nullptr) {
    if (call.phase == Phase::kBackward && !pass->backward.load(std::memory_order_relaxed))
      pass->backward.store(true, std::memory_order_relaxed);
    return pass;
  }
  state_.late.fetch_add(1, std::memory_order_relaxed);
  state_.losses.Add(call.op);
  return nullptr;
}

// Not even its metadata could be kept.
void CaptureSinkImpl::Lose(PassSlot* pass, const Call& call, SkipReason reason) {
  pass->lost[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  state_.losses.Add(call.op);
  PassSlots::Leave(pass);
}

void CaptureSinkImpl::Push(CaptureEntry* entry) {
  if (state_.queue.Push(entry)) state_.Wake(CaptureState::kAsleep);
}

// A record with room for `from.payload` bytes, not pushed yet. nullptr: there is none.
CaptureEntry* CaptureSinkImpl::NewRecord(PassSlot* pass, const RecordEntry& from) {
  const uint64_t bytes = EntryBytes(from);
  std::byte* room = TakeRoom(pass, bytes, from.payload != 0);
  if (room == nullptr) return nullptr;
  CaptureEntry* entry = MakeEntry(from, bytes, room);
  entry->pass = pass;
  entry->seen = Seen(from.call);
  entry->record = pass->records.fetch_add(1, std::memory_order_relaxed) + 1;
  return entry;
}

// Its metadata alone; where that was not asked for, `reason` says why. nullptr: lost, and counted.
CaptureEntry* CaptureSinkImpl::NewMeta(PassSlot* pass, RecordEntry from) {
  from.payload = 0;
  CaptureEntry* entry = NewRecord(pass, from);
  if (entry == nullptr) Lose(pass, from.call, SkipReason::kMemoryLimit);
  return entry;
}

Slot CaptureSinkImpl::reserve(const Call& call, const Observation& observation, const Keep& keep,
                              uint64_t bytes) noexcept {
  if (refuses()) return {};
  if ((keep.parts & ~kPartMeta) == 0) bytes = 0;
  if (bytes > max_slot_) return {.in_pieces = true};
  PassSlot* pass = Enter(call);
  if (pass == nullptr) return {};
  RecordEntry from{call, observation, keep, bytes, SkipReason::kNone, "", nullptr, nullptr};
  CaptureEntry* entry = bytes == 0 ? nullptr : NewRecord(pass, from);
  if (entry == nullptr && bytes != 0) {
    if (AtLimitNow(*pass) == AtLimit::kStats) {
      PassSlots::Leave(pass);
      return {.in_pieces = true};
    }
    from.reason = SkipReason::kMemoryLimit;
  }
  if (entry == nullptr) entry = NewMeta(pass, from);
  if (entry == nullptr) return {};
  const Slot slot{entry->bytes == 0 ? nullptr : entry->payload, entry->bytes, entry->record,
                  entry->bytes == 0 ? nullptr : entry};
  if (slot.data == nullptr) entry->is_committed.store(true, std::memory_order_relaxed);
  Push(entry);
  return slot;
}

void CaptureSinkImpl::commit(const Slot& slot) noexcept {
  if (off() || slot.impl == nullptr) return;
  static_cast<CaptureEntry*>(slot.impl)->is_committed.store(true, std::memory_order_release);
}

void CaptureSinkImpl::abandon(const Slot& slot, SkipReason reason) noexcept {
  if (off() || slot.impl == nullptr) return;
  static_cast<CaptureEntry*>(slot.impl)->reason =
      reason == SkipReason::kNone ? SkipReason::kCopyFailed : reason;
  commit(slot);
}

void CaptureSinkImpl::when_ready(const Call& call, const Observation& observation, const Keep& keep,
                                 uint64_t bytes, DeviceCopy* copy) noexcept {
  PassSlot* pass = refuses() ? nullptr : Enter(call);
  CaptureEntry* entry =
      pass == nullptr
          ? nullptr
          : NewMeta(pass, {call, observation, keep, 0, SkipReason::kNone, "", nullptr, nullptr});
  if (entry == nullptr) return copy->Release();
  entry->copy = copy;
  entry->bytes = bytes;
  entry->is_committed.store(true, std::memory_order_relaxed);
  Push(entry);
}

void CaptureSinkImpl::refer(const Call& call, const Observation& observation, const Keep& keep,
                            uint64_t earlier) noexcept {
  if (refuses()) return;
  PassSlot* pass = Enter(call);
  if (pass == nullptr) return;
  const bool valid = earlier != 0 && earlier <= pass->records.load(std::memory_order_relaxed);
  CaptureEntry* entry = NewMeta(
      pass, {call, observation, keep, 0, valid ? SkipReason::kNone : SkipReason::kCopyFailed,
             valid ? "" : "refers to no earlier record", nullptr, nullptr});
  if (entry == nullptr) return;
  if (valid) entry->earlier = earlier;
  entry->is_committed.store(true, std::memory_order_relaxed);
  Push(entry);
}

void CaptureSinkImpl::skip(const Call& call, const Observation& observation, const Keep& keep,
                           SkipReason reason, std::string_view detail) noexcept {
  if (refuses()) return;
  PassSlot* pass = Enter(call);
  if (pass == nullptr) return;
  CaptureEntry* entry =
      NewMeta(pass, {call, observation, keep, 0, reason, detail, nullptr, nullptr});
  if (entry == nullptr) return;
  entry->is_committed.store(true, std::memory_order_relaxed);
  Push(entry);
}

void CaptureSinkImpl::end_call(const Call& call, std::span<const std::byte> arguments,
                               std::span<const std::byte> text) noexcept {
  if (refuses()) return;
  (void)Seen(call);
  PassSlot* pass = state_.slots.Enter(call.pass);
  if (pass == nullptr) return;
  const uint64_t bytes = CallEntryBytes(arguments, text);
  std::byte* room = TakeRoom(pass, bytes, false);
  if (room == nullptr) {
    pass->lost_calls.fetch_add(1, std::memory_order_relaxed);
    state_.lost_calls.Add(call.op);
    return PassSlots::Leave(pass);
  }
  CaptureEntry* entry = MakeCallEntry(call, arguments, text, bytes, room);
  entry->pass = pass;
  Push(entry);
}

void CaptureSinkImpl::expect(OperatorId op) noexcept {
  if (off() || op >= kMaxOperators) return;
  std::atomic<uint64_t>& word = expected_bits_[op / 64];
  const uint64_t bit = uint64_t{1} << (op % 64);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  try {
    std::lock_guard lock(state_.mail);
    state_.expected.push_back(op);
    state_.mail_waits.store(true, std::memory_order_release);
  } catch (...) {
  }
}

void CaptureSinkImpl::note(std::string_view text) noexcept {
  if (off()) return;
  try {
    {
      std::lock_guard lock(state_.mail);
      std::set<std::string, std::less<>>& noted = state_.noted;
      if (noted.size() > kMaxNotes || noted.contains(text)) return;
      const bool full = noted.size() == kMaxNotes;
      noted.emplace(text);
      state_.notes.push_back({3, full ? "more than 1000 different notes; further ones are left out"
                                      : std::string(text)});
      state_.mail_waits.store(true, std::memory_order_release);
    }
    if (threaded_)
      state_.Wake(CaptureState::kAsleep);
    else
      writer_.WriteNow();  // no pass was opened yet: a killed process should have said it
  } catch (...) {
  }
}

}  // namespace tdump::io
