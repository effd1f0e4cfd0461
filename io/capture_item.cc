#include "io/capture_item.h"

#include "core/utf8.h"
#include "io/hash.h"

namespace tdump::io {
namespace {

constexpr Parts kFromPayload = kPartPayload | kPartSample | kPartSlice;

uint8_t RecordFlags(const Call& call, const Observation& observation) {
  const TensorMeta& meta = observation.meta;
  return static_cast<uint8_t>((call.recompute ? 1 : 0) | (call.compiled ? 2 : 0) |
                              (observation.late ? 4 : 0) | (meta.conj ? 8 : 0) |
                              (meta.neg ? 16 : 0) | (meta.requires_grad ? 32 : 0));
}

void ReadCall(const Call& call, RecordSection* record) {
  record->op_id = call.op;
  record->call_begin = call.begin;
  record->call_index = call.index;
  record->micro = call.micro;
  record->chunk = call.chunk;
  record->lane = call.lane;
  record->phase = static_cast<uint8_t>(call.phase);
}

void ReadMeta(const TensorMeta& meta, RecordSection* record) {
  record->layout = static_cast<uint8_t>(meta.layout);
  record->bits_per_element = meta.dtype.bits_per_element;
  record->elements_per_unit = meta.dtype.elements_per_unit;
  record->sizes.assign(meta.sizes.begin(), meta.sizes.end());
  record->strides.assign(meta.strides.begin(), meta.strides.end());
  record->storage_offset = meta.storage_offset;
  record->storage_id = meta.storage_id;
  record->storage_bytes = meta.storage_bytes;
}

// False: there is nothing to say.
bool ReadShard(const Observation& seen, ShardSection* shard) {
  const TensorMeta& meta = seen.meta;
  if (seen.dims.empty() && seen.placements.empty() && seen.mesh.empty() &&
      seen.global_shape.empty() && meta.dim_names.empty() && meta.subclass.empty())
    return false;
  shard->dims.assign(seen.dims);
  shard->placements.assign(seen.placements);
  shard->mesh.assign(seen.mesh);
  shard->global_shape.assign(seen.global_shape.begin(), seen.global_shape.end());
  shard->dim_names.assign(meta.dim_names);
  shard->subclass.assign(meta.subclass);
  return true;
}

}  // namespace

void CaptureItem::ReadFixed(const CaptureEntry& entry) {
  const Observation& seen = entry.observation;
  ReadCall(entry.call, &record);
  ReadMeta(seen.meta, &record);
  record.record = entry.record;
  record.role = static_cast<uint8_t>(seen.role);
  record.flags = RecordFlags(entry.call, seen);
  record.seen = entry.seen;
  record.parts_asked = entry.keep.parts;
  record.parts_kept = 0;
  record.filter_sets = seen.filter_sets;
  arg = seen.arg;
  device = seen.meta.device;
  dtype = seen.meta.dtype;
  has_shard = ReadShard(seen, &shard);
  earlier = entry.earlier;
  keep = entry.keep;
  content = seen.content;
  values = {};
  statistics = nullptr;
  digests = {};
  hash = nullptr;
}

void CaptureItem::Read(const CaptureEntry& entry) {
  ReadFixed(entry);
  SetReason(entry.reason, entry.detail);
  statistics = entry.statistics;
  hash = entry.hash;
  if (entry.copy == nullptr) {
    if (entry.stream == CaptureEntry::Stream::kNone) values = {entry.payload, entry.bytes};
  } else if (entry.reason == SkipReason::kNone) {
    values = entry.copy->payload();
    statistics = entry.copy->statistics();
    digests = entry.copy->digests();
    if (values.empty() && entry.bytes != 0 && (entry.keep.parts & kFromPayload) != 0) ReadSummary();
  }
}

// The staging of the device had no room for the payload.
void CaptureItem::ReadSummary() {
  SetReason(SkipReason::kStagingLimit, "");
  summary = HashOfDigests(digests);
  hash = &summary;
}

void CaptureItem::ReadUncommitted(const CaptureEntry& entry, SkipReason reason) {
  ReadFixed(entry);
  SetReason(reason, "");
}

void CaptureItem::SetReason(SkipReason reason, std::string_view detail) {
  record.reason = static_cast<uint8_t>(reason);
  record.reason_detail.assign(CutUtf8(detail, kMaxReasonDetail));
}

}  // namespace tdump::io
