#include "io/part_decoder.h"

#include <fmt/format.h>

#include <utility>

#include "core/slice.h"
#include "io/byte_order.h"
#include "io/hash.h"
#include "io/payload_reader.h"
#include "io/value_parts.h"

namespace tdump::io {
namespace {

Slice ToSlice(SliceSection&& section) {
  Slice slice;
  slice.begins = std::move(section.begins);
  slice.sizes = std::move(section.sizes);
  slice.steps = std::move(section.steps);
  slice.payload = {.offset = section.offset,
                   .stored_bytes = section.stored_bytes,
                   .logical_bytes = section.logical_bytes,
                   .codec = section.codec};
  slice.hash = section.hash;
  slice.tile_digests = std::move(section.digests);
  return slice;
}

Status CheckDims(const Record& record, const Slice& slice) {
  const size_t dims = record.sizes.size();
  if (slice.begins.size() != dims || slice.sizes.size() != dims || slice.steps.size() != dims) {
    return Corrupt(fmt::format("slice: {} begins, {} sizes, {} steps for {} dimensions",
                               slice.begins.size(), slice.sizes.size(), slice.steps.size(), dims));
  }
  for (size_t i = 0; i < dims; ++i) {
    const int64_t begin = slice.begins[i], size = slice.sizes[i], step = slice.steps[i];
    int64_t last = 0;
    const bool good =
        begin >= 0 && size >= 0 && step > 0 && begin <= record.sizes[i] &&
        (size == 0 || (!__builtin_mul_overflow(size - 1, step, &last) &&
                       !__builtin_add_overflow(last, begin, &last) && last < record.sizes[i]));
    if (!good) {
      return Corrupt(fmt::format("slice: {} elements from {} in steps of {}, dimension {} has {}",
                                 size, begin, step, i, record.sizes[i]));
    }
  }
  return Status::Ok();
}

Status CheckSlice(const Record& record, uint64_t file_bytes) {
  const Slice& slice = *record.slice;
  TDUMP_RETURN_IF_ERROR(CheckDims(record, slice));
  TensorMeta meta;
  meta.dtype = record.dtype;
  meta.layout = record.layout;
  meta.sizes = slice.sizes;
  meta.strides = record.strides;
  uint64_t expected = 0;
  const PayloadRef& payload = slice.payload;
  if (!PayloadBytes(meta, &expected) || payload.logical_bytes != expected) {
    return Corrupt(fmt::format("slice: logical_bytes {}, expected {} by dtype and sizes",
                               payload.logical_bytes, expected));
  }
  if (payload.offset > file_bytes || payload.stored_bytes > file_bytes - payload.offset) {
    return Corrupt(
        fmt::format("slice: offset {} and stored_bytes {} lie outside the file's {} "
                    "bytes",
                    payload.offset, payload.stored_bytes, file_bytes));
  }
  if (payload.codec == 0 && payload.stored_bytes != payload.logical_bytes) {
    return Corrupt(fmt::format("slice: stored_bytes {}, expected logical_bytes {}",
                               payload.stored_bytes, payload.logical_bytes));
  }
  if (slice.tile_digests.size() != TileCount(payload.logical_bytes) * kDigestBytes) {
    return Corrupt(fmt::format("slice: {} bytes of digests for a payload of {} bytes",
                               slice.tile_digests.size(), payload.logical_bytes));
  }
  return Status::Ok();
}

Status CheckSample(const Record& record) {
  const uint64_t unit = record.dtype.unit_bytes();
  const uint64_t bytes = record.sample->size();
  if (unit != 0 && bytes % unit == 0 && bytes / unit <= record.numel()) return Status::Ok();
  return Corrupt(fmt::format("sample: {} bytes, expected a multiple of {} for at most {} elements",
                             bytes, unit, record.numel()));
}

}  // namespace

Status AddPart(const SectionCursor& cursor, Record* record) {
  if (cursor.id() == StatisticsSection::kId) {
    TDUMP_ASSIGN_OR_RETURN(const auto section, cursor.Decode<StatisticsSection>());
    TDUMP_ASSIGN_OR_RETURN(record->statistics, FromSection(section));
  } else if (cursor.id() == SampleSection::kId) {
    TDUMP_ASSIGN_OR_RETURN(const auto section, cursor.Decode<SampleSection>());
    const auto* units = reinterpret_cast<const std::byte*>(section.units.data());
    record->sample.emplace(units, units + section.units.size());
  } else if (cursor.id() == SliceSection::kId) {
    TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<SliceSection>());
    record->slice = ToSlice(std::move(section));
  }
  return Status::Ok();
}

Status CheckParts(uint64_t file_bytes, bool swapped, Record* record) {
  if (record->slice) TDUMP_RETURN_IF_ERROR(CheckSlice(*record, file_bytes));
  if (!record->sample) return Status::Ok();
  TDUMP_RETURN_IF_ERROR(CheckSample(*record));
  if (swapped) SwapEach(*record->sample, SwapWidth(record->dtype));
  return Status::Ok();
}

}  // namespace tdump::io
