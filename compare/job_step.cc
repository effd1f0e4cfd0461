#include "compare/job_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "compare/element.h"
#include "compare/layers.h"
#include "compare/mean_layout.h"
#include "compare/roles.h"
#include "compare/whole_tensors.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostNotes = 20;

Shape ShapeOf(const std::vector<int64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

// Keeps the record that a reader reads from.
ReadBytes Owning(std::shared_ptr<const io::Record> record, ReadBytes read) {
  return [record = std::move(record), read = std::move(read)](
             uint64_t offset, std::span<std::byte> out) { return read(offset, out); };
}

}  // namespace

Shape MemberData::shape() const {
  return mapped.part.whole ? ShapeOf(record.sizes) : mapped.part.shape;
}

Result<std::unique_ptr<JobStep>> JobStep::Open(const JobSide& side, const PassRef& step) {
  auto view = std::unique_ptr<JobStep>(new JobStep(side));
  for (const PassRef& pass : side.PassesOf(step)) {
    auto opened = side.base().Open(pass);
    if (!opened.ok()) {
      view->damage_.push_back({"", 0, opened.status().message()});
      continue;
    }
    const auto& damage = (*opened)->damage();
    view->damage_.insert(view->damage_.end(), damage.begin(), damage.end());
    view->refs_.push_back(pass);
    view->views_.push_back(std::move(*opened));
  }
  view->leads_.resize(view->refs_.size());
  if (const auto axis = side.topology().Find("pp"))
    view->stages_ = std::max(1u, side.topology().axes()[*axis].size);
  return view;
}

std::vector<StepView*> JobStep::views() const {
  std::vector<StepView*> views;
  for (const auto& view : views_) views.push_back(view.get());
  return views;
}

uint32_t JobStep::StageOf(uint32_t pass) const {
  const auto axis = topology().Find("pp");
  const int32_t rank = refs_[pass].rank;
  return axis && topology().HasPlace(rank) ? topology().PlaceOn(*axis, rank) : 0;
}

std::vector<NamedTensor> JobStep::Names() const {
  std::vector<NamedTensor> names;
  std::unordered_set<std::string> seen;
  for (uint32_t pass = 0; pass < views_.size(); ++pass) {
    const uint32_t stage = StageOf(pass);
    (void)views_[pass]->ForEachTensor([&](const io::Record& record) {  // damage: told by Gather
      const std::string text =
          fmt::format("{} {} {}", ToText(record.key), fmt::join(record.sizes, ","), stage);
      if (seen.insert(text).second) names.push_back(NameOfRecord(record, stage));
      return true;
    });
  }
  return names;
}

// Where every stage counts its layers from 0 on, numbers are made unique: those of the stages
// before are added, chunk by chunk (GlobalLayer in compare/topology.h).
void JobStep::NumberLayers() {
  if (stages_ <= 1) return;
  std::vector<std::map<uint32_t, std::set<uint32_t>>> seen(stages_);  // [stage][chunk]
  for (uint32_t pass = 0; pass < views_.size(); ++pass) {
    auto& of_stage = seen[std::min(StageOf(pass), stages_ - 1)];
    (void)views_[pass]->ForEachTensor([&](const io::Record& record) {
      if (const auto layer = LayerOf(record.key.path)) of_stage[record.key.chunk].insert(*layer);
      return true;
    });
  }
  uint32_t chunks = 0;
  for (const auto& of_stage : seen) {
    for (const auto& [chunk, layers] : of_stage) {
      if (*layers.begin() != 0) return;  // numbers are those of the model
      chunks = std::max(chunks, chunk + 1);
    }
  }
  constexpr uint32_t kMostChunks = 4096;
  if (chunks == 0 || chunks > kMostChunks) return;
  layers_before_.assign(stages_, std::vector<uint64_t>(chunks, 0));
  uint64_t before = 0;
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    for (uint32_t stage = 0; stage < stages_; ++stage) {
      layers_before_[stage][chunk] = before;
      const auto layers = seen[stage].find(chunk);
      if (layers != seen[stage].end()) before += *layers->second.rbegin() + uint64_t{1};
    }
  }
  notes_.push_back(fmt::format(
      "layers are numbered within their pipeline stage: layer 0 of the last stage is layer {}",
      layers_before_.back().front()));
}

Key JobStep::GlobalKey(uint32_t pass, Key key) const {
  const auto layer = LayerOf(key.path);
  const uint32_t stage = StageOf(pass);
  if (!layer || stage >= layers_before_.size() || key.chunk >= layers_before_[stage].size())
    return key;
  key.path = WithLayer(key.path, *layer + layers_before_[stage][key.chunk]);
  key.chunk = 0;
  return key;
}

std::vector<MappedPart> JobStep::PartsOf(uint32_t pass, const io::Record& record,
                                         Status* status) const {
  if (map_ != nullptr) {
    auto parts = map_->Map(record, StageOf(pass));
    if (parts.ok()) return std::move(*parts);
    *status = parts.status();
  }
  std::vector<MappedPart> whole(1);
  whole.front().key = layers_before_.empty() ? record.key : GlobalKey(pass, record.key);
  return whole;
}

void JobStep::Gather(const MapSide* map) {
  map_ = map;
  if (map == nullptr) NumberLayers();
  time_ = JobTime(stages_);
  std::unordered_map<std::string, std::vector<size_t>> by_name;  // one for each n-th of a name
  for (uint32_t pass = 0; pass < views_.size(); ++pass) {
    std::unordered_map<std::string, size_t> given;  // by this rank
    std::vector<Moment> moments;
    const Status read = views_[pass]->ForEachTensor([&](const io::Record& record) {
      moments.push_back({record.call_begin, record.key.phase});
      Status mapped;
      const std::vector<MappedPart> parts = PartsOf(pass, record, &mapped);
      if (!mapped.ok() && notes_.size() < kMostNotes) notes_.push_back(mapped.message());
      for (uint32_t part = 0; part < parts.size(); ++part) {
        const std::string name = ToText(parts[part].key);
        std::vector<size_t>& groups = by_name[name];
        const size_t nth = given[name]++;
        if (nth == groups.size()) {
          groups.push_back(groups_.size());
          groups_.push_back(
              {.key = parts[part].key, .members = {}, .skip = parts[part].skip, .nth = nth});
        }
        groups_[groups[nth]].members.push_back({pass, part, record.id});
      }
      return true;
    });
    if (!read.ok()) damage_.push_back({"", 0, read.message()});
    time_.AddPass(StageOf(pass), std::move(moments));
  }
  if (stages_ > 1) KeepEnds();
}

// Names without a layer's number that several stages have: parts of the model that hold layers.
// What goes in goes into the first stage, what comes out comes out of the last; backward it is the
// other way round, and gradients are named for the side they belong to.
void JobStep::KeepEnds() {
  std::vector<Group> labels;
  for (Group& group : groups_) {
    const Role role = group.key.role;
    const bool goes_in = role == Role::kInput || role == Role::kGradInput || role == Role::kBefore;
    const bool comes_out =
        role == Role::kOutput || role == Role::kGradOutput || role == Role::kAfter;
    if ((!goes_in && !comes_out) || LayerOf(group.key.path)) continue;
    uint32_t first = ~0u, last = 0;
    for (const Member& member : group.members) {
      first = std::min(first, StageOf(member.pass));
      last = std::max(last, StageOf(member.pass));
    }
    const uint32_t end = goes_in ? first : last;
    if (IsRootInput(group.key) && first < last) {
      std::vector<Member> own = LabelsAmong(group.members, first, last);
      if (!own.empty())
        labels.push_back({.key = group.key, .members = std::move(own), .skip = group.skip});
    }
    std::erase_if(group.members, [&](const Member& member) { return StageOf(member.pass) != end; });
  }
  groups_.insert(groups_.end(), std::make_move_iterator(labels.begin()),
                 std::make_move_iterator(labels.end()));
}

// Of an input that both stages have: what the last one is given, where that is no copy of what the
// first one is given, and no stage made it: integers.
std::vector<Member> JobStep::LabelsAmong(const std::vector<Member>& members, uint32_t first,
                                         uint32_t last) const {
  std::vector<Member> labels;
  std::vector<io::Record> given;  // to the first
  for (const Member& member : members) {
    auto record = views_[member.pass]->Get(member.id);
    if (!record.ok()) return {};
    const uint32_t stage = StageOf(member.pass);
    if (stage == first) given.push_back(std::move(*record));
    if (stage != last) continue;
    const NumberFormat format = FormatOf(record->dtype);
    if (format.kind != NumberKind::kInteger || format.is_bool) return {};
    labels.push_back(member);
  }
  const auto is_copy = [&](const Member& member) {
    const auto record = views_[member.pass]->Get(member.id);
    return std::any_of(given.begin(), given.end(), [&](const io::Record& other) {
      const bool same_values = !record->hash || !other.hash || *record->hash == *other.hash;
      return record->dtype == other.dtype && record->sizes == other.sizes && same_values;
    });
  };
  if (std::any_of(labels.begin(), labels.end(), is_copy)) return {};
  return labels;
}

Result<MemberData> JobStep::DataOf(const Member& member) const {
  MemberData data;
  TDUMP_ASSIGN_OR_RETURN(data.record, views_[member.pass]->Get(member.id));
  Status mapped;
  std::vector<MappedPart> parts = PartsOf(member.pass, data.record, &mapped);
  if (member.part >= parts.size()) return Internal("a record changed while it was read");
  data.mapped = std::move(parts[member.part]);
  return data;
}

Result<Source> JobStep::OpenShard(const ShardRef& shard) const {
  const StepView& view = *views_[shard.member.pass];
  TDUMP_ASSIGN_OR_RETURN(io::Record read, view.Get(shard.member.id));
  const auto record = std::make_shared<const io::Record>(std::move(read));
  TDUMP_ASSIGN_OR_RETURN(ReadBytes bytes, view.Open(*record));
  Source source = SourceOf(*record, Owning(record, std::move(bytes)));
  return shard.part ? OpenPart(std::move(source), *shard.part) : Result<Source>(std::move(source));
}

std::vector<uint64_t> JobStep::Add(WholeTensor tensor, const Member& first) {
  leads_[first.pass] = true;
  io::Record& record = tensor.record;
  SetTimes(first.pass, &record);
  std::vector<uint64_t> ids;
  for (uint32_t copy = 0; copy <= tensor.copies.size(); ++copy) {
    places_.push_back({static_cast<uint32_t>(tensors_.size()), copy});
    ids.push_back(places_.size());
  }
  record.id = ids.front();
  tensors_.push_back(std::move(tensor));
  first_pass_.push_back(first.pass);
  return ids;
}

void JobStep::SetTimes(uint32_t pass, io::Record* record) const {
  const auto [phase, chunk] = std::pair(record->key.phase, record->key.chunk);
  record->call_begin = time_.Of(pass, phase, record->call_begin, chunk);
  record->seen = time_.Of(pass, phase, record->seen, chunk);
}

void JobStep::AddFirstOfEach() {
  for (const Group& group : groups_) {
    auto data = DataOf(group.members.front());
    if (!data.ok()) continue;
    WholeTensor tensor;
    tensor.record = std::move(data->record);
    tensor.rank = RankOf(group.members.front());
    tensor.shards.push_back({group.members.front(), nullptr});
    Add(std::move(tensor), group.members.front());
  }
}

JobStep::Found JobStep::Find(uint64_t id) const {
  if (id == 0 || id > places_.size()) return {};
  const Place& place = places_[id - 1];
  const WholeTensor& tensor = tensors_[place.tensor];
  return {&tensor, place.copy == 0 ? nullptr : &tensor.copies[place.copy - 1]};
}

// Of a copy without what is its own.
Status JobStep::ForEachTensor(const VisitTensor& visit) const {
  for (const WholeTensor& tensor : tensors_) {
    if (!visit(tensor.record)) break;
    if (tensor.copies.empty()) continue;
    io::Record copy = tensor.record;
    copy.hash.reset();
    copy.statistics.reset();
    copy.sample.reset();
    copy.slice.reset();
    for (size_t i = 0; i < tensor.copies.size(); ++i) {
      ++copy.id;
      if (!visit(copy)) return {};
    }
  }
  return {};
}

Result<io::Record> JobStep::Get(uint64_t id) const {
  const Found found = Find(id);
  if (found.tensor == nullptr) return NotFound(fmt::format("no tensor {} in this step", id));
  if (found.copy == nullptr) return found.tensor->record;
  io::Record record;
  if (found.tensor->layout) {
    record = found.tensor->record;
    if (record.hash) {
      TDUMP_ASSIGN_OR_RETURN(const std::vector<io::Hash128> hashes, HashesOf(found));
      record.hash = JoinedHash(hashes);
    }
  } else {
    const Member& member = found.Front().member;
    TDUMP_ASSIGN_OR_RETURN(record, views_[member.pass]->Get(member.id));
    SetTimes(first_pass_[places_[id - 1].tensor], &record);
  }
  record.id = id;
  return record;
}

Result<std::vector<io::Hash128>> JobStep::HashesOf(const Found& found) const {
  std::vector<io::Hash128> hashes = found.tensor->hashes;
  if (found.copy == nullptr) return hashes;
  const std::vector<size_t>& shards = found.tensor->layout->plan.shards;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (shards[i] != found.copy->first) continue;
    const Member& member = found.tensor->shards[found.copy->other].member;
    TDUMP_ASSIGN_OR_RETURN(const io::Record own, views_[member.pass]->Get(member.id));
    hashes[i] = own.hash.value_or(io::Hash128());
  }
  return hashes;
}

const io::Record* JobStep::Known(uint64_t id) const {
  const Found found = Find(id);
  return found.tensor == nullptr ? nullptr : &found.tensor->record;
}

Result<ReadBytes> JobStep::Open(const io::Record& record) const {
  const Found found = Find(record.id);
  if (found.tensor == nullptr) return NotFound(fmt::format("no tensor {} in this step", record.id));
  TDUMP_RETURN_IF_ERROR(found.tensor->state);
  if (!found.tensor->layout) {
    const Member& member = found.Front().member;
    io::Record own = record;
    own.id = member.id;
    // The digests of a whole payload are not kept with the tensor; those of a slice are.
    if (own.tile_digests.empty()) {
      TDUMP_ASSIGN_OR_RETURN(own, views_[member.pass]->Get(member.id));
    }
    const auto owned = std::make_shared<const io::Record>(std::move(own));
    TDUMP_ASSIGN_OR_RETURN(ReadBytes bytes, views_[member.pass]->Open(*owned));
    return Owning(owned, std::move(bytes));
  }
  TDUMP_ASSIGN_OR_RETURN(Source source, OpenCandidate(*found.tensor->layout, [&](size_t shard) {
                           return OpenShard(found.tensor->shards[found.Shard(shard)]);
                         }));
  return BytesOf(std::move(source));
}

Status JobStep::ForEachCall(const VisitCall& visit) const {
  bool stopped = false;
  for (uint32_t pass = 0; pass < views_.size() && !stopped; ++pass) {
    if (!leads_[pass]) continue;
    TDUMP_RETURN_IF_ERROR(views_[pass]->ForEachCall([&](const io::CallRecord& call) {
      io::CallRecord timed = call;
      const Phase phase = call.call.phase;
      const uint32_t chunk = call.call.chunk;
      timed.call.begin = time_.Of(pass, phase, call.call.begin, chunk);
      timed.call.end = time_.Of(pass, phase, call.call.end, chunk);
      timed.call.parent = time_.Of(pass, phase, call.call.parent, chunk);
      stopped = !visit(timed);
      return !stopped;
    }));
  }
  return {};
}

std::string JobStep::LayoutOf(uint64_t id) const {
  const Found found = Find(id);
  if (found.tensor == nullptr) return "";
  if (found.copy == nullptr) return found.tensor->how;
  const auto rank = [&](size_t shard) { return RankOf(found.tensor->shards[shard].member); };
  return fmt::format("{}{}rank {} differs from rank {}", found.tensor->how_copies,
                     found.tensor->how_copies.empty() ? "" : "; ", rank(found.copy->other),
                     rank(found.copy->first));
}

bool JobStep::IsJoined(uint64_t id) const {
  const Found found = Find(id);
  return found.tensor != nullptr && found.tensor->layout && found.tensor->shards.size() > 1;
}

Status JobStep::StateOf(uint64_t id) const {
  const Found found = Find(id);
  return found.tensor == nullptr ? Status() : found.tensor->state;
}

std::string JobStep::DimsOfMean(uint64_t id, uint64_t times) const {
  const Found found = Find(id);
  const bool is_joined = found.tensor != nullptr && found.tensor->layout;
  return is_joined ? ::tdump::compare::DimsOfMean(found.tensor->layout->plan, times) : "";
}

std::string JobStep::DimsOfAgreeingMean(uint64_t id) const {
  const Found found = Find(id);
  return found.tensor == nullptr ? "" : found.tensor->mean_dims;
}

int32_t JobStep::RankAt(uint64_t id, std::span<const uint64_t> position) const {
  const Found found = Find(id);
  const WholeTensor* tensor = found.tensor;
  if (tensor == nullptr) return kAllRanks;
  if (!tensor->layout && !tensor->copies.empty()) return RankOf(found.Front().member);
  if (tensor->rank != kAllRanks || !tensor->layout || position.empty()) return tensor->rank;
  const LayoutCandidate& layout = *tensor->layout;
  const io::Record& record = tensor->record;
  if (record.dtype.elements_per_unit != 1 || position.size() != record.sizes.size())
    return kAllRanks;
  // Back through the new order of dimensions, and the crop, which keeps indices.
  Shape index(position.begin(), position.end());
  if (layout.rearrangement) {
    const uint64_t moved = UnitAt(index, layout.rearrangement->shape);
    const Shape& cropped = layout.crop.empty() ? layout.plan.shape : layout.crop;
    index.resize(cropped.size());
    IndexOf(UnitOfSource(*layout.rearrangement, moved), cropped, &index);
  }
  const std::vector<size_t> shards = ShardsAt(layout.plan, UnitAt(index, layout.plan.shape));
  return shards.size() == 1 ? RankOf(tensor->shards[found.Shard(shards.front())].member)
                            : kAllRanks;
}

std::vector<int32_t> JobStep::RanksApart(uint64_t id) const {
  const Found found = Find(id);
  if (found.tensor == nullptr || !found.tensor->layout) return {};
  const auto hashes = HashesOf(found);
  if (!hashes.ok()) return {};
  std::vector<int32_t> ranks;
  for (size_t i = 0; i < hashes->size(); ++i) {
    const size_t shard = found.Shard(found.tensor->layout->plan.shards[i]);
    if ((*hashes)[i] != found.tensor->other_hashes[i])
      ranks.push_back(RankOf(found.tensor->shards[shard].member));
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace tdump::compare
