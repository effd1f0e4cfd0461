#include "compare/made_parts.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "compare/tensor_source.h"
#include "core/plan.h"
#include "io/hash.h"
#include "io/value_parts.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kWindow = 1 << 20;

io::Slice WithoutPayload(const io::Slice& slice, uint32_t unit_bytes) {
  uint64_t bytes = unit_bytes;
  for (const int64_t size : slice.sizes) bytes *= static_cast<uint64_t>(size);
  return {.begins = slice.begins,
          .sizes = slice.sizes,
          .steps = slice.steps,
          .payload = {.stored_bytes = bytes, .logical_bytes = bytes},
          .hash = {},
          .tile_digests = {}};
}

}  // namespace

bool SameSlice(const io::Record& a, const io::Record& b) {
  return a.slice && b.slice && a.slice->begins == b.slice->begins &&
         a.slice->sizes == b.slice->sizes && a.slice->steps == b.slice->steps;
}

uint64_t SampleCount(const io::Record& record) {
  return record.sample ? record.sample->size() / std::max<uint32_t>(1, record.dtype.unit_bytes())
                       : 0;
}

LackingParts PartsLacking(const io::Record& record, const io::Record& other, bool summarised) {
  if (!record.payload || other.payload || record.sizes != other.sizes) return {};
  const bool same_numbers = StoredOnce(record) == StoredOnce(other);
  const bool comparable = same_numbers && record.dtype == other.dtype;
  if (comparable && record.hash && record.hash == other.hash) return {};
  return {.hash = other.hash && !record.hash && comparable,
          .statistics = (other.statistics || summarised) && !record.statistics && same_numbers,
          .sample = other.sample && SampleCount(record) != SampleCount(other),
          .slice = other.slice && !SameSlice(record, other)};
}

Result<io::Record> MakeParts(const io::Record& record, const io::Record& other,
                             const LackingParts& lacking, const ReadBytes& read) {
  io::Record made = record;
  if (lacking.slice) made.slice = WithoutPayload(*other.slice, record.dtype.unit_bytes());
  if (!lacking.bytes()) return made;
  Keep keep((lacking.statistics ? kPartStats : kPartNone) |
            (lacking.sample ? kPartSample : kPartNone));
  keep.sample = SampleCount(other);
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
  if (lacking.hash) made.hash = hasher.Finish();
  io::ValueParts parts = builder.Finish();
  if (parts.statistics) {
    TDUMP_ASSIGN_OR_RETURN(made.statistics, io::FromSection(*parts.statistics));
  }
  if (parts.sample) {
    const auto units = std::as_bytes(std::span(parts.sample->units));
    made.sample.emplace(units.begin(), units.end());
  }
  return made;
}

Result<ReadBytes> ReadSlice(const io::Record& record, ReadBytes read) {
  const io::Slice& slice = *record.slice;
  Source whole = SourceOf(record, std::move(read));
  Box box;
  uint64_t step = 1;
  for (size_t dim = slice.sizes.size(); dim-- > 0;) {
    box.begin.push_back(0);
    box.size.insert(box.size.begin(), static_cast<uint64_t>(slice.sizes[dim]));
    box.stride.insert(box.stride.begin(), step * static_cast<uint64_t>(slice.steps[dim]));
    box.offset += step * static_cast<uint64_t>(slice.begins[dim]);
    step *= static_cast<uint64_t>(record.sizes[dim]);
  }
  const Shape shape = box.size;
  TDUMP_ASSIGN_OR_RETURN(Source source, AssembledTensor::Make(shape, {std::move(whole)}, {box}));
  return BytesOf(std::move(source));
}

}  // namespace tdump::compare
