// PointerSet: which objects were met, in a pass after another, without an allocation once it is as
// large as it gets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tdump::collectors {

// Not thread-safe. Error of Insert: std::bad_alloc.
class PointerSet {
 public:
  // False: it was met since the last Clear().
  bool Insert(const void* pointer) {
    if (2 * (count_ + 1) > slots_.size()) Grow();
    const void** slot = Find(pointer);
    if (*slot != nullptr) return false;
    *slot = pointer;
    ++count_;
    return true;
  }
  // The memory stays.
  void Clear() {
    std::fill(slots_.begin(), slots_.end(), nullptr);
    count_ = 0;
  }

 private:
  static constexpr size_t kFirst = 64;

  // Where it is, or the free place where it goes. There is always a free one.
  const void** Find(const void* pointer) {
    const auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
    const size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>((bits * 0x9E3779B97F4A7C15u) >> 32) & mask;
    while (slots_[at] != nullptr && slots_[at] != pointer) at = (at + 1) & mask;
    return &slots_[at];
  }
  void Grow() {
    std::vector<const void*> before(std::max(kFirst, 2 * slots_.size()));
    before.swap(slots_);
    for (const void* pointer : before) {
      if (pointer != nullptr) *Find(pointer) = pointer;
    }
  }

  std::vector<const void*> slots_;  // a power of two of them; null: free
  size_t count_ = 0;
};

}  // namespace tdump::collectors
