#include "compare/job_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>

#include "compare/job_text.h"
#include "compare/leftovers.h"
#include "compare/load_shards.h"
#include "compare/partial_sums.h"
#include "compare/record_numbers.h"
#include "compare/stored_alike.h"
#include "compare/suggest_map.h"
#include "compare/text.h"
#include "compare/trim_heap.h"
#include "compare/uneven_copies.h"
#include "compare/whole_tensors.h"

namespace tdump::compare {
namespace {

Leftover LeftoverOf(const JobStep& step, const Group& group, uint64_t order) {
  Leftover leftover;
  leftover.key = group.key;
  leftover.order = order;
  if (const auto data = step.DataOf(group.members.front()); data.ok()) {
    leftover.cls = data->record.cls;
    leftover.shape = data->shape();
  }
  return leftover;
}

bool IsWanted(const JobStep& step, const Group& group, const WantRecord& wanted) {
  const auto data = step.DataOf(group.members.front());
  if (!data.ok()) return true;
  if (wanted(data->record)) return true;
  io::Record shared = data->record;  // also by the name that both sides share
  shared.key = group.key;
  return wanted(shared);
}

void NoteSkipped(const JobStep& step, char side, std::vector<std::string>* notes) {
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> names;
  size_t skipped = 0;
  for (const Group& group : step.groups()) {
    if (!group.skip || ++skipped > kMostNamed) continue;
    names.push_back(ToText(group.key));
  }
  if (skipped == 0) return;
  notes->push_back(fmt::format("{} of {} only, as the map says: {}{}", Plural(skipped, "tensor"),
                               side, fmt::join(names, ", "), skipped > kMostNamed ? ", ..." : ""));
}

std::vector<int32_t> RanksOf(const JobStep& step, const Group& group) {
  std::vector<int32_t> ranks;
  for (const Member& member : group.members) ranks.push_back(step.RankOf(member));
  return ranks;
}

bool HaveOneShape(const Result<ResolvedLayouts>& layouts) {
  return layouts.ok() && layouts->a.shape() == layouts->b.shape();
}

bool HaveOtherData(const std::vector<SkippedRank>& ranks) {
  return std::ranges::all_of(ranks, &SkippedRank::has_other_data);
}

bool RanIt(const std::vector<SkippedRank>& ranks) {
  return std::ranges::all_of(ranks, &SkippedRank::ran_it);
}

// Ranks whose data had nothing for a tensor have no part in its layout.
void LeaveOut(const std::vector<SkippedRank>& lacking, LoadedShards* shards) {
  std::vector<int32_t> ranks;
  for (const SkippedRank& rank : lacking) {
    if (!rank.has_other_data) ranks.push_back(rank.rank);
  }
  if (ranks.size() == lacking.size()) return;
  for (const Shard& shard : shards->set.shards) ranks.push_back(shard.rank);
  const auto leave_out = [&](Topology* topology) {
    if (auto places = topology->Among(ranks)) *topology = *std::move(places);
  };
  leave_out(&shards->set.topology);
  for (GivenDims& given : shards->set.given) leave_out(&given.topology);
}

// As it was captured.
std::string NameOf(const JobStep& step, const Group& group) {
  const auto data = step.DataOf(group.members.front());
  const Key& key = data.ok() ? data->record.key : group.key;
  return PlainName(key.root, key.path, key.op);
}

// Of ranks of which places alone say whether they were given what those were that ran it.
std::string UnknownDataText(const JobStep& step, char side, const Group& group,
                            const std::vector<SkippedRank>& lacking, bool has_other_data) {
  std::vector<int32_t> ranks;
  for (const SkippedRank& rank : lacking) {
    if (!rank.is_data_known && rank.has_other_data == has_other_data) ranks.push_back(rank.rank);
  }
  if (ranks.empty()) return "";
  const bool is_one = ranks.size() == 1;
  return fmt::format(
      "{} of {} {} no record of {}, and no hash tells whether {} given other data than {}; judged "
      "as if {}, as the ranks lie (`signature: true` records such hashes)",
      RanksText(ranks), side, is_one ? "has" : "have", NameOf(step, group),
      is_one ? "it was" : "they were", RanksText(RanksOf(step, group)),
      has_other_data ? (is_one ? "it was" : "they were")
                     : (is_one ? "it was not" : "they were not"));
}

// What ranks hold as copies of one tensor.
void AddCopies(const LoadedShards& shards, const LayoutCandidate& layout, const WholeTensor& tensor,
               StageHint* hint) {
  const ShardSet& set = shards.set;
  if (set.shards.size() < 2 || !layout.is_one_shard()) return;
  hint->Add(set.role, shards.data.front().record.key.path, true, !tensor.copies.empty());
}

}  // namespace

std::string JobPairs::StageNote() const {
  for (const auto& [side, hint, letter] :
       {std::tuple(a_, &stages_a_, 'A'), std::tuple(b_, &stages_b_, 'B')}) {
    if (!side->topology().is_unknown() || !hint->LooksLikeStages()) continue;
    return fmt::format(
        "layers of one name differ between ranks of {}, and no coordinates say where ranks are: if "
        "they are stages of a pipeline that number layers from 0, --topology {}:pp={}",
        letter, letter, side->world());
  }
  return "";
}

struct JobPairs::Step {
  std::unique_ptr<JobStep> a, b;
  std::optional<RecordNumbers> numbers_a, numbers_b;
  OpenedPair opened;
  PartialSums sums_a, sums_b;
  // A pair of which one side is a sum that was inferred: put together once all others are known.
  struct Held {
    const Group* left = nullptr;
    const Group* right = nullptr;
    std::string made;
    LoadedShards of_a, of_b;
    ResolvedLayouts layouts;
  };
  std::vector<Held> held;
  // Of which side, and what was taken for given, a note tells (UnknownDataText).
  std::set<std::pair<char, bool>> told;
  std::set<char> told_known;  // NoteOtherData
  std::optional<UnevenCopies> uneven;
};

void JobPairs::AddPair(const Group& left, const Group& right, const std::string& made, Step* step) {
  LoadedShards of_a = LoadShards(*step->a, 'A', left, options_->dims, &*step->numbers_a);
  LoadedShards of_b = LoadShards(*step->b, 'B', right, options_->dims, &*step->numbers_b);
  const Status status = of_a.status.ok() ? of_b.status : of_a.status;
  Skipped skipped = FindSkipped(left, right, step);
  LeaveOut(skipped.a, &of_a);
  LeaveOut(skipped.b, &of_b);
  LayoutMemory none_a, none_b;  // of what ranks lack nothing is learnt
  const auto resolve = [&]() -> Result<ResolvedLayouts> {
    if (!status.ok()) return status;
    return ResolveLayouts(of_a.set, of_b.set, bound_.has_value(),
                          skipped.any() ? &none_a : &memory_a_,
                          skipped.any() ? &none_b : &memory_b_);
  };
  Result<ResolvedLayouts> layouts = resolve();
  if (status.ok() && skipped.any() && skipped.ran_it() && !HaveOneShape(layouts)) {
    of_a = LoadShards(*step->a, 'A', left, options_->dims, &*step->numbers_a);
    of_b = LoadShards(*step->b, 'B', right, options_->dims, &*step->numbers_b);
    skipped = {};
    layouts = resolve();
  }
  // Ranks whose data had nothing for it leave the whole to the others.
  const bool is_whole = skipped.have_other_data() && HaveOneShape(layouts);
  if (is_whole && !skipped.are_alike) NoteOtherData(left, right, skipped, step);
  if (status.ok() && skipped.any() && !skipped.are_alike && !is_whole) {
    AddSkipped(left, right, of_a, of_b, std::move(layouts), made, skipped, step);
    return;
  }
  if (layouts.ok()) {
    step->sums_a.Add(left.key, of_a, layouts->a, layouts->proof_a);
    step->sums_b.Add(right.key, of_b, layouts->b, layouts->proof_b);
    if (IsInferredSum(of_a.set, layouts->a, layouts->proof_a) !=
        IsInferredSum(of_b.set, layouts->b, layouts->proof_b)) {
      step->held.push_back(
          {&left, &right, made, std::move(of_a), std::move(of_b), *std::move(layouts)});
      return;
    }
  }
  AddTensors(left, right, of_a, of_b, std::move(layouts), made, step);
}

bool JobPairs::Skipped::have_other_data() const { return HaveOtherData(a) && HaveOtherData(b); }

bool JobPairs::Skipped::ran_it() const { return RanIt(a) && RanIt(b); }

JobPairs::Skipped JobPairs::FindSkipped(const Group& left, const Group& right, Step* step) {
  Skipped skipped{.a = skipped_a_.Find(left), .b = skipped_b_.Find(right)};
  if (!skipped.any()) return skipped;
  // Other data says why a rank lacks it: alike are the others, where there are any.
  const bool is_all_other = skipped.have_other_data();
  const auto ranks_of = [&](const JobStep& of, const Group& group,
                            const std::vector<SkippedRank>& lacking) {
    RanksOfModule ranks{.ran = RanksOf(of, group), .skipped = {}};
    for (const SkippedRank& rank : lacking) {
      if (is_all_other || !rank.has_other_data) ranks.skipped.push_back(rank.rank);
    }
    return ranks;
  };
  const RanksOfModule of_a = ranks_of(*step->a, left, skipped.a);
  const RanksOfModule of_b = ranks_of(*step->b, right, skipped.b);
  if (!of_a.skipped.empty() && !of_b.skipped.empty() &&
      SkipAlike(step->a->topology(), of_a, step->b->topology(), of_b)) {
    skipped.are_alike = is_all_other;
    if (is_all_other) return skipped;
    for (auto* const lacking : {&skipped.a, &skipped.b})
      std::erase_if(*lacking, [](const SkippedRank& rank) { return !rank.has_other_data; });
  }
  const auto note = [&](const JobStep& of, char side, const Group& group,
                        const std::vector<SkippedRank>& lacking) {
    for (const bool has_other_data : {false, true}) {
      if (lacking.empty() || step->told.contains({side, has_other_data})) continue;
      std::string text = UnknownDataText(of, side, group, lacking, has_other_data);
      if (text.empty()) continue;
      step->told.emplace(side, has_other_data);
      step->opened.notes.push_back(std::move(text));
    }
  };
  note(*step->a, 'A', left, skipped.a);
  note(*step->b, 'B', right, skipped.b);
  return skipped;
}

void JobPairs::NoteOtherData(const Group& left, const Group& right, const Skipped& skipped,
                             Step* step) {
  const auto note = [&](const JobStep& of, char side, const Group& group,
                        const std::vector<SkippedRank>& lacking) {
    const bool is_known = std::ranges::all_of(lacking, &SkippedRank::is_data_known);
    // Where it is not, another note tells.
    if (RanIt(lacking) || !is_known || !step->told_known.insert(side).second) return;
    step->opened.notes.push_back(fmt::format(
        "ranks of {} that have no record of {} were given other data than those that have, which "
        "is taken for the reason",
        side, NameOf(of, group)));
  };
  note(*step->a, 'A', left, skipped.a);
  note(*step->b, 'B', right, skipped.b);
}

// What the other ranks hold is compared where they hold copies of the whole, or all of it but for
// ranks of other data; else a part is missing that no other shard stands for.
void JobPairs::AddSkipped(const Group& left, const Group& right, const LoadedShards& of_a,
                          const LoadedShards& of_b, Result<ResolvedLayouts> layouts,
                          const std::string& made, const Skipped& skipped, Step* step) {
  uint64_t a = 0, b = 0;
  const bool are_copies = HaveOneShape(layouts) &&
                          (HaveOtherData(skipped.a) || layouts->a.is_one_shard()) &&
                          (HaveOtherData(skipped.b) || layouts->b.is_one_shard());
  if (are_copies) {
    std::tie(a, b) = AddTensors(left, right, of_a, of_b, std::move(layouts), made, step);
  } else {
    const auto alone = [](JobStep* from, const Group& group, const LoadedShards& shards) {
      WholeTensor tensor;
      tensor.record = shards.data.front().record;
      tensor.shards.push_back({group.members.front(), nullptr});
      return from->Add(std::move(tensor), group.members.front()).front();
    };
    if (of_a.data.empty() || of_b.data.empty()) return;  // damage, which is told
    a = alone(step->a.get(), left, of_a);
    b = alone(step->b.get(), right, of_b);
  }
  RankLists& lists = step->opened.rank_lists;
  const auto add_lost = [&](const JobStep& of, const Group& group,
                            const std::vector<SkippedRank>& lacking, RecordIds ids,
                            std::vector<LostCopy>* lost) {
    if (lacking.empty()) return;
    // Mostly that of the tensor before.
    if (std::vector<int32_t> ran = RanksOf(of, group); lists.empty() || lists.back() != ran)
      lists.push_back(std::move(ran));
    for (const SkippedRank& rank : lacking) {
      if (rank.ran_it || (are_copies && rank.has_other_data)) continue;  // its data had none of it
      lost->push_back({.tensor = ids.a,
                       .partner = ids.b,
                       .rank = rank.rank,
                       .how = LostCopy::How::kSkipped,
                       .ran = static_cast<uint32_t>(lists.size() - 1)});
    }
  };
  add_lost(*step->a, left, skipped.a, {a, b}, &step->opened.lost_a);
  add_lost(*step->b, right, skipped.b, {b, a}, &step->opened.lost_b);
}

void JobPairs::AddHeld(Step* step) {
  for (Step::Held& held : step->held) {
    const bool of_a = IsInferredSum(held.of_a.set, held.layouts.a, held.layouts.proof_a);
    const std::string fault =
        of_a ? step->sums_a.Fault(held.left->key, 'A') : step->sums_b.Fault(held.right->key, 'B');
    if (!fault.empty()) {
      LayoutCandidate& layout = of_a ? held.layouts.a : held.layouts.b;
      auto copies = AsCopies((of_a ? held.of_a : held.of_b).set, layout);
      if (copies.ok()) {
        (of_a ? held.layouts.how_a : held.layouts.how_b) = copies->how;
        layout = *std::move(copies);
        held.made += (held.made.empty() ? "" : "; ") + fault;
      }
    }
    AddTensors(*held.left, *held.right, held.of_a, held.of_b, std::move(held.layouts), held.made,
               step);
  }
  step->held.clear();
}

std::pair<uint64_t, uint64_t> JobPairs::AddTensors(const Group& left, const Group& right,
                                                   const LoadedShards& of_a,
                                                   const LoadedShards& of_b,
                                                   Result<ResolvedLayouts> layouts,
                                                   const std::string& made, Step* step) {
  WholeTensor tensor_a, tensor_b;
  const bool loaded = of_a.status.ok() && of_b.status.ok();
  const bool other_size = loaded && !layouts.ok() && !MayHaveOneShape(of_a.set, of_b.set);
  bool same_shape = false;
  if (layouts.ok()) {
    same_shape = layouts->a.shape() == layouts->b.shape();
    tensor_a = TensorOf(of_a, layouts->a, std::move(layouts->how_a));
    tensor_b = TensorOf(of_b, layouts->b, std::move(layouts->how_b));
    HashJoined({&of_a, &layouts->a, &tensor_a}, {&of_b, &layouts->b, &tensor_b});
    AddCopies(of_a, layouts->a, tensor_a, &stages_a_);
    AddCopies(of_b, layouts->b, tensor_b, &stages_b_);
    tensor_a.mean_dims = std::move(layouts->mean_a);
    tensor_b.mean_dims = std::move(layouts->mean_b);
  } else {
    tensor_a = FailedTensor(of_a, layouts.status());
    tensor_b = FailedTensor(of_b, layouts.status());
  }
  const std::vector<uint64_t> ids_a = step->a->Add(std::move(tensor_a), left.members.front());
  const std::vector<uint64_t> ids_b = step->b->Add(std::move(tensor_b), right.members.front());
  killed_a_.Add(left, {ids_a.front(), ids_b.front()}, step->a->Known(ids_a.front())->seen);
  killed_b_.Add(right, {ids_a.front(), ids_b.front()}, step->b->Known(ids_b.front())->seen);
  if (same_shape) {  // else it fails as a whole
    lost_a_.Find(left, ids_a.front(), &step->opened.lost_a);
    lost_b_.Find(right, ids_b.front(), &step->opened.lost_b);
    step->uneven->Add(left, right, {ids_a.front(), ids_b.front()});
  }
  const uint64_t key_hash = std::hash<std::string>{}(ToText(right.key));
  RecordPairing& pairing = step->opened.pairing;
  const auto pair = [&](uint64_t a, uint64_t b) {
    pairing.pairs.push_back({a, b});
    pairing.key_hashes.push_back(key_hash);
  };
  const size_t first = pairing.pairs.size();
  for (const uint64_t b : ids_b) pair(ids_a.front(), b);
  if (other_size) step->opened.other_sizes.push_back({ids_a.front(), ids_b.front()});
  for (size_t i = 1; i < ids_a.size(); ++i) pair(ids_a[i], ids_b.front());
  if (!made.empty()) pairing.made.push_back({first, pairing.pairs.size() - first, made});
  return {ids_a.front(), ids_b.front()};
}

void JobPairs::PairLeft(const std::vector<const Group*>& left,
                        const std::vector<const Group*>& right, const WantRecord& wanted,
                        Step* step) {
  std::vector<Leftover> of_a, of_b;
  for (const Group* group : left) of_a.push_back(LeftoverOf(*step->a, *group, of_a.size()));
  for (const Group* group : right) of_b.push_back(LeftoverOf(*step->b, *group, of_b.size()));
  std::vector<bool> paired_a(left.size()), paired_b(right.size());
  if (!left.empty() && !right.empty()) {
    const LeftoverOptions options = bound_ ? LeftoverOptions{} : kSameNames;
    for (const LeftoverPair& pair : PairLeftovers(of_a, of_b, options)) {
      paired_a[pair.a] = paired_b[pair.b] = true;
      const Group &group_a = *left[pair.a], &group_b = *right[pair.b];
      if (IsWanted(*step->b, group_b, wanted))
        AddPair(group_a, group_b, PairedText(pair.by, group_a.key, group_b.key), step);
    }
  }
  const auto list = [&](const std::vector<const Group*>& groups, const std::vector<bool>& paired,
                        JobStep* from, std::vector<uint64_t>* only) {
    for (size_t i = 0; i < groups.size(); ++i) {
      if (paired[i] || !IsWanted(*from, *groups[i], wanted)) continue;
      auto data = from->DataOf(groups[i]->members.front());
      if (!data.ok()) continue;
      WholeTensor tensor;
      tensor.record = std::move(data->record);
      tensor.shards.push_back({groups[i]->members.front(), nullptr});
      if (groups[i]->members.size() == 1) tensor.rank = from->RankOf(groups[i]->members.front());
      only->push_back(from->Add(std::move(tensor), groups[i]->members.front()).front());
    }
  };
  list(left, paired_a, step->a.get(), &step->opened.pairing.only_a);
  list(right, paired_b, step->b.get(), &step->opened.pairing.only_b);
}

Result<OpenedPair> JobPairs::Open(const PassPair& pair, const WantRecord& wanted,
                                  const OnGroup& on_group) {
  Step step;
  TDUMP_ASSIGN_OR_RETURN(step.a, JobStep::Open(*a_, pair.a));
  TDUMP_ASSIGN_OR_RETURN(step.b, JobStep::Open(*b_, pair.b));
  ShowStoredAlike(step.a->views(), step.b->views());
  if (options_->map && !bound_) {
    const std::vector<NamedTensor> names_a = step.a->Names(), names_b = step.b->Names();
    TDUMP_ASSIGN_OR_RETURN(bound_, BoundMap::Bind(*options_->map, names_a, names_b));
  }
  step.a->Gather(bound_ ? &bound_->a : nullptr);
  step.b->Gather(bound_ ? &bound_->b : nullptr);
  lost_a_.Begin(*step.a);
  lost_b_.Begin(*step.b);
  skipped_a_.Begin(*step.a);
  skipped_b_.Begin(*step.b);
  step.uneven.emplace(UnevenCopies::Of{a_, step.a.get(), &pair.a},
                      UnevenCopies::Of{b_, step.b.get(), &pair.b});
  killed_a_.Begin(*step.a);
  killed_b_.Begin(*step.b);
  step.numbers_a.emplace(step.a.get());
  step.numbers_b.emplace(step.b.get());

  std::unordered_map<std::string, std::vector<const Group*>> waiting;
  for (const Group& group : step.b->groups()) {
    if (!group.skip) waiting[ToText(group.key)].push_back(&group);
  }
  std::unordered_map<std::string, size_t> given;
  std::vector<const Group*> left, right;
  std::unordered_map<const Group*, bool> taken;
  size_t looked_at = 0;
  for (const Group& group : step.a->groups()) {
    if (on_group) on_group(looked_at++, step.a->groups().size());
    if (group.skip) continue;
    const std::string name = ToText(group.key);
    const auto found = waiting.find(name);
    const size_t nth = given[name]++;
    if (found == waiting.end() || nth >= found->second.size()) {
      left.push_back(&group);
      continue;
    }
    const Group* partner = found->second[nth];
    taken[partner] = true;
    if (IsWanted(*step.b, *partner, wanted) || IsWanted(*step.a, group, wanted))
      AddPair(group, *partner, "", &step);
  }
  for (const Group& group : step.b->groups()) {
    if (!group.skip && !taken.contains(&group)) right.push_back(&group);
  }
  PairLeft(left, right, wanted, &step);
  AddHeld(&step);
  step.uneven->Finish(&step.opened);
  step.opened.killed_a = killed_a_.Finish(lost_a_);
  step.opened.killed_b = killed_b_.Finish(lost_b_);
  NoteSkipped(*step.a, 'A', &step.opened.notes);
  NoteSkipped(*step.b, 'B', &step.opened.notes);
  for (const auto* notes : {&step.a->notes(), &step.b->notes()})
    step.opened.notes.insert(step.opened.notes.end(), notes->begin(), notes->end());
  step.a->ForgetGroups();
  step.b->ForgetGroups();
  TrimHeap();
  step.opened.parameters_given = AreParametersGiven(pair);
  step.opened.a = std::move(step.a);
  step.opened.b = std::move(step.b);
  return std::move(step.opened);
}

Result<std::string> DraftMap(const RunSide& a, const RunSide& b, const PairOptions& options,
                             std::span<const NameMap> maps) {
  TDUMP_ASSIGN_OR_RETURN(const JobSide of_a, JobSide::Make(&a, options, ""));
  TDUMP_ASSIGN_OR_RETURN(const JobSide of_b, JobSide::Make(&b, options, ""));
  TDUMP_ASSIGN_OR_RETURN(const PassPairing pairing, PairPasses(of_a, of_b, options));
  if (pairing.pairs.empty()) return InvalidArgument(WhyNoPass(of_a, of_b, pairing));
  TDUMP_ASSIGN_OR_RETURN(const auto step_a, JobStep::Open(of_a, pairing.pairs.front().a));
  TDUMP_ASSIGN_OR_RETURN(const auto step_b, JobStep::Open(of_b, pairing.pairs.front().b));
  return SuggestMap(step_a->Names(), step_b->Names(), maps);
}

}  // namespace tdump::compare
