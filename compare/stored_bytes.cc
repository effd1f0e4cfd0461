#include "compare/stored_bytes.h"

#include <cstring>

namespace tdump::compare {
namespace {

constexpr size_t kSize = sizeof(uint32_t);

}  // namespace

StoredBytes::StoredBytes(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto size = static_cast<uint32_t>(bytes.size());
  char* const memory = new char[kSize + size];
  std::memcpy(memory, &size, kSize);
  std::memcpy(memory + kSize, bytes.data(), size);
  word_ = reinterpret_cast<uintptr_t>(memory);
}

std::string_view StoredBytes::InMemory() const {
  if (word_ == 0) return {};
  uint32_t size = 0;
  std::memcpy(&size, memory(), kSize);
  return {memory() + kSize, size};
}

void StoredBytes::MoveTo(SpillFile* file) {
  if (file == nullptr || file_ != nullptr || word_ == 0) return;
  const auto place = file->Add(InMemory());
  if (!place) return;
  delete[] memory();
  file_ = file;
  word_ = *place;
}

}  // namespace tdump::compare
