// ValueStream: the elements of a record's payload in logical row-major order,
// read through a window of bounded size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "io/pass_reader.h"
#include "io/value.h"

namespace tdump::tools {

class ValueStream {
 public:
  // Both outlive the stream. The record keeps its payload.
  ValueStream(const io::PassReader* reader, const io::Record* record);

  // Goes on at this unit. Precondition: unit <= units().
  void Seek(uint64_t unit);
  bool done() const { return next_ == units_; }
  uint64_t units() const { return units_; }  // logical
  // The next unit, on to the one behind. Valid until the next call. Error: damaged or unreadable.
  Result<std::span<const std::byte>> Next();
  // The elements of a unit as text, several with a space between.
  std::string Text(std::span<const std::byte> unit) const;
  const io::ValueDecoder& decoder() const { return decoder_; }

 private:
  void Advance();
  Status Load(uint64_t offset);

  const io::PassReader* reader_;
  const io::Record* record_;
  io::ValueDecoder decoder_;
  uint64_t units_ = 0, next_ = 0;
  std::vector<uint64_t> position_, stored_strides_;  // by dimension; empty: nothing is stored once
  uint64_t stored_index_ = 0;
  std::vector<std::byte> window_;
  uint64_t window_begin_ = 0;
};

// What is to be said about all values of a record: from its statistics, else from its values.
struct Measure {
  uint64_t nan = 0, infinite = 0;
  double absmax = -1;       // of what is not NaN; -1: nothing is
  std::string absmax_text;  // exact
  double rms = -1;          // of what is finite; -1: nothing is
};
Measure MeasureOf(const Statistics& statistics);
Result<Measure> MeasureRecord(const io::PassReader& reader, const io::Record& record);

}  // namespace tdump::tools
