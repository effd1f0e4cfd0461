// The writer's side: from the queue to the passes.
#include <algorithm>

#include "io/capture_sink_impl.h"
#include "io/futex.h"

namespace tdump::io {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kShortestNap = 2 * kMs;
constexpr int64_t kLongestNap = 16 * kMs;
constexpr int64_t kDeviceNap = kMs;     // while a device copies
constexpr int64_t kLinger = 100 * kMs;  // napping before falling asleep

}  // namespace

void CaptureSinkImpl::Wake(Sleep deepest) {
  const uint32_t sleep = sleep_.load(std::memory_order_seq_cst);
  if (sleep == kAwake || sleep < deepest) return;
  if (sleep_.exchange(kAwake, std::memory_order_seq_cst) != kAwake) FutexWakeAll(&sleep_);
}

void CaptureSinkImpl::RunThread() {
  int64_t idle_since = 0, nap = kShortestNap;
  while (!stop_.load()) {
    bool worked, waits, device = false;
    {
      std::lock_guard lock(writing_);
      worked = Turn();
      waits = !waiting_.empty() || std::any_of(active_.begin(), active_.end(), [](auto* slot) {
        return PassSlots::IsClosing(*slot);
      });
      for (const CaptureEntry* entry : waiting_) device = device || entry->copy != nullptr;
    }
    const int64_t now = env_->MonotonicNs();
    if (worked) {
      idle_since = now;
      nap = kShortestNap;
      continue;
    }
    const bool naps = waits || now - idle_since < kLinger;
    if (!naps) {
      std::lock_guard lock(writing_);
      Flush(/*all=*/true);
    }
    sleep_.store(naps ? kNap : kAsleep, std::memory_order_seq_cst);
    if (queue_.empty() && !mail_waits_.load() && !stop_.load())
      FutexWait(&sleep_, naps ? kNap : kAsleep, !naps ? -1 : device ? kDeviceNap : nap);
    sleep_.store(kAwake, std::memory_order_seq_cst);
    nap = std::min(2 * nap, kLongestNap);
  }
}

bool CaptureSinkImpl::WriteNow() {
  std::unique_lock lock(writing_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  while (Turn()) {
  }
  Flush(/*all=*/true);
  return true;
}

bool CaptureSinkImpl::Turn() {
  try {
    if (broken_) {
      Break("");
      return false;
    }
    slots_.TakeOpened([this](PassSlot* slot) { active_.push_back(slot); });
    bool worked = TakeMail();
    worked = LookAgain() || worked;
    worked = TakeQueue() || worked;
    const size_t active = active_.size();
    FinishPasses();
    Flush(/*all=*/false);
    return worked || active_.size() != active;
  } catch (const std::exception& error) {
    Break(error.what());
    return false;
  }
}

// Out of memory: what is on its way is given up.
void CaptureSinkImpl::Break(const char* why) {
  stopped_ = true;
  if (!broken_) {
    broken_ = true;
    WriteNote({2, std::string("the writer stopped: ") + why});
  }
  in_hand_.store(false);
  room_turn_.fetch_add(1);
  FutexWakeAll(&room_turn_);
}

// A pass is finished with its last entry, not with the batch: of however many short passes that
// came together, few have their file open.
bool CaptureSinkImpl::TakeQueue() {
  in_hand_.store(true);
  urged_.store(false, std::memory_order_relaxed);
  CaptureEntry* entry = queue_.TakeAll();
  const bool any = entry != nullptr;
  // A pass that ended before the first entry of the next one was queued has its file closed before
  // that one's is opened.
  for (PassSlot* pass : active_) FinishPass(pass);
  PassSlot* run = nullptr;
  uint64_t handed = 0;
  while (entry != nullptr) {
    CaptureEntry* const next = entry->next;
    if (entry->kind == CaptureEntry::Kind::kPiece) {
      TakePiece(entry);
    } else if (!IsReady(entry)) {
      waiting_.push_back(entry);
      if (entry->stream == CaptureEntry::Stream::kPieces)
        RecordingOf(entry->pass)->BeginStream(*entry);
    } else {
      if (run != entry->pass) {
        CountOut(run, std::exchange(handed, 0));
        run = entry->pass;
      }
      Hand(entry);
      ++handed;
    }
    entry = next;
    Flush(/*all=*/false);
  }
  CountOut(run, handed);
  in_hand_.store(false);
  return any;
}

// What was set aside.
bool CaptureSinkImpl::LookAgain() {
  bool any = false;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    CaptureEntry* entry = waiting_[i];
    if (!IsReady(entry)) continue;
    waiting_[i--] = waiting_.back();
    waiting_.pop_back();
    PassSlot* const pass = entry->pass;
    Hand(entry);
    CountOut(pass, 1);
    any = true;
  }
  const auto is_back = [&](CaptureEntry* orphan) {
    if (!orphan->committed() || orphan->pieces_taken != orphan->pieces) return false;
    GiveBack(orphan);
    return true;
  };
  std::erase_if(orphans_, is_back);
  return any;
}

bool CaptureSinkImpl::IsReady(CaptureEntry* entry) {
  if (!entry->committed()) return false;
  if (entry->stream == CaptureEntry::Stream::kPieces) return entry->pieces_taken == entry->pieces;
  if (entry->copy == nullptr || entry->reason != SkipReason::kNone) return true;
  switch (entry->copy->Poll()) {
    case DeviceCopy::State::kPending:
      return false;
    case DeviceCopy::State::kReady:
      return true;
    case DeviceCopy::State::kFailed:
      entry->reason = SkipReason::kDeviceError;
      entry->detail = entry->copy->error();
      return true;
  }
  return true;
}

PassRecording* CaptureSinkImpl::RecordingOf(PassSlot* pass) {
  if (pass->recording == nullptr)
    pass->recording = std::make_unique<PassRecording>(&context_, pass->info);
  return pass->recording.get();
}

void CaptureSinkImpl::Hand(CaptureEntry* entry) {
  RecordingOf(entry->pass)->Add(entry, &done_);
  GiveBackDone();
}

void CaptureSinkImpl::TakePiece(CaptureEntry* piece) {
  CaptureEntry* head = piece->head;
  if (!head->orphaned) RecordingOf(head->pass)->AddPiece(*head, *piece);
  ++head->pieces_taken;
  GiveBack(piece);
}

void CaptureSinkImpl::CountOut(PassSlot* pass, uint64_t entries) {
  if (entries == 0) return;
  PassSlots::Leave(pass, entries);
  FinishPass(pass);
}

void CaptureSinkImpl::GiveBack(CaptureEntry* entry) {
  if (entry->copy != nullptr) entry->copy->Release();
  arena_.Give(reinterpret_cast<std::byte*>(entry), entry->room);
  room_turn_.fetch_add(1, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0) FutexWakeAll(&room_turn_);
}

void CaptureSinkImpl::GiveBackDone() {
  for (CaptureEntry* entry : done_) {
    if (entry->orphaned)
      orphans_.push_back(entry);
    else
      GiveBack(entry);
  }
  done_.clear();
}

}  // namespace tdump::io
