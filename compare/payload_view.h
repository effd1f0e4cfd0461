// PayloadView: the logical elements of a tensor in row-major order, read from its canonical payload
// (stride-0 dimensions stored once) in pieces of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/status.h"
#include "io/records.h"

namespace tdump::compare {

// Reads canonical payload bytes [offset, offset + out.size()).
using ReadBytes = std::function<Status(uint64_t offset, std::span<std::byte> out)>;
ReadBytes FromMemory(std::span<const std::byte> payload);
// Sequential reads of any size, of `total` bytes that `read` is asked for in large aligned pieces.
// For one thread at a time; holds one piece.
ReadBytes InLargePieces(ReadBytes read, uint64_t total);

// Which dimensions the payload stores once although they have more than one element.
std::vector<bool> StoredOnce(const io::Record& record);

// Strides of the sizes in row-major order; a size of 0 counts as 1. Of more than 2^64 elements they
// wrap.
std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& sizes);

// Not thread-safe. Holds one buffer of at most 64 KiB besides what the caller asks for.
class PayloadView {
 public:
  // `skip`: dimensions left out of the walk (both sides of a pair store them once); may be empty.
  PayloadView(const io::Record& record, ReadBytes read, const std::vector<bool>& skip);

  uint64_t units() const { return units_; }  // of the walk
  // Units [first, first + count) of the walk. Sequential use is fast; random use is right.
  Status Read(uint64_t first, std::span<std::byte> out);

 private:
  Status ReadRun(uint64_t run, uint64_t within, std::span<std::byte> out);
  Status FillBuffer(uint64_t offset);

  uint32_t unit_bytes_;
  ReadBytes read_;
  uint64_t units_ = 1;
  // The walk is `outer` runs of `run_` consecutive units, or, with `repeat_`, of one unit repeated.
  uint64_t run_ = 1;
  bool repeat_ = false;
  struct Dim {
    uint64_t size;
    uint64_t step;  // in units of the payload; 0: stored once
  };
  std::vector<Dim> outer_;
  std::vector<std::byte> buffer_;
  uint64_t buffer_offset_ = 0;
};

}  // namespace tdump::compare
