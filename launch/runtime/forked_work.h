// ForkedWork: how many forked children ran what is recorded nowhere. They count themselves in a
// page that they share with the process they come from, which tells at its end: a child has neither
// the run nor the terminal to itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace tdump::launch {

// Thread-safe but for InChild() and BecomeRank(), during which no other thread may call anything;
// Count() and children() may run on any thread. Never allocates; no lock is left behind by a fork.
class ForkedWork {
 public:
  ForkedWork() noexcept { Begin(); }
  // In a child that was just forked. Async-signal-safe.
  void InChild() noexcept { counted_ = false; }
  void Count() noexcept;
  // This child, counted or not, is a rank of its own from now on: its own children count for it.
  void BecomeRank() noexcept;
  uint64_t children() const noexcept;

 private:
  void Begin() noexcept;

  std::atomic<uint64_t>* children_ = nullptr;  // null: no memory to share
  std::atomic<bool> counted_{false};           // this child
};

// One line about so many children, for the end of a rank or of a process that is none.
std::string ForkedWorkText(uint64_t children, bool of_rank);

}  // namespace tdump::launch
