#include "compare/made_parts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/plan.h"
#include "io/hash.h"
#include "io/value_parts.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kWindow = 1 << 20;

// The ranges that a rule would have had.
std::vector<SliceRange> RangesOf(const io::Slice& slice) {
  std::vector<SliceRange> ranges;
  for (size_t dim = 0; dim < slice.begins.size(); ++dim) {
    const int64_t begin = slice.begins[dim], size = slice.sizes[dim], step = slice.steps[dim];
    ranges.push_back(
        {.begin = begin, .end = size == 0 ? begin : begin + (size - 1) * step + 1, .step = step});
  }
  return ranges;
}

}  // namespace

LackingParts PartsLacking(const io::Record& record, const io::Record& other, bool summarised) {
  if (!record.payload || other.payload || record.sizes != other.sizes) return {};
  const bool same_numbers = StoredOnce(record) == StoredOnce(other);
  const bool comparable = same_numbers && record.dtype == other.dtype;
  if (comparable && record.hash && record.hash == other.hash) return {};
  return {.hash = other.hash && !record.hash && comparable,
          .statistics = (other.statistics || summarised) && !record.statistics && same_numbers,
          .sample = other.sample && !record.sample,
          .slice = other.slice && !record.slice};
}

Result<MadeParts> MakeParts(const io::Record& record, const io::Record& other,
                            const LackingParts& lacking, const ReadBytes& read) {
  std::vector<SliceRange> ranges;
  Keep keep((lacking.statistics ? kPartStats : kPartNone) |
            (lacking.sample ? kPartSample : kPartNone) | (lacking.slice ? kPartSlice : kPartNone));
  if (lacking.sample) keep.sample = other.sample->size() / record.dtype.unit_bytes();
  if (lacking.slice) keep.slice = ranges = RangesOf(*other.slice);
  io::PartsBuilder builder(keep, Content::kWhole, record.dtype, record.sizes, record.strides);
  io::TileHasher hasher;
  const uint64_t bytes = record.payload->logical_bytes;
  std::vector<std::byte> window(std::min(bytes, kWindow));
  for (uint64_t at = 0; at < bytes; at += window.size()) {
    const std::span piece(window.data(), std::min<uint64_t>(window.size(), bytes - at));
    TDUMP_RETURN_IF_ERROR(read(at, piece));
    builder.Update(piece);
    if (lacking.hash) hasher.Update(piece);
  }
  MadeParts made{.record = record, .slice = {}};
  if (lacking.hash) made.record.hash = hasher.Finish();
  io::ValueParts parts = builder.Finish();
  if (parts.statistics) {
    TDUMP_ASSIGN_OR_RETURN(made.record.statistics, io::FromSection(*parts.statistics));
  }
  if (parts.sample) {
    const auto units = std::as_bytes(std::span(parts.sample->units));
    made.record.sample.emplace(units.begin(), units.end());
  }
  if (parts.slice) {
    const uint64_t kept = parts.slice_bytes.size();
    made.slice = std::move(parts.slice_bytes);
    made.record.slice = io::Slice{.begins = std::move(parts.slice->begins),
                                  .sizes = std::move(parts.slice->sizes),
                                  .steps = std::move(parts.slice->steps),
                                  .payload = {.logical_bytes = kept},
                                  .hash = {},
                                  .tile_digests = {}};
  }
  return made;
}

}  // namespace tdump::compare
