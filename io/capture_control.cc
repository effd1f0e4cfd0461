// The coordinator's side: opening and closing passes, the writer thread, draining.
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "io/capture_sink_impl.h"

namespace tdump::io {
namespace {

constexpr int64_t kWaitForWriterNs = 60'000'000'000;
constexpr std::chrono::milliseconds kLook{5};

}  // namespace

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
    std::lock_guard lock(mail_);
    notes_.push_back(
        {1, std::string("no writer thread, so passes are written at their end: ") + error.what()});
    mail_waits_.store(true, std::memory_order_release);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return threaded_;
}

void CaptureSinkImpl::open_pass(const PassInfo& info) noexcept {
  if (off()) return;
  try {
    std::lock_guard lock(control_);
    CloseOpenPass();
    if (limit_reached_) stopped_ = true;
    if (stopped()) return;
    arena_.Map();
    StartThread();
    const int64_t now = env_->MonotonicNs();
    current_ = slots_.Open(info, now, step_ns_);
    if (current_ != nullptr) return;
    // A writer that is so many passes behind is waited for, as one that is behind with the arena.
    while ((current_ = slots_.Open(info, env_->MonotonicNs(), step_ns_)) == nullptr) {
      if (stopped() || env_->MonotonicNs() - now > kWaitForWriterNs) return;
      if (threaded_ || !WriteNow()) std::this_thread::sleep_for(kLook);
    }
    current_->blocked_ns.store(static_cast<uint64_t>(current_->opened_ns - now));
  } catch (...) {
  }
}

void CaptureSinkImpl::close_pass() noexcept {
  if (off()) return;
  try {
    std::lock_guard lock(control_);
    CloseOpenPass();
  } catch (...) {
  }
}

void CaptureSinkImpl::CloseOpenPass() {
  if (current_ != nullptr) {
    const int64_t now = env_->MonotonicNs();
    step_ns_ = now - current_->opened_ns;
    PassSlots::Close(std::exchange(current_, nullptr), now + options_.commit_wait_ms * 1'000'000);
  }
  mail_waits_.store(true);  // so that a writer about to sleep looks once more
  if (threaded_)
    Wake(kAsleep);
  else
    WriteNow();
}

bool CaptureSinkImpl::AllDone() {
  std::unique_lock lock(writing_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (broken_) return true;
  slots_.TakeOpened([this](PassSlot* slot) { active_.push_back(slot); });
  return queue_.empty() && waiting_.empty() && active_.empty() && !mail_waits_.load();
}

bool CaptureSinkImpl::Drain(int timeout_ms) noexcept {
  if (off()) return true;
  try {
    const int64_t deadline = env_->MonotonicNs() + int64_t{timeout_ms} * 1'000'000;
    {
      std::lock_guard lock(control_);
      CloseOpenPass();
    }
    bool done = AllDone();
    while (!done && env_->MonotonicNs() < deadline) {
      if (threaded_)
        Wake(kNap);
      else
        WriteNow();
      done = AllDone();
      if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (done) CloseFiles();
    return done;
  } catch (...) {
    return false;
  }
}

}  // namespace tdump::io
