// Items and room: what happens at the caps.
#include "io/capture_sink_impl.h"

namespace tdump::io {
namespace {

// How long a thread waits for room that only other threads' uncommitted slots could give back.
constexpr int64_t kWaitForCommitsNs = 200'000'000;

}  // namespace

// Waits once. False when waiting is not wanted, or could last for ever: nothing is
// on its way to the disk and what fills the arena is not committed, perhaps by this
// very thread. `*idle_since` starts at 0.
bool CaptureSinkImpl::WaitForRoom(Lock* lock, CapturePass* pass, int64_t* idle_since) {
  Wake(true);
  if (options_.drop_when_full || stopped()) return false;
  const int64_t start = env_->MonotonicNs();
  // The batch is filled and emptied with the lock held. Not `pumping_`: a writer that was woken by
  // this very wait, and finds nothing, gives nothing back.
  const bool on_its_way = !batch_.empty() || !queue_.empty();
  if (on_its_way)
    *idle_since = 0;
  else if (*idle_since == 0)
    *idle_since = start;
  else if (start - *idle_since > kWaitForCommitsNs)
    return false;
  if (on_its_way && !threaded_ && !pumping_) {
    Pump(lock);
  } else {
    ++waiters_;
    room_.wait_for(*lock, std::chrono::milliseconds(20));
    --waiters_;
  }
  pass->blocked_ns += static_cast<uint64_t>(env_->MonotonicNs() - start);
  return true;
}

// nullptr: at the cap, or out of memory.
CaptureItem* CaptureSinkImpl::TakeItem(Lock* lock, CapturePass* pass) {
  ++pass->outstanding;  // from here on the pass is not finished
  int64_t idle_since = 0;
  while (live_items_ >= max_items_) {
    if (WaitForRoom(lock, pass, &idle_since)) continue;
    --pass->outstanding;
    return nullptr;
  }
  if (pool_.empty() && !GrowPool()) {
    --pass->outstanding;
    return nullptr;
  }
  CaptureItem* item = pool_.back();
  pool_.pop_back();
  ++live_items_;
  item->pass = pass;
  item->room = {};
  item->bytes = 0;
  item->earlier = 0;
  item->orphaned = false;
  item->filled.store(false, std::memory_order_relaxed);
  return item;
}

bool CaptureSinkImpl::GrowPool() {
  try {
    items_.push_back(std::make_unique<CaptureItem>());
    pool_.reserve(items_.capacity());  // so that giving back never allocates
    pool_.push_back(items_.back().get());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Arena::Room CaptureSinkImpl::TakeRoom(Lock* lock, CapturePass* pass, uint64_t bytes) {
  if (!arena_.Fits(bytes)) return {};
  int64_t idle_since = 0;
  for (;;) {
    Arena::Room room = arena_.Take(bytes);
    if (!arena_.Fits(bytes)) return {};  // it was made smaller
    if (room.data == nullptr && arena_.refused()) room = arena_.TakeFromHeap(bytes);
    if (room.data != nullptr) return room;
    if (WaitForRoom(lock, pass, &idle_since)) continue;
    return options_.drop_when_full ? Arena::Room{} : arena_.TakeFromHeap(bytes);
  }
}

void CaptureSinkImpl::Recycle(CaptureItem* item) {
  arena_.Give(item->room);
  item->room = {};
  item->pass = nullptr;
  pool_.push_back(item);
  --live_items_;
}

// An item that could not be filled.
void CaptureSinkImpl::Lose(CaptureItem* item, bool linked) {
  Lock lock(mutex_);
  if (linked) Unlink(item);
  CapturePass* pass = item->pass;
  --pass->outstanding;
  if (item->kind == CaptureItem::Kind::kCall)
    ++pass->lost_calls;
  else
    ++pass->lost[static_cast<size_t>(SkipReason::kMemoryLimit)];
  Recycle(item);
}

void CaptureSinkImpl::Link(CaptureItem* item) {
  item->previous = nullptr;
  item->next = item->pass->slots;
  if (item->next != nullptr) item->next->previous = item;
  item->pass->slots = item;
}

void CaptureSinkImpl::Unlink(CaptureItem* item) {
  if (item->previous != nullptr)
    item->previous->next = item->next;
  else
    item->pass->slots = item->next;
  if (item->next != nullptr) item->next->previous = item->previous;
}

}  // namespace tdump::io
