#include "compare/whole_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compare/payload_view.h"
#include "compare/product.h"

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
  const uint64_t bytes = ProductOf(shape) * dtype.unit_bytes();
  record.payload = io::PayloadRef{.stored_bytes = bytes, .logical_bytes = bytes};
  return record;
}

// Whether the tensor is one record, as it lies; so are its copies.
bool IsPlain(const LoadedShards& shards, const LayoutCandidate& layout) {
  return layout.is_one_shard() && std::none_of(shards.set.refs.begin(), shards.set.refs.end(),
                                               [](const ShardRef& ref) { return ref.part; });
}

WholeTensor TensorOf(const LoadedShards& shards, const LayoutCandidate& layout,
                     const std::vector<DifferingReplica>& differing) {
  const ShardSet& set = shards.set;
  WholeTensor tensor;
  if (set.refs.size() == 1) tensor.rank = set.step->RankOf(set.refs.front().member);
  std::unordered_map<size_t, uint32_t> kept;  // by index in the set: that in the tensor
  const auto keep = [&](size_t shard) {
    const auto [place, added] = kept.emplace(shard, static_cast<uint32_t>(kept.size()));
    if (added) tensor.shards.push_back(set.refs[shard]);
    return place->second;
  };
  std::vector<size_t> read;
  for (const size_t shard : layout.plan.shards) read.push_back(keep(shard));
  for (const DifferingReplica& replica : differing)
    tensor.copies.push_back({keep(replica.first), keep(replica.other)});
  if (IsPlain(shards, layout)) {
    tensor.record = shards.data[layout.plan.shards.front()].record;
    return tensor;
  }
  tensor.record =
      RecordOfWhole(shards.data.front().record, layout.shape(), layout.plan.dtype, set.has_payload);
  auto own = std::make_shared<LayoutCandidate>(layout);
  own->plan.shards = std::move(read);
  own->plan.replicas = {};
  tensor.layout = std::move(own);
  return tensor;
}

constexpr Parts kTelling = kPartStats | kPartSample | kPartSlice | kPartPayload;

bool Tells(const MemberData& data) { return (data.record.parts_kept & kTelling) != 0; }

// Whether what is taken for copies may differ unseen: the ranks kept nothing in common.
bool HasUnknownCopies(const ShardSet& set, const LayoutCandidate& layout) {
  return !layout.plan.replicas.empty() && set.hashes.empty() && !set.has_payload;
}

bool IsWhole(const ShardSet& set, const LayoutCandidate& layout, Proof proof) {
  if (HasUnknownCopies(set, layout)) return false;
  if (proof == Proof::kSaid) return true;
  const auto differing = DifferingReplicas(set, layout.plan);
  return differing.ok() && differing->empty();
}

// Those of which something may be compared.
std::vector<DifferingReplica> UnknownCopies(const LoadedShards& shards,
                                            const LayoutCandidate& layout) {
  std::vector<DifferingReplica> copies;
  if (!IsPlain(shards, layout) || !HasUnknownCopies(shards.set, layout)) return copies;
  for (const ReplicaGroup& group : layout.plan.replicas) {
    for (const size_t other : group.others) {
      const MemberData& data = shards.data[other];
      if (data.record.hash || Tells(data)) copies.push_back({group.first, other});
    }
  }
  return copies;
}

bool IsJoined(const LayoutCandidate& layout) {
  return !layout.is_one_shard() && layout.plan.summands.size() == 1 && !layout.rearrangement &&
         layout.crop.empty();
}

// Those of the shards, in the order of the plan; none: some have none, or parts of records alone.
std::optional<std::vector<io::Hash128>> HashesOfShards(const JoinedSide& side) {
  std::vector<io::Hash128> hashes;
  for (const size_t shard : side.layout->plan.shards) {
    const auto& hash = side.shards->data[shard].record.hash;
    if (!hash || side.shards->set.refs[shard].part) return std::nullopt;
    hashes.push_back(*hash);
  }
  return hashes;
}

// A hash is of what is stored, which of an expanded tensor is less.
bool AreStoredAlike(const JoinedSide& a, const JoinedSide& b) {
  const auto is_like = [&](size_t x, size_t y) {
    return StoredOnce(a.shards->data[x].record) == StoredOnce(b.shards->data[y].record);
  };
  const std::vector<size_t>&of_a = a.layout->plan.shards, &of_b = b.layout->plan.shards;
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), is_like);
}

}  // namespace

io::Hash128 JoinedHash(const std::vector<io::Hash128>& shards) {
  return io::HashPayload(std::as_bytes(std::span(shards)));
}

bool AreWhole(const LoadedShards& a, const LoadedShards& b,
              const Result<ResolvedLayouts>& layouts) {
  return layouts.ok() && IsWhole(a.set, layouts->a, layouts->proof_a) &&
         IsWhole(b.set, layouts->b, layouts->proof_b);
}

bool LieAtOnePlace(const LayoutCandidate& a, const LayoutCandidate& b) {
  return (a.is_one_shard() && b.is_one_shard()) || AreJoinedAlike(a, b);
}

bool AreJoinedAlike(const LayoutCandidate& a, const LayoutCandidate& b) {
  if (!IsJoined(a) || !IsJoined(b)) return false;
  const auto is_like = [](const Box& x, const Box& y) {
    return x.source == y.source && x.begin == y.begin && x.size == y.size && x.offset == y.offset &&
           x.stride == y.stride;
  };
  const std::vector<Box>&of_a = a.plan.summands.front(), &of_b = b.plan.summands.front();
  return a.plan.split_shape == b.plan.split_shape && a.plan.dtype == b.plan.dtype &&
         std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), is_like);
}

bool IsUnjoinable(const LoadedShards& a, const LoadedShards& b, const ResolvedLayouts& layouts) {
  const auto is_known = [&](const LoadedShards& of) {
    return of.set.has_payload || std::ranges::all_of(of.data, [](const MemberData& data) {
             return data.record.hash.has_value();
           });
  };
  const bool is_joined = !layouts.a.is_one_shard() || !layouts.b.is_one_shard();
  const bool is_unknown = (is_joined && (!is_known(a) || !is_known(b))) ||
                          HasUnknownCopies(a.set, layouts.a) || HasUnknownCopies(b.set, layouts.b);
  return is_unknown && std::ranges::any_of(a.data, Tells) && std::ranges::any_of(b.data, Tells);
}

void HashJoined(const JoinedSide& a, const JoinedSide& b) {
  if (!a.tensor->layout || !b.tensor->layout || !AreJoinedAlike(*a.layout, *b.layout)) return;
  const auto of_a = HashesOfShards(a), of_b = HashesOfShards(b);
  if (!of_a || !of_b || !AreStoredAlike(a, b)) return;
  const bool may_differ = *of_a != *of_b || !a.tensor->copies.empty() || !b.tensor->copies.empty();
  for (const auto& [tensor, own, other] :
       {std::tuple(a.tensor, &*of_a, &*of_b), {b.tensor, &*of_b, &*of_a}}) {
    tensor->record.hash = JoinedHash(*own);
    tensor->record.parts_kept |= kPartHash;
    if (!may_differ) continue;
    tensor->hashes = *own;
    tensor->other_hashes = *other;
  }
}

WholeTensor TensorOf(const LoadedShards& shards, const LayoutCandidate& layout, std::string how) {
  AddText(&how, shards.data.front().mapped.note);
  const auto differing = DifferingReplicas(shards.set, layout.plan);
  const std::vector<DifferingReplica> unknown = UnknownCopies(shards, layout);
  WholeTensor tensor =
      TensorOf(shards, layout, differing.ok() && !differing->empty() ? *differing : unknown);
  tensor.state = differing.status();
  tensor.how = tensor.how_copies = std::move(how);
  if (!unknown.empty())
    AddText(&tensor.how, "its copies are compared one by one");
  else if (!tensor.copies.empty())
    AddText(&tensor.how, fmt::format("{} of its copies differ", tensor.copies.size()));
  return tensor;
}

WholeTensor FailedTensor(const LoadedShards& shards, const Status& status) {
  WholeTensor tensor;
  tensor.state = status;
  if (!shards.data.empty()) tensor.record = shards.data.front().record;
  tensor.shards = {shards.set.refs.front()};
  return tensor;
}

}  // namespace tdump::compare
