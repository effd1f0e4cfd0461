// ArgumentList: role, path, dtype and shape of every tensor argument and result of one call, packed
// into one block of bytes that keeps its capacity. A collector fills one per call without
// allocating; the sink copies the bytes and reads them on its own thread.
//
// Encoding of one entry: u8 role, u8 dimensions, u16 bytes of arg, DType, i64 sizes[], arg. Written
// and read in one process only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace tdump {

class ArgumentList {
 public:
  static constexpr size_t kMaxDimensions = 255;
  static constexpr size_t kMaxArg = 65535;  // bytes; longer paths are cut

  void Clear() {
    bytes_.clear();
    count_ = 0;
  }
  // May throw std::bad_alloc, and leaves the list as it was then.
  void Add(Role role, std::string_view arg, const DType& dtype, std::span<const int64_t> sizes) {
    const Head head{static_cast<uint8_t>(role),
                    static_cast<uint8_t>(std::min(sizes.size(), kMaxDimensions)),
                    static_cast<uint16_t>(std::min(arg.size(), kMaxArg)), dtype};
    const size_t before = bytes_.size();
    const size_t shape = head.dimensions * sizeof(int64_t);
    bytes_.resize(before + sizeof(Head) + shape + head.arg);
    std::byte* at = bytes_.data() + before;
    std::memcpy(at, &head, sizeof(Head));
    if (shape != 0) std::memcpy(at + sizeof(Head), sizes.data(), shape);
    if (head.arg != 0) std::memcpy(at + sizeof(Head) + shape, arg.data(), head.arg);
    ++count_;
  }
  size_t size() const { return count_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Decodes the bytes of a list. The copies own what they hold.
  static std::vector<ArgumentMeta> Decode(std::span<const std::byte> bytes) {
    std::vector<ArgumentMeta> arguments;
    while (bytes.size() >= sizeof(Head)) {
      Head head;
      std::memcpy(&head, bytes.data(), sizeof(Head));
      bytes = bytes.subspan(sizeof(Head));
      ArgumentMeta& argument = arguments.emplace_back();
      argument.role = static_cast<Role>(head.role);
      argument.dtype = head.dtype.view();
      argument.sizes.resize(head.dimensions);
      const size_t shape = head.dimensions * sizeof(int64_t);
      if (shape != 0) std::memcpy(argument.sizes.data(), bytes.data(), shape);
      argument.arg.assign(reinterpret_cast<const char*>(bytes.data()) + shape, head.arg);
      bytes = bytes.subspan(shape + head.arg);
    }
    return arguments;
  }
  std::vector<ArgumentMeta> Decode() const { return Decode(bytes_); }

 private:
  struct Head {
    uint8_t role;
    uint8_t dimensions;
    uint16_t arg;
    DType dtype;
  };
  std::vector<std::byte> bytes_;
  size_t count_ = 0;
};

}  // namespace tdump
