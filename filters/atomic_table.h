// A table of atomics by dense index that grows without moving, so that readers need no lock.
// Used by filters and launch only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/fork_mutex.h"

namespace tdump::filters {

// Values start as T{}. Thread-safe. Holds at most kChunk * kChunks entries.
template <class T>
class AtomicTable {
 public:
  AtomicTable() : chunks_(new std::atomic<std::atomic<T>*>[kChunks]) {
    for (uint32_t i = 0; i < kChunks; ++i) chunks_[i].store(nullptr, std::memory_order_relaxed);
  }
  ~AtomicTable() {
    for (uint32_t i = 0; i < kChunks; ++i) delete[] chunks_[i].load();
  }
  AtomicTable(const AtomicTable&) = delete;

  // T{} where nothing was stored yet. Two loads.
  T Get(uint32_t index) const noexcept {
    if (index >= kChunk * kChunks) return T{};
    const std::atomic<T>* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? T{} : chunk[index % kChunk].load(std::memory_order_acquire);
  }
  // False beyond the table's end.
  bool Set(uint32_t index, T value) {
    if (index >= kChunk * kChunks) return false;
    std::lock_guard lock(mutex_);
    std::atomic<std::atomic<T>*>& chunk = chunks_[index / kChunk];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      auto* fresh = new std::atomic<T>[kChunk];
      for (uint32_t i = 0; i < kChunk; ++i) fresh[i].store(T{}, std::memory_order_relaxed);
      chunk.store(fresh, std::memory_order_release);
    }
    chunk.load(std::memory_order_relaxed)[index % kChunk].store(value, std::memory_order_release);
    return true;
  }
  void Clear() noexcept {
    std::lock_guard lock(mutex_);
    for (uint32_t i = 0; i < kChunks; ++i) {
      std::atomic<T>* chunk = chunks_[i].load(std::memory_order_acquire);
      for (uint32_t k = 0; chunk != nullptr && k < kChunk; ++k)
        chunk[k].store(T{}, std::memory_order_release);
    }
  }

 private:
  static constexpr uint32_t kChunk = 1024;
  static constexpr uint32_t kChunks = 4096;
  ForkMutex mutex_;
  std::unique_ptr<std::atomic<std::atomic<T>*>[]> chunks_;
};

}  // namespace tdump::filters
