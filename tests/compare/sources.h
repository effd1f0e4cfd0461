// Tensor sources in memory, for the tests of what is put together from them.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "compare/tensor_source.h"
#include "tests/compare/builders.h"

namespace tdump::compare {

template <class T>
class MemorySource : public TensorSource {
 public:
  MemorySource(const std::string& dtype, Shape shape, std::vector<T> values)
      : TensorSource(DTypeOf(dtype), std::move(shape)), values_(std::move(values)) {}

  Status Read(uint64_t first, std::span<std::byte> out) override {
    ++reads;
    if (first * sizeof(T) + out.size() > values_.size() * sizeof(T))
      return Corrupt("read beyond the end");
    std::memcpy(out.data(), values_.data() + first, out.size());
    return {};
  }

  size_t reads = 0;

 private:
  std::vector<T> values_;
};

template <class T>
Source MakeSource(const std::string& dtype, Shape shape, std::vector<T> values) {
  return std::make_shared<MemorySource<T>>(dtype, std::move(shape), std::move(values));
}

inline Source Ints(Shape shape, std::vector<int32_t> values) {
  return MakeSource<int32_t>("int32", std::move(shape), std::move(values));
}

// 0, 1, 2, ... from `first` on.
inline Source Counting(Shape shape, int32_t first = 0) {
  uint64_t units = 0;
  EXPECT_TRUE(UnitsOf(shape, &units));
  std::vector<int32_t> values(units);
  std::iota(values.begin(), values.end(), first);
  return Ints(std::move(shape), std::move(values));
}

// All units, read `step` at a time.
template <class T>
std::vector<T> ReadAll(TensorSource& source, uint64_t step = ~uint64_t{0}) {
  std::vector<T> values(source.units());
  for (uint64_t first = 0; first < source.units();) {
    const uint64_t count = std::min(step, source.units() - first);
    const auto bytes = std::as_writable_bytes(std::span(values).subspan(first, count));
    const Status status = source.Read(first, bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    first += count;
  }
  return values;
}

inline std::vector<int32_t> IntsOf(const Source& source, uint64_t step = ~uint64_t{0}) {
  return ReadAll<int32_t>(*source, step);
}

}  // namespace tdump::compare
