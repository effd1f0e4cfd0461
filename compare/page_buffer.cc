#include "compare/page_buffer.h"

#include <array>

namespace tdump::compare {

PageBuffer::Block* PageBuffer::KeptByThread() {
  thread_local std::array<Block, 2> kept;
  return kept.data();
}

PageBuffer::~PageBuffer() {
  if (block_.capacity == 0) return;
  Block* kept = KeptByThread();
  Block& smaller = kept[0].capacity <= kept[1].capacity ? kept[0] : kept[1];
  if (smaller.capacity < block_.capacity) smaller = std::move(block_);
}

void PageBuffer::Resize(size_t bytes) {
  size_ = bytes;
  if (bytes <= block_.capacity) return;
  Block* kept = KeptByThread();
  for (Block* block : {kept, kept + 1}) {
    if (block->capacity < bytes) continue;
    std::swap(block_, *block);
    return;
  }
  block_ = {};
  block_.bytes.reset(static_cast<std::byte*>(::operator new(bytes, kPage)));
  block_.capacity = bytes;
}

}  // namespace tdump::compare
