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
  if (threaded_ || !state_.options.thread) return threaded_;
  // The job's signals go to the job's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { writer_.Run(); });
    pthread_setname_np(thread_.native_handle(), "tdump-writer");
    threaded_ = true;
  } catch (const std::exception& error) {
    std::lock_guard lock(state_.mail);
    state_.notes.push_back(
        {1, std::string("no writer thread, so passes are written at their end: ") + error.what()});
    state_.mail_waits.store(true, std::memory_order_release);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return threaded_;
}

void CaptureSinkImpl::open_pass(const PassInfo& info) noexcept {
  if (off()) return;
  try {
    std::lock_guard lock(control_);
    CloseOpenPass();
    if (state_.last_pass) state_.stopped = true;
    if (stopped()) return LeaveOut(info);
    state_.arena.Map();
    StartThread();
    const int64_t now = state_.env->MonotonicNs();
    current_ = state_.slots.Open(info, now, step_ns_);
    if (current_ != nullptr) return;  // not blocked: its blocked_ns stays 0
    // A writer that is so many passes behind is waited for, as one that is behind with the arena.
    while ((current_ = state_.slots.Open(info, state_.env->MonotonicNs(), step_ns_)) == nullptr) {
      if (stopped() || state_.env->MonotonicNs() - now > kWaitForWriterNs) return;
      if (threaded_ || !writer_.WriteNow()) std::this_thread::sleep_for(kLook);
    }
    current_->blocked_ns.store(static_cast<uint64_t>(current_->opened_ns - now));
  } catch (...) {
  }
}

// The first step that is left out is told.
void CaptureSinkImpl::LeaveOut(const PassInfo& info) {
  if (state_.left_out_from.load() >= 0) return;
  state_.left_out_from.store(static_cast<int64_t>(info.local_step));
  WakeForMail();
}

void CaptureSinkImpl::WakeForMail() {
  state_.mail_waits.store(true);  // so that a writer about to sleep looks once more
  if (threaded_)
    state_.Wake(CaptureState::kAsleep);
  else
    writer_.WriteNow();
}

void CaptureSinkImpl::close_pass() noexcept {
  if (off()) return;
  try {
    std::lock_guard lock(control_);
    CloseOpenPass();
  } catch (...) {
  }
}

bool CaptureSinkImpl::has_backward() noexcept {
  if (off()) return false;
  std::lock_guard lock(control_);
  return current_ != nullptr && current_->backward.load(std::memory_order_relaxed);
}

void CaptureSinkImpl::CloseOpenPass() {
  if (current_ != nullptr) {
    const int64_t now = state_.env->MonotonicNs();
    step_ns_ = now - current_->opened_ns;
    PassSlots::Close(std::exchange(current_, nullptr),
                     now + state_.options.commit_wait_ms * 1'000'000);
  }
  WakeForMail();
}

bool CaptureSinkImpl::Drain(int timeout_ms) noexcept {
  if (off()) return true;
  try {
    const int64_t deadline = state_.env->MonotonicNs() + int64_t{timeout_ms} * 1'000'000;
    {
      std::lock_guard lock(control_);
      CloseOpenPass();
    }
    bool done = writer_.AllDone();
    while (!done && state_.env->MonotonicNs() < deadline) {
      if (threaded_)
        state_.Wake(CaptureState::kNap);
      else
        writer_.WriteNow();
      done = writer_.AllDone();
      if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (done) writer_.CloseFiles();
    return done;
  } catch (...) {
    return false;
  }
}

}  // namespace tdump::io
