#include "core/fork_mutex.h"

#include <pthread.h>

#include <chrono>
#include <thread>

namespace tdump {

// All that exist. Never destroyed: locks are used until the process ends.
struct ForkLocks {
  static ForkLocks& Get() {
    static auto* all = new ForkLocks;
    return *all;
  }

  ForkLocks() {
    ::pthread_atfork([] { Get().Take(); }, [] { Get().LetGo(); }, [] { Get().MakeFree(); });
  }

  void Add(ForkLock* lock) {
    std::lock_guard guard(mutex);
    lock->next_ = first;
    if (first != nullptr) first->previous_ = lock;
    first = lock;
  }

  void Remove(ForkLock* lock) {
    std::lock_guard guard(mutex);
    if (lock->next_ != nullptr) lock->next_->previous_ = lock->previous_;
    (lock->previous_ != nullptr ? lock->previous_->next_ : first) = lock->next_;
  }

  void Take() noexcept {
    using std::chrono::steady_clock;
    mutex.lock();
    const auto end = steady_clock::now() + std::chrono::milliseconds(100);
    for (ForkLock* lock = first; lock != nullptr; lock = lock->next_) {
      while (!(lock->held_ = lock->TryToHold()) && steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  void LetGo() noexcept {
    for (ForkLock* lock = first; lock != nullptr; lock = lock->next_) {
      if (lock->held_) lock->LetGo();
    }
    mutex.unlock();
  }

  void MakeFree() noexcept {
    for (ForkLock* lock = first; lock != nullptr; lock = lock->next_) lock->MakeFree();
    new (&mutex) std::mutex;
  }

  std::mutex mutex;
  ForkLock* first = nullptr;
};

ForkLock::ForkLock() { ForkLocks::Get().Add(this); }
ForkLock::~ForkLock() { ForkLocks::Get().Remove(this); }

}  // namespace tdump
