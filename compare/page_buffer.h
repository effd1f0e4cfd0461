// PageBuffer: bytes that begin on a page. The kernel copies a third faster from its pages to them
// than to an address that malloc gives, 16 bytes after one. Internal to compare/.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace tdump::compare {

class PageBuffer {
 public:
  // What was there is lost when it grows.
  void Resize(size_t bytes) {
    if (bytes > capacity_) {
      bytes_.reset(static_cast<std::byte*>(::operator new(bytes, kPage)));
      capacity_ = bytes;
    }
    size_ = bytes;
  }

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kPage{4096};
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, kPage); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t capacity_ = 0, size_ = 0;
};

}  // namespace tdump::compare
