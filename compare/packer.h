// Packer, Unpacker: fields as bytes and back. First a word of bits, in the order in which they were
// asked for, then numbers of variable length. A double is a bit, whether it is anything but 0, and
// then its eight bytes; of an array of counts only those that are not 0 are there. Structs are
// taken apart by whoever packs them.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tdump::compare {

// At most 64 bits: of bool, double and optional fields.
class Packer {
 public:
  template <class... Fields>
  void operator()(Fields&... fields) {
    (Add(fields), ...);
  }
  // Where there is a value, walk(its address) packs it.
  template <class T, class Walk>
  void Optional(const std::optional<T>* value, const Walk& walk) {
    Bit(value->has_value());
    if (*value) walk(&**value);
  }
  std::string Bytes() const {
    return std::string(reinterpret_cast<const char*>(&bits_), sizeof(bits_)) + rest_;
  }

 private:
  void Bit(bool bit) {
    assert(bit_count_ < 64);
    bits_ |= uint64_t{bit} << bit_count_++;
  }
  void Add(bool value) { Bit(value); }
  void Add(uint64_t value) {
    for (; value >= 0x80; value >>= 7) rest_ += static_cast<char>(value | 0x80);
    rest_ += static_cast<char>(value);
  }
  void Add(double value) {
    const bool any = std::bit_cast<uint64_t>(value) != 0;
    Bit(any);
    if (any) rest_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Add(const std::string& text) {
    Add(uint64_t{text.size()});
    rest_ += text;
  }
  template <class T>
  void Add(const std::vector<T>& list) {
    Add(uint64_t{list.size()});
    for (const T& one : list) Add(one);
  }
  template <size_t N>
  void Add(const std::array<uint64_t, N>& counts) {
    uint64_t used = 0;
    for (const uint64_t count : counts) used += count != 0;
    Add(used);
    for (uint64_t bin = 0; bin < counts.size(); ++bin) {
      if (counts[bin] != 0) (*this)(bin, counts[bin]);
    }
  }
  template <class T>
  void Add(const std::optional<T>& value) {
    Optional(&value, [this](const T* set) { Add(*set); });
  }

  uint64_t bits_ = 0;
  int bit_count_ = 0;
  std::string rest_;
};

class Unpacker {
 public:
  // Of Packer::Bytes.
  explicit Unpacker(std::string_view bytes) : rest_(bytes.substr(sizeof(bits_))) {
    std::memcpy(&bits_, bytes.data(), sizeof(bits_));
  }

  template <class... Fields>
  void operator()(Fields&... fields) {
    (Take(&fields), ...);
  }
  template <class T, class Walk>
  void Optional(std::optional<T>* value, const Walk& walk) {
    if (Bit()) walk(&value->emplace());
  }

 private:
  bool Bit() {
    const bool bit = bits_ & 1;
    bits_ >>= 1;
    return bit;
  }
  void Take(bool* value) { *value = Bit(); }
  void Take(uint64_t* value) {
    *value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return;
    }
  }
  uint64_t Number() {
    uint64_t number = 0;
    Take(&number);
    return number;
  }
  void Take(double* value) {
    *value = 0;
    if (!Bit()) return;
    std::memcpy(value, rest_.data(), sizeof(*value));
    rest_.remove_prefix(sizeof(*value));
  }
  void Take(std::string* text) {
    const uint64_t size = Number();
    *text = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  template <class T>
  void Take(std::vector<T>* list) {
    list->resize(Number());
    for (T& one : *list) Take(&one);
  }
  template <size_t N>
  void Take(std::array<uint64_t, N>* counts) {
    for (uint64_t used = Number(); used > 0; --used) {
      const uint64_t bin = Number();
      Take(&(*counts)[bin]);
    }
  }
  template <class T>
  void Take(std::optional<T>* value) {
    Optional(value, [this](T* set) { Take(set); });
  }

  uint64_t bits_ = 0;
  std::string_view rest_;
};

}  // namespace tdump::compare
