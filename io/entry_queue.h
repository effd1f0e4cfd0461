// EntryQueue: entries from many threads to one. Pushing is one compare-and-swap; taking takes
// everything there is, oldest first. The links lie in the entries, so nothing is allocated. (No
// node is ever taken out of the middle, so an address that comes back does no harm.)
#pragma once

#include <atomic>

namespace tdump::io {

// `Entry` has a member `next` of its own pointer type.
template <class Entry>
class EntryQueue {
 public:
  // True: the queue was empty.
  bool Push(Entry* entry) noexcept {
    Entry* head = head_.load(std::memory_order_relaxed);
    do entry->next = head;
    while (!head_.compare_exchange_weak(head, entry, std::memory_order_seq_cst,
                                        std::memory_order_relaxed));
    return head == nullptr;
  }
  bool empty() const noexcept { return head_.load(std::memory_order_seq_cst) == nullptr; }
  // The oldest, linked by `next`; nullptr when there is none.
  Entry* TakeAll() noexcept {
    Entry* newest = head_.exchange(nullptr, std::memory_order_seq_cst);
    Entry* oldest = nullptr;
    while (newest != nullptr) {
      Entry* const older = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = older;
    }
    return oldest;
  }

 private:
  alignas(64) std::atomic<Entry*> head_{nullptr};
};

}  // namespace tdump::io
