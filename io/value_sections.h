// Companions of a record (io/sections.h) that say something of its values without the payload.
// Floating-point numbers are stored as the bits of their double.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tdump::io {

// With kPartStats (core/statistics.h).
struct StatisticsSection {
  static constexpr uint32_t kId = 0x0506;
  uint8_t kind = 0;  // StatisticsKind
  uint64_t count = 0;
  uint64_t finite = 0;
  uint64_t nan = 0;
  uint64_t positive_inf = 0;
  uint64_t negative_inf = 0;
  uint64_t zeros = 0;
  uint64_t negative_zeros = 0;
  uint64_t min = 0;
  uint64_t max = 0;
  uint64_t mean = 0;
  uint64_t std = 0;
  uint64_t mean_abs = 0;
  uint64_t l1 = 0;
  uint64_t l2 = 0;
  uint8_t first_bin = 0;
  std::vector<uint64_t> histogram;  // from first_bin on, to the last bin that is not empty
  std::vector<uint64_t> exact;      // of integers: min, max, sum as low and high words; else empty
  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, count, finite, nan, positive_inf, negative_inf, zeros, negative_zeros, min, max,
            mean, std, mean_abs, l1, l2, first_bin, histogram, exact);
  }
};

// With kPartSample: the units at SampleIndex (core/slice.h) of the tensor.
struct SampleSection {
  static constexpr uint32_t kId = 0x0507;
  std::vector<uint8_t> units;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(units);
  }
};

// With kPartSlice, where the payload is not kept: which elements, and where they are. They stand in
// a payload frame of their own, in canonical form, never shared.
struct SliceSection {
  static constexpr uint32_t kId = 0x0508;
  std::vector<int64_t> begins;  // one a dimension
  std::vector<int64_t> sizes;
  std::vector<int64_t> steps;
  uint64_t offset = 0;
  uint64_t stored_bytes = 0;
  uint64_t logical_bytes = 0;
  uint8_t codec = 0;
  std::array<uint8_t, 16> hash{};
  std::vector<uint8_t> digests;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(begins, sizes, steps, offset, stored_bytes, logical_bytes, codec, hash, digests);
  }
};

}  // namespace tdump::io
