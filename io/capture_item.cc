#include "io/capture_item.h"

#include <algorithm>

namespace tdump::io {
namespace {

constexpr size_t kReasonDetail = 200;

uint8_t RecordFlags(const Call& call, const Observation& observation) {
  const TensorMeta& meta = observation.meta;
  return static_cast<uint8_t>((call.recompute ? 1 : 0) | (call.compiled ? 2 : 0) |
                              (observation.late ? 4 : 0) | (meta.conj ? 8 : 0) |
                              (meta.neg ? 16 : 0) | (meta.requires_grad ? 32 : 0));
}

}  // namespace

void CaptureItem::SetRecord(const Call& from, const Observation& observation, const Keep& kept,
                            uint64_t seen) {
  const TensorMeta& meta = observation.meta;
  record.op_id = from.op;
  record.call_begin = from.begin;
  record.call_index = from.index;
  record.micro = from.micro;
  record.chunk = from.chunk;
  record.lane = from.lane;
  record.phase = static_cast<uint8_t>(from.phase);
  record.role = static_cast<uint8_t>(observation.role);
  record.flags = RecordFlags(from, observation);
  record.layout = static_cast<uint8_t>(meta.layout);
  record.bits_per_element = meta.dtype.bits_per_element;
  record.elements_per_unit = meta.dtype.elements_per_unit;
  record.sizes.assign(meta.sizes.begin(), meta.sizes.end());
  record.strides.assign(meta.strides.begin(), meta.strides.end());
  record.storage_offset = meta.storage_offset;
  record.storage_id = meta.storage_id;
  record.storage_bytes = meta.storage_bytes;
  record.seen = seen;
  record.parts_asked = kept.parts;
  keep = kept;
  content = observation.content;
  statistics = nullptr;
  digests = {};
  record.parts_kept = 0;
  record.filter_sets = observation.filter_sets;
  record.reason = 0;
  record.reason_detail.clear();
  arg.assign(observation.arg);
  device.assign(meta.device);
  dtype = meta.dtype;
  shard.dims.assign(observation.dims);
  shard.placements.assign(observation.placements);
  shard.mesh.assign(observation.mesh);
  shard.global_shape.assign(observation.global_shape.begin(), observation.global_shape.end());
  shard.dim_names.assign(meta.dim_names);
  shard.subclass.assign(meta.subclass);
  has_shard = !shard.dims.empty() || !shard.placements.empty() || !shard.mesh.empty() ||
              !shard.global_shape.empty() || !shard.dim_names.empty() || !shard.subclass.empty();
}

void CaptureItem::SetReason(SkipReason reason, std::string_view detail) {
  record.reason = static_cast<uint8_t>(reason);
  size_t bytes = std::min(detail.size(), kReasonDetail);
  while (bytes > 0 && bytes < detail.size() &&
         (static_cast<unsigned char>(detail[bytes]) & 0xC0) == 0x80)
    --bytes;
  record.reason_detail.assign(detail.substr(0, bytes));
}

}  // namespace tdump::io
