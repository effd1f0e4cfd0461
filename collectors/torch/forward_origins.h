// Which module and lane a node of the autograd graph comes from.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/fork_mutex.h"
#include "core/types.h"

namespace tdump::collectors {

struct ForwardOrigin {
  OperatorId owner = kNoOperator;  // the module
  uint32_t lane = 0;
};

// Forward operators of the newest pass by LibTorch's (thread, sequence number), which a backward
// node knows of its forward. Several operators share a number; the last one made the node.
//
// Each thread writes a log of its own, indexed by sequence number from the first of the pass on;
// any thread reads. Neither takes a lock, and a log keeps its room from pass to pass. An entry
// names the pass and the number it is for, so one that is stale or being written is not taken for
// another.
class ForwardOrigins {
 private:
  struct Entry {
    std::atomic<uint64_t> key{0};
    std::atomic<uint64_t> origin{0};
  };
  static constexpr size_t kBlock = 1024;
  static constexpr size_t kBlocks = 1024;  // numbers of one thread and pass: about a million
  using Block = std::array<Entry, kBlock>;

 public:
  // Of one thread. Lives as long as the process; after Retire() another thread gets it in a later
  // pass.
  class Log {
   private:
    friend class ForwardOrigins;
    std::atomic<uint64_t> thread{0};
    std::atomic<uint64_t> pass{~uint64_t{0}};
    std::atomic<int64_t> first{0};
    std::atomic<bool> retired{false};
    std::array<std::atomic<Block*>, kBlocks> blocks{};
    Log* next = nullptr;
  };

  // Of the calling thread, which LibTorch calls `thread`. May throw std::bad_alloc.
  Log* Open(uint64_t thread) {
    std::lock_guard lock(mutex_);
    const uint64_t newest = pass_.load(std::memory_order_relaxed);
    for (Log* log = logs_.load(); log != nullptr; log = log->next) {
      if (!log->retired.load(std::memory_order_acquire) || log->pass.load() == newest) continue;
      log->retired.store(false);
      log->thread.store(thread);
      return log;
    }
    auto log = std::make_unique<Log>();
    log->thread.store(thread);
    log->next = logs_.load();
    logs_.store(log.get(), std::memory_order_release);
    return log.release();
  }
  static void Retire(Log* log) { log->retired.store(true, std::memory_order_release); }

  // On the thread of the log. May throw std::bad_alloc.
  void Note(Log* log, uint64_t pass, int64_t sequence, const ForwardOrigin& origin) {
    if (log->pass.load(std::memory_order_relaxed) != pass) {
      log->first.store(sequence, std::memory_order_relaxed);
      log->pass.store(pass, std::memory_order_relaxed);
      pass_.store(pass, std::memory_order_relaxed);
    }
    const int64_t index = sequence - log->first.load(std::memory_order_relaxed);
    if (index < 0 || static_cast<size_t>(index) >= kBlock * kBlocks) return;
    std::atomic<Block*>& block = log->blocks[index / kBlock];
    if (block.load(std::memory_order_relaxed) == nullptr)
      block.store(new Block, std::memory_order_release);
    Entry& entry = (*block.load(std::memory_order_relaxed))[index % kBlock];
    const uint64_t key = KeyOf(pass, sequence);
    if (entry.key.load(std::memory_order_relaxed) != key)
      entry.key.store(0, std::memory_order_relaxed);
    entry.origin.store(uint64_t{origin.owner} << 32 | origin.lane, std::memory_order_release);
    entry.key.store(key, std::memory_order_release);
  }

  bool Find(uint64_t thread, int64_t sequence, ForwardOrigin* origin) const {
    const uint64_t key = KeyOf(pass_.load(std::memory_order_relaxed), sequence);
    for (const Log* log = logs_.load(std::memory_order_acquire); log != nullptr; log = log->next) {
      if (log->thread.load(std::memory_order_relaxed) != thread) continue;
      const int64_t index = sequence - log->first.load(std::memory_order_relaxed);
      if (index < 0 || static_cast<size_t>(index) >= kBlock * kBlocks) continue;
      const Block* block = log->blocks[index / kBlock].load(std::memory_order_acquire);
      if (block == nullptr) continue;
      const Entry& entry = (*block)[index % kBlock];
      if (entry.key.load(std::memory_order_acquire) != key) continue;
      const uint64_t value = entry.origin.load(std::memory_order_acquire);
      if (entry.key.load(std::memory_order_relaxed) != key) continue;
      *origin = {static_cast<OperatorId>(value >> 32), static_cast<uint32_t>(value)};
      return true;
    }
    return false;
  }

 private:
  // Never 0.
  static uint64_t KeyOf(uint64_t pass, int64_t sequence) {
    return (pass + 1) << 40 | (static_cast<uint64_t>(sequence) & ((uint64_t{1} << 40) - 1));
  }

  std::atomic<uint64_t> pass_{~uint64_t{0}};
  std::atomic<Log*> logs_{nullptr};
  ForkMutex mutex_;  // guards the list of logs
};

}  // namespace tdump::collectors
