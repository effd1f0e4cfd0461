#include "io/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "io/format.h"

namespace tdump::io {
namespace {

constexpr uint64_t kLeastBytes = 1 << 20;

void* MapAnonymous(uint64_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
}

}  // namespace

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, capacity_);
}

bool Arena::Map() {
  if (base_ != nullptr) return true;
  if (failed_ || capacity_ == 0) return false;
  uint64_t bytes = capacity_;
  void* base = MapAnonymous(bytes);
  while (base == MAP_FAILED && bytes / 2 >= kLeastBytes)
    base = MapAnonymous(bytes = bytes / 128 * 64);
  failed_ = base == MAP_FAILED;
  if (failed_) return false;
  capacity_ = bytes;
  (void)::madvise(base, capacity_, MADV_HUGEPAGE);
  (void)::madvise(base, capacity_,
                  MADV_DONTFORK);  // a forked data loader neither copies nor keeps it
  base_ = static_cast<std::byte*>(base);
  free_.push_back({0, capacity_});
  return true;
}

Arena::Room Arena::Take(uint64_t bytes) {
  if (!Map() || bytes > capacity_) return {};
  const uint64_t want = PadTo(bytes, 64);
  if (want > capacity_ - used_) return {};
  auto block =
      std::find_if(free_.begin(), free_.end(), [&](const Block& b) { return b.bytes >= want; });
  if (block == free_.end()) return {};
  Room room{base_ + block->offset, want, false};
  block->offset += want;
  block->bytes -= want;
  if (block->bytes == 0) free_.erase(block);
  used_ += want;
  return room;
}

Arena::Room Arena::TakeFromHeap(uint64_t bytes) {
  const uint64_t want = PadTo(bytes, 64);
  if (bytes > capacity_ || want > capacity_ - used_) return {};
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, want));
  if (data == nullptr) return {};
  used_ += want;
  return {data, want, true};
}

void Arena::Give(const Room& room) {
  if (room.data == nullptr) return;
  used_ -= room.bytes;
  if (room.heap) {
    std::free(room.data);
    return;
  }
  const uint64_t offset = static_cast<uint64_t>(room.data - base_);
  auto next = std::lower_bound(free_.begin(), free_.end(), offset,
                               [](const Block& block, uint64_t at) { return block.offset < at; });
  const bool joins_next = next != free_.end() && offset + room.bytes == next->offset;
  const bool joins_previous =
      next != free_.begin() && (next - 1)->offset + (next - 1)->bytes == offset;
  if (joins_previous && joins_next) {
    (next - 1)->bytes += room.bytes + next->bytes;
    free_.erase(next);
  } else if (joins_previous) {
    (next - 1)->bytes += room.bytes;
  } else if (joins_next) {
    next->offset = offset;
    next->bytes += room.bytes;
  } else {
    free_.insert(next, {offset, room.bytes});
  }
}

}  // namespace tdump::io
