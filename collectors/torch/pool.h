// Pool: objects that are used again, with the memory they own, instead of being freed and made
// anew in each step.
//
// Threads: any. Nobody waits: where another thread is at the pool just now (or was, in the parent
// of a forked process) an object is made or freed as without a pool. Lives in a place that is never
// destroyed: graphs outlive static destructors.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace tdump::collectors {

template <class Object>
class Pool {
 public:
  // At most `most` unused objects are kept.
  explicit Pool(size_t most) : most_(most) { unused_.reserve(most); }
  ~Pool() {
    for (Object* object : unused_) delete object;
  }
  Pool(const Pool&) = delete;

  // As it was given, or a new one. May throw std::bad_alloc.
  Object* Take() {
    if (Enter()) {
      Object* object = nullptr;
      if (!unused_.empty()) {
        object = unused_.back();
        unused_.pop_back();
      }
      Leave();
      if (object != nullptr) return object;
    }
    return new Object();
  }
  void Give(Object* object) noexcept {
    bool kept = false;
    if (Enter()) {
      kept = unused_.size() < most_;
      if (kept) unused_.push_back(object);  // there is room
      Leave();
    }
    if (!kept) delete object;
  }

 private:
  static constexpr int kTries = 64;

  bool Enter() noexcept {
    for (int i = 0; i < kTries; ++i) {
      if (!busy_.test_and_set(std::memory_order_acquire)) return true;
    }
    return false;
  }
  void Leave() noexcept { busy_.clear(std::memory_order_release); }

  const size_t most_;
  std::atomic_flag busy_;
  std::vector<Object*> unused_;
};

}  // namespace tdump::collectors
