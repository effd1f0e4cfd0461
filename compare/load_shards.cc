#include "compare/load_shards.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "compare/dtensor.h"
#include "compare/pass_diff.h"
#include "compare/record_patterns.h"
#include "compare/shard_digests.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

GivenDims Given(const Dims& dims, const JobStep& step, const char* source) {
  return {dims, step.topology(), source, {}, {}};
}

std::optional<GivenDims> Annotated(const io::Record& record, const JobStep& step) {
  if (!record.dims.empty()) {
    if (const auto dims = Dims::Parse(record.dims); dims.ok())
      return Given(*dims, step, "annotated");
  }
  if (record.placements.empty()) return std::nullopt;
  const auto mesh = ParseMesh(record.mesh, step.world());
  if (!mesh.ok()) return std::nullopt;
  const auto dims = DimsOfPlacements(record.placements, mesh->axes, record.global_shape);
  if (!dims.ok()) return std::nullopt;
  return GivenDims{*dims, mesh->topology, "annotated", {}, {}};
}

std::string SharedName(const io::Record& record, const Key& key) {
  io::Record renamed = record;
  renamed.key = key;
  return NameOf(renamed);
}

bool SamePart(const TensorPart& x, const TensorPart& y) {
  return x.shape == y.shape && x.box == y.box && x.offset == y.offset && x.stride == y.stride;
}

// The ranks' parts are mostly the same one.
void AddPart(const TensorPart& part, const ShardRef* before, ShardRef* ref) {
  if (part.whole) return;
  const bool same = before != nullptr && before->part && SamePart(*before->part, part);
  ref->part = same ? before->part : std::make_shared<const TensorPart>(part);
}

Status AddMembers(const JobStep& step, const Group& group, LoadedShards* loaded) {
  ShardSet& set = loaded->set;
  set.has_payload = true;
  for (const Member& member : group.members) {
    TDUMP_ASSIGN_OR_RETURN(MemberData data, step.DataOf(member));
    data.record.tile_digests.clear();
    ShardRef ref{member, nullptr};
    AddPart(data.mapped.part, set.refs.empty() ? nullptr : &set.refs.back(), &ref);
    Shard shard = ShardOf(step.RankOf(member), data.record);
    shard.shape = data.shape();
    if (data.record.hash) set.hashes.push_back(*data.record.hash);
    set.has_payload &= data.record.payload.has_value();
    set.refs.push_back(std::move(ref));
    set.shards.push_back(std::move(shard));
    loaded->data.push_back(std::move(data));
  }
  if (set.hashes.size() != set.refs.size()) set.hashes.clear();
  return {};
}

void AddGiven(char side, const std::vector<DimsRule>& rules, LoadedShards* loaded) {
  ShardSet& set = loaded->set;
  const MemberData& first = loaded->data.front();
  const std::string names[] = {set.name, loaded->shared_name, ToText(first.record.key),
                               PlainKey(first.record.key), loaded->shared_key};
  const auto matches = [&](const DimsRule& rule) {
    return std::any_of(std::begin(names), std::end(names), rule.matches);
  };
  for (const DimsRule& rule : rules) {
    if (rule.side != 0 && rule.side != side) continue;
    if (!matches(rule) || !rule.dims.Expanded(first.shape().size()).ok()) continue;
    set.given.push_back(Given(rule.dims, *set.step, "--dims"));
    return;
  }
  if (auto annotated = Annotated(first.record, *set.step)) {
    set.given.push_back(std::move(*annotated));
    return;
  }
  for (const std::string& text : first.mapped.dims) {
    if (const auto dims = Dims::Parse(text); dims.ok())
      set.given.push_back(Given(*dims, *set.step, "map"));
  }
}

void AddNumbers(const Key& key, RecordNumbers* numbers, GivenDims* given) {
  for (const std::string& record : given->dims.Records()) {
    auto found = numbers->Find(record, key);
    if (found.ok())
      given->numbers["@" + record] = std::move(*found);
    else if (given->lacking.ok())
      given->lacking = std::move(found).status();
  }
}

}  // namespace

LoadedShards LoadShards(const JobStep& step, char side, const Group& group,
                        const std::vector<DimsRule>& rules, RecordNumbers* numbers) {
  LoadedShards loaded;
  ShardSet& set = loaded.set;
  set.step = &step;
  set.role = group.key.role;
  set.topology = step.topology();
  loaded.status = AddMembers(step, group, &loaded);
  if (!loaded.status.ok()) {
    set.refs.assign(1, {group.members.front(), nullptr});
    return loaded;
  }
  if (auto digests = ShardDigests(loaded); !digests.ok())
    loaded.status = std::move(digests).status();
  else if (!digests->empty())
    set.hashes = *std::move(digests);
  const MemberData& first = loaded.data.front();
  set.name = NameOf(first.record);
  set.cls = first.record.cls;
  set.padded = first.mapped.padded;
  loaded.shared_name = SharedName(first.record, group.key);
  loaded.shared_key = ToText(group.key);
  AddGiven(side, rules, &loaded);
  for (GivenDims& given : set.given) AddNumbers(first.record.key, numbers, &given);
  return loaded;
}

}  // namespace tdump::compare
