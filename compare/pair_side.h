// PairSide: one side of a pair, read in windows and decoded tile by tile. Internal to compare/.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compare/element.h"
#include "compare/page_buffer.h"
#include "compare/pair_tile.h"
#include "compare/payload_view.h"
#include "io/records.h"

namespace tdump::compare {

// The type under which vectors read a format; none: it is decoded first.
std::optional<RealType> VectorType(const NumberFormat& format);

// Dimensions that both records store once, which a walk over both may leave out; empty for records
// of different sizes.
std::vector<bool> StoredOnceByBoth(const io::Record& a, const io::Record& b);

// Where an element stands, of a walk in row-major order that leaves out the dimensions of `once`:
// at 0 in these. `shape`: in elements.
std::vector<uint64_t> PositionOf(uint64_t element, const std::vector<uint64_t>& shape,
                                 const std::vector<bool>& once);

// |a - b| of two numbers, or of parts of complex ones: 0 for two NaN, infinite where a NaN or an
// infinity meets another value.
inline double ErrorOf(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double error = std::abs(b - a);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

// Not thread-safe. Memory: one window, and a tile of numbers. The record outlives it.
class PairSide {
 public:
  // `skip`: dimensions left out of the walk.
  PairSide(const io::Record& record, ReadBytes read, const std::vector<bool>& skip);

  const DType& dtype() const { return dtype_; }
  const NumberFormat& format() const { return format_; }
  std::optional<RealType> vector_type() const { return vector_type_; }
  uint64_t elements_per_unit() const { return elements_per_unit_; }
  uint64_t elements() const { return view_.units() * elements_per_unit_; }

  // Reads elements [first, first + count), multiples of elements_per_unit.
  Status Load(uint64_t first, uint64_t count);

  // Of `count` elements from the window's `offset` on. Spans live until the next call.
  std::span<const std::byte> Bytes(uint64_t offset, uint64_t count) const;
  Reals Numbers(uint64_t offset) const;  // where they lie, of a vector_type
  std::span<const double> Floats(uint64_t offset, uint64_t count);   // complex: (re, im)
  std::span<const double> Complex(uint64_t offset, uint64_t count);  // (re, im) whatever the dtype
  std::span<const __int128> Integers(uint64_t offset, uint64_t count);
  std::span<const long double> Wide(uint64_t offset, uint64_t count);

  // The value of an element, as text that reads back. The window is another then.
  Result<std::string> Text(uint64_t element);

 private:
  DType dtype_;
  NumberFormat format_;
  std::optional<RealType> vector_type_;
  uint64_t elements_per_unit_;
  PayloadView view_;
  PageBuffer bytes_;
  std::vector<double> floats_, complex_;
  std::vector<__int128> integers_;
  std::vector<long double> wide_;
  std::optional<std::array<double, 256>> table_;  // of a format of at most 8 bits
};

}  // namespace tdump::compare
