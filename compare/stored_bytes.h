// StoredBytes: some hundred bytes in memory, or in a SpillFile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "compare/spill_file.h"

namespace tdump::compare {

// Two words. A copy is in memory; so what was copied outlives the file.
class StoredBytes {
 public:
  StoredBytes() = default;
  explicit StoredBytes(std::string_view bytes);
  StoredBytes(const StoredBytes& other) : StoredBytes(other.Copy()) {}
  StoredBytes(StoredBytes&& other) noexcept
      : file_(std::exchange(other.file_, nullptr)), word_(std::exchange(other.word_, 0)) {}
  StoredBytes& operator=(StoredBytes other) noexcept {
    std::swap(file_, other.file_);
    std::swap(word_, other.word_);
    return *this;
  }
  ~StoredBytes() {
    if (file_ == nullptr) delete[] memory();
  }

  bool empty() const { return file_ == nullptr && word_ == 0; }
  // Calls `read` with the bytes, which are there as long as it takes, and returns what it does.
  template <class Read>
  auto With(const Read& read) const {
    return file_ != nullptr ? read(std::string_view(file_->Get(word_))) : read(InMemory());
  }
  std::string Copy() const {
    return With([](std::string_view bytes) { return std::string(bytes); });
  }
  // Which outlives it; where that does not take them they stay in memory. `file` may be null.
  void MoveTo(SpillFile* file);

 private:
  char* memory() const { return reinterpret_cast<char*>(word_); }
  std::string_view InMemory() const;

  const SpillFile* file_ = nullptr;
  uintptr_t word_ = 0;  // a place in the file; else the address of their number and them, 0: none
};

}  // namespace tdump::compare
