// PageBuffer: bytes that begin on a page. The kernel copies a third faster from its pages to them
// than to an address that malloc gives, 16 bytes after one. Internal to compare/.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace tdump::compare {

// Memory comes from the last two buffers that ended in the thread, where they were large enough:
// the system takes long to give new pages.
class PageBuffer {
 public:
  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept
      : block_(std::exchange(other.block_, {})), size_(std::exchange(other.size_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PageBuffer();

  // What was there is lost when it grows.
  void Resize(size_t bytes);

  std::byte* data() { return block_.bytes.get(); }
  const std::byte* data() const { return block_.bytes.get(); }
  size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kPage{4096};
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, kPage); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> bytes;
    size_t capacity = 0;
  };
  static Block* KeptByThread();  // two

  Block block_;
  size_t size_ = 0;
};

}  // namespace tdump::compare
