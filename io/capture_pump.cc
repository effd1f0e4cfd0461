// From the queue to the files. Only one thread at a time is in here beyond Wake().
#include <fmt/format.h>

#include <algorithm>

#include "io/archive.h"
#include "io/capture_sink_impl.h"

namespace tdump::io {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGather{20};  // between the first item and the writing of what came with it
constexpr uint64_t kGatherBytes = 1 << 20;  // or until so much waits
constexpr uint64_t kGiveBackBytes = 1 << 20;
constexpr int64_t kFlushNs = 200'000'000;
constexpr size_t kGiveBackItems = 64;
constexpr size_t kSectionsPerFrame = 256;
constexpr int kGiveUpAfter = 3;  // failed passes in a row

}  // namespace

// `urgent`: write now. Otherwise the thread gathers a little first, so
// that it is woken once for many items.
void CaptureSinkImpl::Wake(bool urgent) {
  if (!threaded_) return;
  urgent = urgent || queued_bytes_ >= std::min(kGatherBytes, arena_.capacity() / 4);
  if (sleeping_) {
    sleeping_ = false;
    urgent_ = urgent;
    work_.notify_one();
  } else if (urgent && !urgent_) {
    urgent_ = true;
    work_.notify_one();
  }
}

void CaptureSinkImpl::RunThread() {
  Lock lock(mutex_);
  while (!stop_) {
    if (queue_.empty() && notes_.empty() && !urgent_) {
      sleeping_ = true;
      const bool waits_for_slots = passes_.size() > (current_ != nullptr ? 1 : 0);
      if (waits_for_slots)
        work_.wait_for(lock, kGather);
      else
        work_.wait(lock, [this] { return stop_ || !sleeping_; });
      sleeping_ = false;
    }
    if (!urgent_ && !stop_) work_.wait_for(lock, kGather, [this] { return stop_ || urgent_; });
    Pump(&lock);
  }
}

void CaptureSinkImpl::Pump(Lock* lock) {
  if (pumping_) {
    room_.wait_for(*lock, kGather);
    return;
  }
  pumping_ = true;
  try {
    do {
      urgent_ = false;
      PumpOnce(lock);
      while (FinishOnePass(lock)) {
      }
    } while (!queue_.empty());
    FlushAll(lock);
  } catch (const std::exception& error) {  // out of memory
    if (!lock->owns_lock()) lock->lock();
    stopped_ = true;
    queue_.clear();
    batch_.clear();
    done_.clear();
    notes_.push_back({2, std::string("the writer stopped: ") + error.what()});
  }
  pumping_ = false;
  room_.notify_all();
}

void CaptureSinkImpl::PumpOnce(Lock* lock) {
  batch_.clear();
  batch_.swap(queue_);
  queued_bytes_ = 0;
  std::vector<OperatorId> expected = std::exchange(expected_, {});
  std::vector<Note> notes = std::exchange(notes_, {});
  lock->unlock();
  WriteExpected(expected);
  for (const Note& note : notes) WriteNote(note);
  WriteBatch(lock);
  lock->lock();
  GiveBackDone();
  batch_.clear();
}

// Called and left without the lock. A pass is finished with its last item, not with the batch: of
// however many short passes that came together, few have their file open.
void CaptureSinkImpl::WriteBatch(Lock* lock) {
  uint64_t handed = 0;
  for (size_t i = 0; i < batch_.size(); ++i) {
    CaptureItem* item = batch_[i];
    CapturePass* pass = item->pass;
    done_bytes_ += item->bytes;
    pass->recording.Add(item, &done_);
    ++handed;
    const bool last_of_run = i + 1 == batch_.size() || batch_[i + 1]->pass != pass;
    const bool give_back = done_bytes_ >= kGiveBackBytes || done_.size() >= kGiveBackItems;
    if (!last_of_run && !give_back) continue;
    lock->lock();
    pass->outstanding -= std::exchange(handed, 0);
    if (pass->closing && pass->outstanding == 0) FinishOnePass(lock);
    if (give_back) {
      GiveBackDone();
      if (env_->MonotonicNs() - flushed_ns_ >= kFlushNs) FlushAll(lock);
    }
    lock->unlock();
  }
}

void CaptureSinkImpl::GiveBackDone() {
  for (CaptureItem* item : done_) Recycle(item);
  done_.clear();
  done_bytes_ = 0;
  if (waiters_ > 0) room_.notify_all();
}

void CaptureSinkImpl::FlushAll(Lock* lock) {
  std::vector<CapturePass*> passes;
  for (const auto& pass : passes_) passes.push_back(pass.get());
  lock->unlock();
  for (CapturePass* pass : passes) pass->recording.Flush();
  flushed_ns_ = env_->MonotonicNs();
  lock->lock();
}

// Slots of a pass that were waited for long enough: their records are written as meta; a later
// commit only gives the room back.
std::vector<CaptureItem*> CaptureSinkImpl::OrphanSlots(CapturePass* pass) {
  std::vector<CaptureItem*> orphans;
  for (CaptureItem *item = pass->slots, *next = nullptr; item != nullptr; item = next) {
    next = item->next;
    if (!item->filled.load(std::memory_order_acquire)) continue;
    Unlink(item);
    item->orphaned = true;
    --pass->outstanding;
    orphans.push_back(item);
  }
  return orphans;
}

// True: one pass was finished, there may be another.
bool CaptureSinkImpl::FinishOnePass(Lock* lock) {
  for (size_t i = 0; i < passes_.size(); ++i) {
    CapturePass* pass = passes_[i].get();
    if (!pass->closing) continue;
    std::vector<CaptureItem*> orphans;
    if (pass->outstanding != 0 && env_->MonotonicNs() >= pass->deadline_ns)
      orphans = OrphanSlots(pass);
    if (pass->outstanding != 0) continue;
    pass->finished = true;
    pass->lost[static_cast<size_t>(SkipReason::kPassEnded)] += std::exchange(late_, 0);
    lock->unlock();
    FinishPass(pass, orphans);
    lock->lock();
    GiveBackDone();
    passes_.erase(std::find_if(passes_.begin(), passes_.end(),
                               [&](const auto& p) { return p.get() == pass; }));
    return true;
  }
  return false;
}

void CaptureSinkImpl::FinishPass(CapturePass* pass, const std::vector<CaptureItem*>& orphans) {
  std::vector<CaptureItem*> written;
  for (CaptureItem* item : orphans) {
    item->SetReason(SkipReason::kPassEnded, "");
    pass->recording.Add(item, &written);
  }
  for (CaptureItem* item : written) {
    if (!item->orphaned) done_.push_back(item);
  }
  const PassDoneSection done = pass->recording.Finish(pass->blocked_ns, pass->lost, &done_);
  Check(manifest_->Append(done, pass->recording.place()));
  if (options_.files.durability == Durability::kPass) Check(manifest_->Sync());
  WriteCounts(pass->recording.touched());
  if (pass->lost_calls != 0) {
    WriteNote({1, fmt::format("pass {}: {} calls were not written (memory limit)", pass->ordinal,
                              pass->lost_calls)});
  }
  failed_in_a_row_ = pass->recording.failed() ? failed_in_a_row_ + 1 : 0;
  if (failed_in_a_row_ < kGiveUpAfter) return;
  stopped_ = true;
  Tell("gave up", 2,
       fmt::format("{} passes in a row could not be written; no more are tried", kGiveUpAfter));
}

void CaptureSinkImpl::WriteCounts(const std::vector<OperatorId>& operators) {
  std::string body;
  for (size_t i = 0; i < operators.size(); ++i) {
    const OperatorInfo& info = operators_->Get(operators[i]);
    const OperatorTally& tally = context_.Tally(operators[i]);
    AppendSection(OperatorCountSection{info.root, info.path, info.op, tally.calls, tally.records,
                                       tally.not_kept},
                  &body);
    if ((i + 1) % kSectionsPerFrame != 0 && i + 1 != operators.size()) continue;
    Check(manifest_->Append(FrameKind::kExpect, body));
    body.clear();
  }
}

void CaptureSinkImpl::WriteExpected(const std::vector<OperatorId>& operators) {
  std::string body;
  for (size_t i = 0; i < operators.size(); ++i) {
    const OperatorInfo& info = operators_->Get(operators[i]);
    AppendSection(
        ExpectSection{static_cast<uint8_t>(info.kind), info.root, info.path, info.op, info.cls},
        &body);
    if ((i + 1) % kSectionsPerFrame != 0 && i + 1 != operators.size()) continue;
    Check(manifest_->Append(FrameKind::kExpect, body));
    body.clear();
  }
}

void CaptureSinkImpl::WriteNote(const Note& note) {
  Check(manifest_->Append(NoteSection{static_cast<uint8_t>(note.level),
                                      static_cast<uint64_t>(env_->WallNs()), note.text}));
}

void CaptureSinkImpl::Check(const Status& status) {
  if (!status.ok())
    Report("manifest",
           status.message() + "; the coverage of this rank is incomplete, the job goes on");
}

bool CaptureSinkImpl::Report(std::string_view topic, const std::string& text) {
  if (!told_.emplace(topic).second) return false;
  if (options_.report) options_.report(text);
  return true;
}

void CaptureSinkImpl::Tell(std::string_view topic, int level, const std::string& text) {
  if (topic == kDiskLimitTopic) limit_reached_ = true;
  if (Report(topic, text)) WriteNote({level, text});
}

bool CaptureSinkImpl::AllDone() const {
  return queue_.empty() && passes_.empty() && expected_.empty() && notes_.empty() && !pumping_;
}

}  // namespace tdump::io
