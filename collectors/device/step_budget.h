// StepBudget: memory.max_block for waits for staging: of each step only a share may be waited. The
// share is of the time since the step began or, where that was longer, of the step before it.
// Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace tdump::collectors {

class StepBudget {
 public:
  // What may be waited now, in ns; `pass` names the step, `share` is 1 for no limit.
  int64_t Left(uint64_t pass, double share, int64_t now_ns) {
    if (share >= 1) return INT64_MAX;
    std::lock_guard lock(mutex_);
    if (pass != pass_) {
      previous_ns_ = began_ns_ == 0 ? 0 : now_ns - began_ns_;
      began_ns_ = now_ns;
      waited_ns_ = 0;
      pass_ = pass;
    }
    const int64_t step = std::max(now_ns - began_ns_, previous_ns_);
    return std::max<int64_t>(static_cast<int64_t>(share * static_cast<double>(step)) - waited_ns_,
                             0);
  }
  void Add(int64_t waited_ns) {
    std::lock_guard lock(mutex_);
    waited_ns_ += waited_ns;
  }

 private:
  std::mutex mutex_;
  uint64_t pass_ = ~uint64_t{0};
  int64_t began_ns_ = 0, previous_ns_ = 0, waited_ns_ = 0;
};

}  // namespace tdump::collectors
