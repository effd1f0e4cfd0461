// ThreadBudget: how many more threads may run. Shared by everything that could use some: passes,
// the pairs of a pass, the chunks of a large pair.
#pragma once

#include <algorithm>
#include <atomic>

namespace tdump::compare {

// Thread-safe. The calling thread is not counted.
class ThreadBudget {
 public:
  explicit ThreadBudget(unsigned more) : left_(static_cast<int>(more)) {}

  // A thread that ran beside the calling one has ended.
  void Give() { ++left_; }

  // Up to `wanted` threads, given back at the end of its life.
  class Share {
   public:
    Share(ThreadBudget* budget, unsigned wanted) : budget_(budget) {
      if (budget == nullptr) return;
      int left = budget->left_.load();
      do {
        count_ = static_cast<unsigned>(std::clamp(left, 0, static_cast<int>(wanted)));
      } while (!budget->left_.compare_exchange_weak(left, left - static_cast<int>(count_)));
    }
    ~Share() {
      if (budget_ != nullptr) budget_->left_ += static_cast<int>(count_);
    }
    Share(const Share&) = delete;

    unsigned count() const { return count_; }

   private:
    ThreadBudget* budget_;
    unsigned count_ = 0;
  };

 private:
  std::atomic<int> left_;
};

}  // namespace tdump::compare
