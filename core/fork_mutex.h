// Mutexes that a forked child can use. A child has the one thread that forked: a lock which another
// thread held at that moment stays locked in it, and what the lock guards may be half written.
//
// fork() therefore takes all of these first, waiting 100 ms at most for those that others hold, and
// lets them go in parent and child. One that was still held is free in the child all the same; what
// it guards may then be half written there. Since the wait ends they may be taken in any order.
// For locks that are as a rule held for a few instructions: a fork waits for them.
#pragma once

#include <mutex>
#include <new>

namespace tdump {

class ForkLock {
 public:
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;

 protected:
  ForkLock() = default;
  ~ForkLock() = default;
  // While the object is whole: a thread that forks calls what is virtual. Add() waits for nothing,
  // since it may run while a static variable is made, which no child may find begun.
  void Add() noexcept;
  void Remove() noexcept;

 private:
  friend struct ForkLocks;

  virtual bool TryToHold() noexcept = 0;
  virtual void LetGo() noexcept = 0;
  virtual void MakeFree() noexcept = 0;  // in the child, whoever held it

  ForkLock* next_ = nullptr;
  bool held_ = false;  // by the thread that forks
};

// Of std::mutex or std::shared_mutex, to be used with the locks of the standard library.
template <typename Mutex>
class ForkSafe final : public ForkLock {
 public:
  ForkSafe() { Add(); }
  ~ForkSafe() { Remove(); }

  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  void lock_shared() { mutex_.lock_shared(); }
  bool try_lock_shared() { return mutex_.try_lock_shared(); }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  bool TryToHold() noexcept override { return mutex_.try_lock(); }
  void LetGo() noexcept override { mutex_.unlock(); }
  void MakeFree() noexcept override { new (&mutex_) Mutex; }

  Mutex mutex_;
};

using ForkMutex = ForkSafe<std::mutex>;

}  // namespace tdump
