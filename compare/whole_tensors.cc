#include "compare/whole_tensors.h"

#include <fmt/format.h>

namespace tdump::compare {
namespace {

void AddText(std::string* text, const std::string& more) {
  if (more.empty()) return;
  if (!text->empty()) *text += "; ";
  *text += more;
}

// The record of a tensor that is put together: the first shard's, but for what it has of its own.
io::Record RecordOfWhole(const io::Record& first, const Shape& shape, const DType& dtype,
                         bool has_payload) {
  io::Record record = first;
  record.dtype = dtype;
  record.layout = Layout::kStrided;
  record.sizes.assign(shape.begin(), shape.end());
  record.strides = ContiguousStrides(record.sizes);
  record.storage_offset = 0;
  record.hash.reset();
  record.tile_digests.clear();
  record.statistics.reset();
  record.sample.reset();
  record.slice.reset();
  record.payload.reset();
  record.parts_kept = kPartMeta | (has_payload ? kPartPayload : kPartNone);
  if (!has_payload) return record;
  uint64_t units = 1;
  for (const uint64_t size : shape) units *= size;  // checked when it was planned
  const uint64_t bytes = units * dtype.unit_bytes();
  record.payload = io::PayloadRef{.stored_bytes = bytes, .logical_bytes = bytes};
  return record;
}

// Whether the tensor is one record, as it lies.
bool IsPlain(const LoadedShards& shards, const LayoutCandidate& layout) {
  return layout.is_one_shard() && shards.data[layout.plan.shards.front()].mapped.part.whole;
}

// Shard `other` in the place of `first`.
LayoutCandidate Exchanged(LayoutCandidate layout, const DifferingReplica& replica) {
  for (size_t& shard : layout.plan.shards) {
    if (shard == replica.first) shard = replica.other;
  }
  return layout;
}

std::string Note(const LoadedShards& shards, const DifferingReplica& replica) {
  const auto rank = [&](size_t shard) {
    return shards.set.step->RankOf(shards.set.refs[shard].member);
  };
  return fmt::format("rank {} differs from rank {}", rank(replica.other), rank(replica.first));
}

WholeTensor TensorOf(const LoadedShards& shards, const LayoutCandidate& layout, std::string how) {
  WholeTensor tensor;
  tensor.how = std::move(how);
  if (shards.set.refs.size() == 1)
    tensor.rank = shards.set.step->RankOf(shards.set.refs.front().member);
  if (IsPlain(shards, layout)) {
    const size_t shard = layout.plan.shards.front();
    tensor.record = shards.data[shard].record;
    tensor.shards = {shards.set.refs[shard]};
    return tensor;
  }
  tensor.record = RecordOfWhole(shards.data.front().record, layout.shape(), layout.plan.dtype,
                                shards.set.has_payload);
  tensor.shards = shards.set.refs;
  tensor.layout = std::make_shared<const LayoutCandidate>(layout);
  return tensor;
}

}  // namespace

std::vector<WholeTensor> TensorsOf(const LoadedShards& shards, const LayoutCandidate& layout,
                                   const std::string& how) {
  std::vector<WholeTensor> tensors;
  std::string text = how;
  AddText(&text, shards.data.front().mapped.note);
  const auto differing = DifferingReplicas(shards.set, layout.plan);
  if (!differing.ok()) {
    tensors.push_back(TensorOf(shards, layout, text));
    tensors.back().state = differing.status();
    return tensors;
  }
  tensors.push_back(TensorOf(shards, layout, text));
  for (const DifferingReplica& replica : *differing) {
    std::string own = text;
    AddText(&own, Note(shards, replica));
    tensors.push_back(TensorOf(shards, Exchanged(layout, replica), own));
  }
  if (tensors.size() == 1) return tensors;
  AddText(&tensors.front().how, fmt::format("{} of its copies differ", differing->size()));
  for (WholeTensor& tensor : tensors) {
    if (!tensor.layout) tensor.rank = shards.set.step->RankOf(tensor.shards.front().member);
  }
  return tensors;
}

WholeTensor FailedTensor(const LoadedShards& shards, const Status& status) {
  WholeTensor tensor;
  tensor.state = status;
  if (!shards.data.empty()) tensor.record = shards.data.front().record;
  tensor.shards = {shards.set.refs.front()};
  return tensor;
}

}  // namespace tdump::compare
