// The writer's side: from the queue to the passes.
#include "io/capture_writer.h"

#include <algorithm>

namespace tdump::io {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kShortestNap = 2 * kMs;
constexpr int64_t kLongestNap = 16 * kMs;
constexpr int64_t kDeviceNap = kMs;     // while a device copies
constexpr int64_t kLinger = 100 * kMs;  // napping before falling asleep

}  // namespace

CaptureWriter::CaptureWriter(CaptureState* state, std::string directory)
    : state_(*state),
      budget_(state_.env, directory, state_.options.disk_limit_bytes,
              state_.options.min_free_bytes) {
  context_.env = state_.env;
  context_.operators = state_.operators;
  context_.directory = std::move(directory);
  context_.job_hash = state_.manifest->header().job_hash;
  context_.budget = &budget_;
  context_.file_options = state_.options.files;
  context_.removed = [this](const RemovedSection& removed) {
    Check(state_.manifest->Append(removed));
  };
  context_.tell = [this](std::string_view topic, int level, const std::string& text) {
    Tell(topic, level, text);
  };
}

void CaptureWriter::Run() {
  int64_t idle_since = 0, nap = kShortestNap;
  while (!state_.end_thread.load()) {
    bool worked, waits, device = false;
    {
      std::lock_guard lock(writing_);
      worked = Turn();
      waits = !waiting_.empty() || std::any_of(active_.begin(), active_.end(), [](auto* slot) {
        return PassSlots::IsClosing(*slot);
      });
      for (const CaptureEntry* entry : waiting_) device = device || entry->copy != nullptr;
    }
    const int64_t now = state_.env->MonotonicNs();
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
    state_.sleep.store(naps ? CaptureState::kNap : CaptureState::kAsleep,
                       std::memory_order_seq_cst);
    if (state_.queue.empty() && !state_.mail_waits.load() && !state_.end_thread.load())
      FutexWait(&state_.sleep, naps ? CaptureState::kNap : CaptureState::kAsleep,
                !naps    ? -1
                : device ? kDeviceNap
                         : nap);
    state_.sleep.store(CaptureState::kAwake, std::memory_order_seq_cst);
    nap = std::min(2 * nap, kLongestNap);
  }
}

bool CaptureWriter::WriteNow() {
  std::unique_lock lock(writing_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  while (Turn()) {
  }
  Flush(/*all=*/true);
  return true;
}

bool CaptureWriter::AllDone() {
  std::unique_lock lock(writing_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (broken_) return true;
  state_.slots.TakeOpened([this](PassSlot* slot) { active_.push_back(slot); });
  return state_.queue.empty() && waiting_.empty() && active_.empty() && !state_.mail_waits.load();
}

bool CaptureWriter::Turn() {
  try {
    if (broken_) {
      Break("");
      NoteStepsLeftOut();
      return false;
    }
    state_.slots.TakeOpened([this](PassSlot* slot) { active_.push_back(slot); });
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
void CaptureWriter::Break(const char* why) {
  state_.stopped = true;
  if (!broken_) {
    broken_ = true;
    stopped_why_ = "the writer stopped";
    WriteNote({2, std::string("the writer stopped: ") + why});
  }
  state_.in_hand.store(false);
  state_.room_turn.fetch_add(1);
  FutexWakeAll(&state_.room_turn);
}

// A pass is finished with its last entry, not with the batch: of however many short passes that
// came together, few have their file open.
bool CaptureWriter::TakeQueue() {
  state_.in_hand.store(true);
  state_.urged.store(false, std::memory_order_relaxed);
  CaptureEntry* entry = state_.queue.TakeAll();
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
  state_.in_hand.store(false);
  return any;
}

// What was set aside.
bool CaptureWriter::LookAgain() {
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

bool CaptureWriter::IsReady(CaptureEntry* entry) {
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

PassRecording* CaptureWriter::RecordingOf(PassSlot* pass) {
  if (pass->recording == nullptr)
    pass->recording = std::make_unique<PassRecording>(&context_, pass->info);
  return pass->recording.get();
}

void CaptureWriter::Hand(CaptureEntry* entry) {
  RecordingOf(entry->pass)->Add(entry, &done_);
  GiveBackDone();
}

void CaptureWriter::TakePiece(CaptureEntry* piece) {
  CaptureEntry* head = piece->head;
  if (!head->orphaned) RecordingOf(head->pass)->AddPiece(*head, *piece);
  ++head->pieces_taken;
  GiveBack(piece);
}

void CaptureWriter::CountOut(PassSlot* pass, uint64_t entries) {
  if (entries == 0) return;
  PassSlots::Leave(pass, entries);
  FinishPass(pass);
}

void CaptureWriter::GiveBack(CaptureEntry* entry) {
  if (entry->copy != nullptr) entry->copy->Release();
  state_.arena.Give(reinterpret_cast<std::byte*>(entry), entry->room);
  state_.room_turn.fetch_add(1, std::memory_order_seq_cst);
  if (state_.waiters.load(std::memory_order_seq_cst) != 0) FutexWakeAll(&state_.room_turn);
}

void CaptureWriter::GiveBackDone() {
  for (CaptureEntry* entry : done_) {
    if (entry->orphaned)
      orphans_.push_back(entry);
    else
      GiveBack(entry);
  }
  done_.clear();
}

}  // namespace tdump::io
