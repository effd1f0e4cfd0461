// ValueParts: what a record keeps of its values beside hash and payload (statistics, a sample, a
// slice), made from the canonical payload as it passes by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/plan.h"
#include "core/slice.h"
#include "core/statistics.h"
#include "core/status.h"
#include "core/types.h"
#include "io/records.h"
#include "io/statistics.h"
#include "io/value_sections.h"

namespace tdump::io {

struct ValueParts {
  std::optional<StatisticsSection> statistics;
  std::optional<SampleSection> sample;
  std::optional<SliceSection> slice;  // but for where its bytes are, hash and digests
  std::vector<std::byte> slice_bytes;

  Parts kept() const {
    return (statistics ? kPartStats : kPartNone) | (sample ? kPartSample : kPartNone) |
           (slice ? kPartSlice : kPartNone);
  }
};

StatisticsSection ToSection(const Statistics& statistics);
// Error: the section contradicts itself.
Result<Statistics> FromSection(const StatisticsSection& section);

// The elements of the record that a slice is of, as a record of their own: shape, strides and
// payload are the slice's, and everything that reads payloads reads them. The record has a slice.
Record SliceAsRecord(const Record& record);

// Picks runs of bytes out of a stream that comes in pieces.
class BytePicker {
 public:
  struct Run {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  virtual ~BytePicker() = default;
  void Update(std::span<const std::byte> bytes);
  std::vector<std::byte> TakePicked() { return std::move(picked_); }

 protected:
  // The next run, behind the one before it; bytes == 0: no more.
  virtual Run Next() = 0;
  std::vector<std::byte> picked_;

 private:
  uint64_t position_ = 0;  // in the stream
  Run run_;
  bool started_ = false;
};

// One a record. Not thread-safe. The spans of `keep` and the shape are copied or used at once.
class PartsBuilder {
 public:
  // What `meta` describes; `content` says whether the bytes are all of it, or already the slice or
  // sample alone. Parts that cannot be made of `content` are not made.
  PartsBuilder(const Keep& keep, Content content, const DType& dtype,
               std::span<const int64_t> sizes, std::span<const int64_t> strides);
  ~PartsBuilder();
  PartsBuilder(PartsBuilder&&) noexcept;
  PartsBuilder& operator=(PartsBuilder&&) noexcept;

  // Canonical bytes, in order.
  void Update(std::span<const std::byte> bytes);
  // Of everything fed; once.
  ValueParts Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same of a payload that is all there. `given`: its statistics where they were made elsewhere
// (by a device), so that they need no bytes.
ValueParts PartsOf(const Keep& keep, Content content, const DType& dtype,
                   std::span<const int64_t> sizes, std::span<const int64_t> strides,
                   std::span<const std::byte> payload, const Statistics* given = nullptr);

}  // namespace tdump::io
