// TensorSource: the elements of a tensor in row-major order, wherever they lie: in one record, in
// the shards of several ranks, in a slice of a fused projection, in another order of dimensions.
//
// Sizes and offsets are in units (core/types.h: a unit of a packed dtype holds several elements).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compare/payload_view.h"
#include "core/status.h"
#include "core/types.h"
#include "io/records.h"

namespace tdump::compare {

using Shape = std::vector<uint64_t>;
// The product; false: it does not fit in 64 bits.
bool UnitsOf(const Shape& shape, uint64_t* units);
// Of unit `unit` in row-major order, and the other way. Precondition: inside; as many dimensions.
void IndexOf(uint64_t unit, const Shape& shape, Shape* index);
uint64_t UnitAt(std::span<const uint64_t> index, const Shape& shape);

// Not thread-safe.
class TensorSource {
 public:
  // Precondition: the units of `shape` fit in 64 bits.
  TensorSource(DType dtype, Shape shape);
  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  const DType& dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  uint64_t units() const { return units_; }

  // The bytes of units [first, ...) until `out`, a whole number of units, is full. Precondition:
  // inside the tensor. Sequential use is fast. Errors: the payload's (kCorrupt).
  virtual Status Read(uint64_t first, std::span<std::byte> out) = 0;

 private:
  DType dtype_;
  Shape shape_;
  uint64_t units_ = 1;
};

using Source = std::shared_ptr<TensorSource>;

// A record's tensor. `read`: its canonical payload.
Source SourceOf(const io::Record& record, ReadBytes read);
// The other way: bytes of a source in row-major order, for what takes a payload. Thread-safe.
ReadBytes BytesOf(Source source);
// The same units under another shape. Precondition: as many.
Source Reshaped(Source source, Shape shape);

// A box of the assembled tensor and where its units lie in a source: unit [i0, i1, ...] of the box
// at offset + i0 * stride[0] + i1 * stride[1] + ... of it.
struct Box {
  Shape begin, size;
  size_t source = 0;
  uint64_t offset = 0;
  std::vector<uint64_t> stride;
};

inline constexpr size_t kMaxBoxes = size_t{1} << 20;  // of a tensor

// A tensor put together from boxes of others: concatenated along dimensions evenly or not, in any
// order of pieces, sliced, its dimensions permuted. Memory: the boxes, and read-ahead of at most 64
// MiB over all sources (and a window of 16 MiB where a box is transposed).
class AssembledTensor : public TensorSource {
 public:
  // Errors (kInvalidArgument): the boxes overlap, leave a hole or reach beyond the tensor or a
  // source; sources of different dtypes; more than kMaxBoxes.
  static Result<Source> Make(Shape shape, std::vector<Source> sources, std::vector<Box> boxes);
  ~AssembledTensor() override;

  Status Read(uint64_t first, std::span<std::byte> out) override;

 private:
  struct Impl;
  explicit AssembledTensor(DType dtype, Shape shape, std::unique_ptr<Impl> impl);
  Status ReadRuns(uint64_t first, std::span<std::byte> out);
  Status ReadWindows(uint64_t first, std::span<std::byte> out);

  std::unique_ptr<Impl> impl_;
};

// The sum of sources of one shape and dtype, what ranks hold of a partial result, divided by
// `divisor`. Floats are summed and divided in double and rounded once, to nearest even, to their
// dtype; integers wrap as they do in a reduction of that dtype.
class SummedTensor : public TensorSource {
 public:
  // Error (kInvalidArgument): shapes or dtypes differ, it is no dtype of real numbers, or integers
  // are to be divided.
  static Result<Source> Make(std::vector<Source> sources, uint64_t divisor = 1);

  Status Read(uint64_t first, std::span<std::byte> out) override;

 private:
  SummedTensor(std::vector<Source> sources, uint64_t divisor);
  Status ReadTile(uint64_t first, std::span<std::byte> out);

  const std::vector<Source> sources_;
  const uint64_t divisor_;
  std::vector<std::byte> bytes_;
  std::vector<double> numbers_, sums_;
  std::vector<__int128> integers_, integer_sums_;
};

}  // namespace tdump::compare
