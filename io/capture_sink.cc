#include <cerrno>
#include <csignal>

#include "io/capture_sink_impl.h"

namespace tdump::io {
namespace {

constexpr size_t kMaxNotes = 1000;
constexpr size_t kMaxOperators = 1 << 22;
constexpr int64_t kWaitForSlotsNs = 10'000'000'000;

}  // namespace

std::unique_ptr<CaptureSink> CaptureSink::Create(Env* env, const OperatorTable* operators,
                                                 ManifestWriter* manifest, std::string directory,
                                                 CaptureSinkOptions options) {
  return std::make_unique<CaptureSinkImpl>(env, operators, manifest, std::move(directory),
                                           std::move(options));
}

CaptureSinkImpl::CaptureSinkImpl(Env* env, const OperatorTable* operators, ManifestWriter* manifest,
                                 std::string directory, CaptureSinkOptions options)
    : env_(env),
      operators_(operators),
      manifest_(manifest),
      options_(std::move(options)),
      max_items_(std::max<uint64_t>(1024, options_.arena_bytes / 2048)),
      expected_bits_(new std::atomic<uint64_t>[kMaxOperators / 64]()),
      arena_(options_.arena_bytes),
      budget_(env, directory, options_.disk_limit_bytes, options_.min_free_bytes) {
  context_.env = env;
  context_.operators = operators;
  context_.directory = std::move(directory);
  context_.job_hash = manifest->header().job_hash;
  context_.budget = &budget_;
  context_.file_options = options_.files;
  context_.removed = [this](const RemovedSection& removed) { Check(manifest_->Append(removed)); };
  context_.tell = [this](std::string_view topic, int level, const std::string& text) {
    Tell(topic, level, text);
  };
}

CaptureSinkImpl::~CaptureSinkImpl() {
  (void)Drain(10'000);
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void CaptureSinkImpl::operator delete(CaptureSinkImpl* sink, std::destroying_delete_t) {
  if (sink->off()) return;
  sink->~CaptureSinkImpl();
  ::operator delete(sink);
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

CapturePass* CaptureSinkImpl::FindPass(uint64_t ordinal) {
  if (current_ != nullptr && current_->ordinal == ordinal) return current_;
  for (const auto& pass : passes_) {
    if (pass->ordinal == ordinal && !pass->finished) return pass.get();
  }
  return nullptr;
}

// nullptr: no such pass, or the record is lost (and counted). Room for
// `bytes` is in the item when there was any.
CaptureItem* CaptureSinkImpl::NewRecord(const Call& call, const Observation& observation,
                                        const Keep& keep, uint64_t bytes, SkipReason* reason) {
  CaptureItem* item = nullptr;
  {
    Lock lock(mutex_);
    CapturePass* pass = FindPass(call.pass);
    if (pass == nullptr) {
      ++late_;
      return nullptr;
    }
    const uint64_t id = ++pass->records;
    item = TakeItem(&lock, pass);
    if (item == nullptr) {
      ++pass->lost[static_cast<size_t>(SkipReason::kMemoryLimit)];
      return nullptr;
    }
    item->kind = CaptureItem::Kind::kRecord;
    item->record.record = id;
    if (bytes != 0) {
      item->room = TakeRoom(&lock, pass, bytes);
      if (item->room.data == nullptr)
        *reason = SkipReason::kMemoryLimit;
      else
        item->bytes = bytes;
    }
    if (item->room.data != nullptr) Link(item);
  }
  try {
    item->SetRecord(call, observation, keep, Seen(call));
  } catch (const std::bad_alloc&) {
    Lose(item, item->room.data != nullptr);
    return nullptr;
  }
  return item;
}

Slot CaptureSinkImpl::reserve(const Call& call, const Observation& observation, const Keep& keep,
                              uint64_t bytes) noexcept {
  if (off() || stopped()) return {};
  try {
    if ((keep.parts & ~kPartMeta) == 0) bytes = 0;
    SkipReason reason = SkipReason::kNone;
    CaptureItem* item = NewRecord(call, observation, keep, bytes, &reason);
    if (item == nullptr) return {};
    Slot slot{item->room.data, bytes, item->record.record, item};
    if (slot.data != nullptr) {
      item->filled.store(true, std::memory_order_release);
      return slot;
    }
    if (reason != SkipReason::kNone) item->SetReason(reason, "");
    Lock lock(mutex_);
    Push(&lock, item);
    return {nullptr, 0, slot.record, nullptr};
  } catch (...) {  // out of memory
    return {};
  }
}

void CaptureSinkImpl::Commit(const Slot& slot, SkipReason reason) {
  auto* item = static_cast<CaptureItem*>(slot.impl);
  if (off() || item == nullptr) return;
  Lock lock(mutex_);
  if (item->orphaned) {
    Recycle(item);
    return;
  }
  Unlink(item);
  if (reason != SkipReason::kNone) {
    arena_.Give(item->room);
    item->room = {};
    item->bytes = 0;
    item->SetReason(reason, "");
  }
  Push(&lock, item);
}

void CaptureSinkImpl::commit(const Slot& slot) noexcept { Commit(slot, SkipReason::kNone); }

void CaptureSinkImpl::abandon(const Slot& slot, SkipReason reason) noexcept {
  Commit(slot, reason == SkipReason::kNone ? SkipReason::kCopyFailed : reason);
}

uint64_t CaptureSinkImpl::max_slot() const noexcept { return ~uint64_t{0}; }

void CaptureSinkImpl::stream(const Call& call, const Observation& observation, const Keep& keep,
                             uint64_t bytes, PieceSource* source) noexcept {
  const Slot slot = reserve(call, observation, keep, bytes);
  if (slot.data == nullptr) return;
  if (source->CopyTo(0, {slot.data, slot.bytes}))
    commit(slot);
  else
    abandon(slot, SkipReason::kCopyFailed);
}

void CaptureSinkImpl::when_ready(const Call& call, const Observation& observation, const Keep& keep,
                                 uint64_t, DeviceCopy* copy) noexcept {
  skip(call, observation, keep, SkipReason::kNotOnCpu, "");
  copy->Release();
}

void CaptureSinkImpl::refer(const Call& call, const Observation& observation, const Keep& keep,
                            uint64_t earlier) noexcept {
  if (off() || stopped()) return;
  try {
    SkipReason reason = SkipReason::kNone;
    CaptureItem* item = NewRecord(call, observation, keep, 0, &reason);
    if (item == nullptr) return;
    if (earlier != 0 && earlier < item->record.record)
      item->earlier = earlier;
    else
      item->SetReason(SkipReason::kCopyFailed, "refers to no earlier record");
    Lock lock(mutex_);
    Push(&lock, item);
  } catch (...) {
  }
}

void CaptureSinkImpl::skip(const Call& call, const Observation& observation, const Keep& keep,
                           SkipReason reason, std::string_view detail) noexcept {
  if (off() || stopped()) return;
  try {
    SkipReason none = SkipReason::kNone;
    CaptureItem* item = NewRecord(call, observation, keep, 0, &none);
    if (item == nullptr) return;
    item->SetReason(reason, detail);
    Lock lock(mutex_);
    Push(&lock, item);
  } catch (...) {
  }
}

void CaptureSinkImpl::end_call(const Call& call, std::span<const std::byte> arguments,
                               std::string_view text) noexcept {
  if (off() || stopped()) return;
  try {
    (void)Seen(call);
    CaptureItem* item = nullptr;
    {
      Lock lock(mutex_);
      CapturePass* pass = FindPass(call.pass);
      if (pass == nullptr) return;
      item = TakeItem(&lock, pass);
      if (item == nullptr) {
        ++pass->lost_calls;
        return;
      }
    }
    item->kind = CaptureItem::Kind::kCall;
    try {
      item->call = call;
      item->arguments = ArgumentList::Decode(arguments);
      item->text.assign(text.substr(0, 1024));
    } catch (const std::bad_alloc&) {
      return Lose(item, false);
    }
    Lock lock(mutex_);
    Push(&lock, item);
  } catch (...) {
  }
}

void CaptureSinkImpl::expect(OperatorId op) noexcept {
  if (off() || op >= kMaxOperators) return;
  std::atomic<uint64_t>& word = expected_bits_[op / 64];
  const uint64_t bit = uint64_t{1} << (op % 64);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  try {
    std::lock_guard lock(mutex_);
    expected_.push_back(op);
  } catch (...) {
  }
}

void CaptureSinkImpl::note(std::string_view text) noexcept {
  if (off()) return;
  try {
    Lock lock(mutex_);
    if (noted_.size() > kMaxNotes || noted_.contains(text)) return;
    const bool full = noted_.size() == kMaxNotes;
    noted_.emplace(text);
    notes_.push_back({3, full ? "more than 1000 different notes; further ones are left out"
                              : std::string(text)});
    Wake(false);
    if (!threaded_) Pump(&lock);  // no pass was opened yet: a killed process should have said it
  } catch (...) {
  }
}

void CaptureSinkImpl::Push(Lock* lock, CaptureItem* item) {
  queue_.push_back(item);
  queued_bytes_ += item->bytes + 256;
  Wake(false);
  lock->unlock();
}

bool CaptureSinkImpl::StartThread() {
  if (threaded_ || !options_.thread) return threaded_;
  // The job's signals go to the job's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { RunThread(); });
    pthread_setname_np(thread_.native_handle(), "tdump-writer");
    threaded_ = true;
  } catch (const std::exception& error) {
    notes_.push_back(
        {1, std::string("no writer thread, so passes are written at their end: ") + error.what()});
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return threaded_;
}

void CaptureSinkImpl::open_pass(const PassInfo& info) noexcept {
  if (off()) return;
  try {
    Lock lock(mutex_);
    ClosePassLocked(&lock);
    if (limit_reached_) stopped_ = true;
    if (stopped()) return;
    StartThread();
    passes_.push_back(std::make_unique<CapturePass>(&context_, info));
    current_ = passes_.back().get();
  } catch (...) {
  }
}

void CaptureSinkImpl::close_pass() noexcept {
  if (off()) return;
  try {
    Lock lock(mutex_);
    ClosePassLocked(&lock);
  } catch (...) {
  }
}

void CaptureSinkImpl::ClosePassLocked(Lock* lock) {
  if (current_ != nullptr) {
    current_->closing = true;
    current_->deadline_ns = env_->MonotonicNs() + kWaitForSlotsNs;
    current_ = nullptr;
  }
  if (threaded_)
    Wake(true);
  else
    Pump(lock);
}

bool CaptureSinkImpl::Drain(int timeout_ms) noexcept {
  if (off()) return true;
  try {
    const int64_t deadline = env_->MonotonicNs() + int64_t{timeout_ms} * 1'000'000;
    Lock lock(mutex_);
    ClosePassLocked(&lock);
    while (!AllDone() && env_->MonotonicNs() < deadline) {
      if (threaded_)
        Wake(true);
      else
        Pump(&lock);
      if (!AllDone()) room_.wait_for(lock, std::chrono::milliseconds(5));
    }
    if (!AllDone()) return false;
    lock.unlock();
    if (context_.files == nullptr) return true;
    if (Status closed = context_.files->Close(); !closed.ok())
      Tell(kDiskErrorTopic, 2, closed.message());
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace tdump::io
