// Packed: a value in as few bytes as it needs, which may lie in a SpillFile. A step of many ranks
// has millions.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "compare/stored_bytes.h"

namespace tdump::compare {

// How a T is packed: each specialisation has
//   static std::string Pack(const T& value);
//   static T Unpack(std::string_view bytes);  // what Pack gave, or none, which are a T{}
template <class T>
struct Packing;

// Reads like a T, which is unpacked each time: where several fields are looked at take a copy. No
// reference into what -> and * give may be kept.
template <class T>
class Packed {
 public:
  Packed() = default;     // a T{}, and takes two words
  Packed(const T& value)  // NOLINT(google-explicit-constructor): it is one
      : bytes_(Packing<T>::Pack(value)) {}

  T operator*() const { return bytes_.With(Packing<T>::Unpack); }
  operator T() const { return **this; }  // NOLINT(google-explicit-constructor): it is one
  class Held {
   public:
    explicit Held(T value) : value_(std::move(value)) {}
    const T* operator->() const { return &value_; }

   private:
    T value_;
  };
  Held operator->() const { return Held(**this); }

  bool is_set() const { return !bytes_.empty(); }
  // Which outlives it, but no copy of it. May be null.
  void MoveTo(SpillFile* file) { bytes_.MoveTo(file); }

  // Between processes of one build. Bytes that bytes() did not give are undefined behaviour; what
  // comes from elsewhere has a checksum of its transport.
  std::string bytes() const { return bytes_.Copy(); }
  static Packed FromBytes(std::string_view bytes) {
    Packed packed;
    packed.bytes_ = StoredBytes(bytes);
    return packed;
  }

 private:
  StoredBytes bytes_;
};

}  // namespace tdump::compare
