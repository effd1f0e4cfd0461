#include "core/fork_mutex.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace tdump {
namespace {

using std::chrono::steady_clock;

int64_t ThisThread() { return ::syscall(SYS_gettid); }

template <typename Try>
bool Until(steady_clock::time_point end, Try attempt) noexcept {
  while (!attempt()) {
    if (steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace

// All that exist in this shared object. Made before any code runs and never destroyed: locks are
// used until the process ends.
struct ForkLocks {
  void Add(ForkLock* lock) noexcept {
    if (!registered.exchange(true))
      ::pthread_atfork([] { all.Take(); }, [] { all.LetGo(); }, [] { all.MakeFree(); });
    lock->next_ = first.load();
    while (!first.compare_exchange_weak(lock->next_, lock)) {
    }
  }

  void Remove(ForkLock* lock) noexcept {
    std::lock_guard guard(removing);
    for (;;) {
      ForkLock* before = first.load();
      if (before == lock) {
        if (first.compare_exchange_strong(before, lock->next_)) return;
        continue;  // one was added
      }
      while (before->next_ != lock) before = before->next_;
      before->next_ = lock->next_;
      return;
    }
  }

  void Take() noexcept {
    if (forking == ThisThread()) {  // a signal handler forks while this thread does
      ++inner_forks;
      return;
    }
    const auto end = steady_clock::now() + std::chrono::milliseconds(100);
    if (!Until(end, [&] { return removing.try_lock(); })) return;
    forking = ThisThread();
    for (ForkLock* lock = first.load(); lock != nullptr; lock = lock->next_)
      lock->held_ = Until(end, [&] { return lock->TryToHold(); });
  }

  // Those that were added meanwhile are not held.
  void LetGo() noexcept {
    if (forking != ThisThread()) return;
    if (inner_forks > 0) {
      --inner_forks;
      return;
    }
    for (ForkLock* lock = first.load(); lock != nullptr; lock = lock->next_) {
      if (std::exchange(lock->held_, false)) lock->LetGo();
    }
    forking = 0;
    removing.unlock();
  }

  void MakeFree() noexcept {
    for (ForkLock* lock = first.load(); lock != nullptr; lock = lock->next_) {
      lock->held_ = false;
      lock->MakeFree();
    }
    inner_forks = 0;
    forking = 0;
    new (&removing) std::mutex;
  }

  static ForkLocks all;

  std::atomic<bool> registered{false};
  std::atomic<ForkLock*> first{nullptr};
  std::mutex removing;  // held by the thread that forks, too
  std::atomic<int64_t> forking{0};
  int inner_forks = 0;  // of the thread that forks
};

constinit ForkLocks ForkLocks::all;

void ForkLock::Add() noexcept { ForkLocks::all.Add(this); }
void ForkLock::Remove() noexcept { ForkLocks::all.Remove(this); }

}  // namespace tdump
