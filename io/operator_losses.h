// OperatorLosses: records, or calls, that left no trace in a pass file (no room even for their
// metadata, or their pass was gone), counted per operator without a lock. The counters lie in a
// mapping of which only touched pages exist.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/types.h"

namespace tdump::io {

class OperatorLosses {
 public:
  OperatorLosses();
  ~OperatorLosses();
  OperatorLosses(const OperatorLosses&) = delete;

  void Add(OperatorId op) noexcept {
    total_.fetch_add(1, std::memory_order_relaxed);
    if (counts_ != nullptr && op < kMost) counts_[op].fetch_add(1, std::memory_order_relaxed);
  }
  // Takes the counts, if there are any: visit(op, count). `operators`: how many exist. One thread.
  template <class Visit>
  void Take(uint32_t operators, Visit visit) {
    const uint64_t total = total_.load(std::memory_order_relaxed);
    if (total == taken_ || counts_ == nullptr) return;
    taken_ = total;
    for (uint32_t op = 0; op < operators && op < kMost; ++op) {
      if (counts_[op].load(std::memory_order_relaxed) == 0) continue;
      visit(OperatorId{op}, counts_[op].exchange(0, std::memory_order_relaxed));
    }
  }

 private:
  static constexpr uint32_t kMost = 1 << 22;
  std::atomic<uint32_t>* counts_ = nullptr;
  std::atomic<uint64_t> total_{0};
  uint64_t taken_ = 0;
};

}  // namespace tdump::io
