// Rare: a value that of most things is the default one, and takes one word there.
#pragma once

#include <memory>
#include <utility>

namespace tdump::compare {

// Reads like a T.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(const Rare& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  Rare& operator=(Rare other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  Rare& operator=(T value) {
    value_ = std::make_unique<T>(std::move(value));
    return *this;
  }

  const T& operator*() const { return value_ ? *value_ : Default(); }
  const T* operator->() const { return &**this; }
  operator const T&() const { return **this; }  // NOLINT(google-explicit-constructor): it is one
  bool operator==(const Rare& other) const { return **this == *other; }

  bool is_set() const { return value_ != nullptr; }
  T& Edit() {
    if (!value_) value_ = std::make_unique<T>();
    return *value_;
  }

 private:
  static const T& Default() {
    static const T value{};
    return value;
  }

  std::unique_ptr<T> value_;
};

}  // namespace tdump::compare
