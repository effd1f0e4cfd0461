// CallText: the scalar and string arguments of one call, by name, packed as values into one block
// of bytes that keeps its capacity. A collector fills one per call: it copies and neither formats
// nor, once the block has grown, allocates. The writer makes the text: "alpha=2; mode=bilinear".
//
// Failure: a value that finds no memory is left out. Encoding of one value: Head, name, value;
// written and read in one process only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tdump {

class CallText {
 public:
  static constexpr size_t kMaxBytes = 1024;  // of the text; what is longer ends in "..."

  void Clear() {
    bytes_.clear();
    least_ = 0;
  }
  // Nothing more would be read: the text is longer than it may be.
  bool full() const { return least_ > kMaxBytes; }
  std::span<const std::byte> bytes() const { return bytes_; }

  void AddText(std::string_view name, std::string_view text) noexcept {
    AddBytes(Form::kText, name, text, text.size());
  }
  void AddBool(std::string_view name, bool value) noexcept {
    AddNumbers<int64_t>(Form::kBool, name, {value ? 1 : 0});
  }
  void AddInteger(std::string_view name, int64_t value) noexcept {
    AddNumbers<int64_t>(Form::kInteger, name, {value});
  }
  void AddDouble(std::string_view name, double value) noexcept {
    AddNumbers<double>(Form::kDouble, name, {value});
  }
  void AddComplex(std::string_view name, double real, double imaginary) noexcept {
    AddNumbers<double, 2>(Form::kComplex, name, {real, imaginary});
  }
  // item(i): the value at i < count. "[1,2]", at most about 256 bytes of it.
  template <class Item>
  void AddBools(std::string_view name, size_t count, Item item) noexcept {
    AddList<int64_t>(Form::kBools, name, count, item);
  }
  template <class Item>
  void AddIntegers(std::string_view name, size_t count, Item item) noexcept {
    AddList<int64_t>(Form::kIntegers, name, count, item);
  }
  template <class Item>
  void AddDoubles(std::string_view name, size_t count, Item item) noexcept {
    AddList<double>(Form::kDoubles, name, count, item);
  }

  // As Python's repr() has them; a str of ASCII only. An object of a class: "<name>".
  void AddPythonFloat(std::string_view name, double value) noexcept {
    AddNumbers<double>(Form::kPythonFloat, name, {value});
  }
  void AddPythonString(std::string_view name, std::string_view ascii) noexcept;
  void AddPythonObject(std::string_view name, std::string_view cls) noexcept {
    AddBytes(Form::kPythonObject, name, cls, cls.size() + 2);
  }

  // Makes the text from the bytes of a CallText.
  static std::string ToString(std::span<const std::byte> bytes);

 private:
  enum class Form : uint8_t {
    kText,
    kBool,
    kInteger,
    kDouble,
    kComplex,
    kBools,
    kIntegers,
    kDoubles,
    kPythonFloat,
    kPythonSingleQuoted,
    kPythonDoubleQuoted,
    kPythonObject
  };
  struct Head {
    Form form;
    uint16_t name;   // bytes
    uint32_t value;  // bytes
  };
  static constexpr size_t kListText = 256;
  static constexpr size_t kMaxItems = kListText / 2 + 1;  // of two bytes or more each

  static void AppendValue(Form form, std::string_view value, std::string* text);

  // Room for a value whose text has `least` bytes or more; null: it would not be read.
  std::byte* Room(Form form, std::string_view name, size_t bytes, size_t least) noexcept {
    if (full()) return nullptr;
    name = name.substr(0, kMaxBytes + 1);
    const Head head{form, static_cast<uint16_t>(name.size()), static_cast<uint32_t>(bytes)};
    const size_t before = bytes_.size();
    try {
      bytes_.resize(before + sizeof head + name.size() + bytes);
    } catch (...) {
      return nullptr;
    }
    std::byte* at = bytes_.data() + before;
    std::memcpy(at, &head, sizeof head);
    at =
        std::copy_n(reinterpret_cast<const std::byte*>(name.data()), name.size(), at + sizeof head);
    least_ += (before == 0 ? 0 : 2) + (name.empty() ? 0 : name.size() + 1) + least;
    return at;
  }
  void AddBytes(Form form, std::string_view name, std::string_view value, size_t least) noexcept {
    value = value.substr(0, kMaxBytes + 1);
    std::byte* to = Room(form, name, value.size(), least);
    if (to != nullptr && !value.empty()) std::memcpy(to, value.data(), value.size());
  }
  template <class Number, size_t kCount = 1>
  void AddNumbers(Form form, std::string_view name, std::array<Number, kCount> numbers) noexcept {
    std::byte* to = Room(form, name, sizeof numbers, kCount);
    if (to != nullptr) std::memcpy(to, numbers.data(), sizeof numbers);
  }
  template <class Number, class Item>
  void AddList(Form form, std::string_view name, size_t count, Item item) noexcept {
    count = std::min(count, kMaxItems);
    std::byte* to = Room(form, name, count * sizeof(Number), 2 * count + 1);
    for (size_t i = 0; to != nullptr && i < count; ++i) {
      const Number number = item(i);
      std::memcpy(to + i * sizeof number, &number, sizeof number);
    }
  }

  std::vector<std::byte> bytes_;
  size_t least_ = 0;  // bytes of the text, at least
};

}  // namespace tdump
