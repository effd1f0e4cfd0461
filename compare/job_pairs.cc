#include "compare/job_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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
#include "compare/skipped_data.h"
#include "compare/stored_alike.h"
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

// Two notes on how a pair was made.
std::string Also(const std::string& made, std::string_view more) {
  return fmt::format("{}{}{}", made, made.empty() ? "" : "; ", more);
}

bool HaveOneShape(const Result<ResolvedLayouts>& layouts) {
  return layouts.ok() && layouts->a.shape() == layouts->b.shape();
}

// What ranks hold as copies of one tensor.
void AddCopies(const LoadedShards& shards, const LayoutCandidate& layout, const WholeTensor& tensor,
               StageHint* hint) {
  const ShardSet& set = shards.set;
  const bool is_known = !set.hashes.empty() || set.has_payload;
  if (set.shards.size() < 2 || !layout.is_one_shard() || !is_known) return;
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
    std::shared_ptr<LoadedPair> pair;
    char side = 'A';                         // of the sum
    std::shared_ptr<const LoadedPair> next;  // that may show that it was left out
    std::string next_name;
  };
  std::vector<Held> held;
  SumsWaiting waiting;  // for their `next`, as indices of `held`
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
  if (status.ok() && LackAlike(left, right, skipped, *step) && !AreWhole(of_a, of_b, layouts)) {
    return AddRankByRank(left, right, made,
                         "what ranks hold is compared one by one, for others lack their parts on "
                         "both sides",
                         step);
  }
  if (layouts.ok() && IsUnjoinable(of_a, of_b, *layouts)) {
    if (lie_alike_ && LieAtOnePlace(layouts->a, layouts->b) &&
        RanksOf(*step->a, left) == RanksOf(*step->b, right))
      return AddRankByRank(left, right, made,
                           "what ranks hold is compared one by one, for what was kept of shards "
                           "cannot be joined",
                           step);
    const bool are_copies = layouts->a.is_one_shard() && layouts->b.is_one_shard();
    const std::string how =
        are_copies ? made : Also(made, "not compared, for statistics cannot be joined");
    AddTensors(left, right, of_a, of_b, std::move(layouts), how, step);
    return;
  }
  if (layouts.ok()) {
    step->sums_a.Add(left.key, of_a, layouts->a, layouts->proof_a);
    step->sums_b.Add(right.key, of_b, layouts->b, layouts->proof_b);
    const auto pair = std::make_shared<LoadedPair>(
        LoadedPair{std::move(of_a), std::move(of_b), *std::move(layouts)});
    if (const auto side = SideOfSum(*pair)) {
      step->waiting.Add(*pair, *side, step->held.size());
      step->held.push_back({&left, &right, made, pair, *side, nullptr, ""});
      return;
    }
    KeepNext(right.key, pair, step);
    const bool is_kept = pair.use_count() > 1;
    AddTensors(left, right, pair->of_a, pair->of_b,
               is_kept ? pair->layouts : std::move(pair->layouts), made, step);
    return;
  }
  AddTensors(left, right, of_a, of_b, std::move(layouts), made, step);
}

// For sums that came before it.
void JobPairs::KeepNext(const Key& key, const std::shared_ptr<const LoadedPair>& pair, Step* step) {
  for (const size_t sum : step->waiting.Take(*pair)) {
    step->held[sum].next = pair;
    step->held[sum].next_name = PlainName(key.root, key.path, key.op);
  }
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
    skipped.was_taken_out = !is_all_other;
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
    step->opened.notes.push_back(OtherDataText(of, side, group));
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
  OpenedPair& opened = step->opened;
  AddLost(*step->a, left, skipped.a, {a, b}, are_copies, &opened.rank_lists, &opened.lost_a);
  AddLost(*step->b, right, skipped.b, {b, a}, are_copies, &opened.rank_lists, &opened.lost_b);
}

void JobPairs::AddHeld(Step* step) {
  const auto sums_of = [&](const Step::Held& held) -> PartialSums& {
    return held.side == 'A' ? step->sums_a : step->sums_b;
  };
  const auto key_of = [](const Step::Held& held) -> const Key& {
    return held.side == 'A' ? held.left->key : held.right->key;
  };
  for (const Step::Held& held : step->held) {
    if (held.next && ShowsSumLeftOut(*held.pair, *held.next, held.side))
      sums_of(held).Blame(key_of(held), held.next_name);
  }
  for (Step::Held& held : step->held) {
    LoadedPair& pair = *held.pair;
    const bool of_a = held.side == 'A';
    const std::string fault = sums_of(held).Fault(key_of(held), held.side);
    if (!fault.empty()) {
      LayoutCandidate& layout = of_a ? pair.layouts.a : pair.layouts.b;
      auto copies = AsCopies((of_a ? pair.of_a : pair.of_b).set, layout);
      if (copies.ok()) {
        (of_a ? pair.layouts.how_a : pair.layouts.how_b) = copies->how;
        layout = *std::move(copies);
        held.made = Also(held.made, fault);
      }
    }
    AddTensors(*held.left, *held.right, pair.of_a, pair.of_b, std::move(pair.layouts), held.made,
               step);
  }
  step->held.clear();
}

JobPairs::Put JobPairs::PutPair(const Group& left, const Group& right, const LoadedShards& of_a,
                                const LoadedShards& of_b, Result<ResolvedLayouts> layouts,
                                const std::string& made, Step* step) {
  WholeTensor tensor_a, tensor_b;
  const bool loaded = of_a.status.ok() && of_b.status.ok();
  const bool other_size = loaded && !layouts.ok() && !MayHaveOneShape(of_a.set, of_b.set);
  if (layouts.ok()) {
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
  Put ids = {.a = step->a->Add(std::move(tensor_a), left.members.front()),
             .b = step->b->Add(std::move(tensor_b), right.members.front())};
  const uint64_t key_hash = std::hash<std::string>{}(ToText(right.key));
  RecordPairing& pairing = step->opened.pairing;
  const auto pair = [&](uint64_t a, uint64_t b) {
    pairing.pairs.push_back({a, b});
    pairing.key_hashes.push_back(key_hash);
  };
  const size_t first = pairing.pairs.size();
  for (const uint64_t b : ids.b) pair(ids.a.front(), b);
  if (other_size) step->opened.other_sizes.push_back({ids.a.front(), ids.b.front()});
  for (size_t i = 1; i < ids.a.size(); ++i) pair(ids.a[i], ids.b.front());
  if (!made.empty()) pairing.made.push_back({first, pairing.pairs.size() - first, made});
  return ids;
}

std::pair<uint64_t, uint64_t> JobPairs::AddTensors(const Group& left, const Group& right,
                                                   const LoadedShards& of_a,
                                                   const LoadedShards& of_b,
                                                   Result<ResolvedLayouts> layouts,
                                                   const std::string& made, Step* step) {
  const bool same_shape = HaveOneShape(layouts);
  const Put put = PutPair(left, right, of_a, of_b, std::move(layouts), made, step);
  const RecordIds ids = {put.a.front(), put.b.front()};
  AddKilled(left, right, ids, *step);
  if (same_shape) FindLost(left, right, ids, step);  // else it fails as a whole
  return {ids.a, ids.b};
}

// A part that both sides lack alike is no fault of one of them.
void JobPairs::AddKilled(const Group& left, const Group& right, RecordIds ids, const Step& step) {
  if (!killed_a_.has_any() && !killed_b_.has_any()) return;
  std::vector<int32_t> alike;
  if (lie_alike_) {
    std::ranges::set_intersection(lost_a_.Lacking(left, RanksOf(*step.a, left)),
                                  lost_b_.Lacking(right, RanksOf(*step.b, right)),
                                  std::back_inserter(alike));
  }
  killed_a_.Add(left, ids, step.a->Known(ids.a)->seen, alike);
  killed_b_.Add(right, ids, step.b->Known(ids.b)->seen, alike);
}

bool JobPairs::LackAlike(const Group& left, const Group& right, const Skipped& skipped,
                         const Step& step) const {
  const std::vector<int32_t> ranks = RanksOf(*step.a, left);
  if (!lie_alike_ || ranks != RanksOf(*step.b, right)) return false;
  const std::vector<int32_t> lacking = lost_a_.Lacking(left, ranks);
  return lacking == lost_b_.Lacking(right, ranks) && (skipped.was_taken_out || !lacking.empty());
}

void JobPairs::AddRankByRank(const Group& left, const Group& right, const std::string& made,
                             std::string_view why, Step* step) {
  const std::string how = Also(made, why);
  LayoutMemory none_a, none_b;
  std::optional<RecordIds> first;
  for (size_t i = 0; i < left.members.size(); ++i) {
    const Group one_a = {.key = left.key, .members = {left.members[i]}};
    const Group one_b = {.key = right.key, .members = {right.members[i]}};
    LoadedShards of_a = LoadShards(*step->a, 'A', one_a, {}, &*step->numbers_a);
    LoadedShards of_b = LoadShards(*step->b, 'B', one_b, {}, &*step->numbers_b);
    of_a.set.given.clear();  // of the whole
    of_b.set.given.clear();
    Result<ResolvedLayouts> layouts =
        of_a.status.ok() && of_b.status.ok()
            ? ResolveLayouts(of_a.set, of_b.set, bound_.has_value(), &none_a, &none_b)
            : Result<ResolvedLayouts>(of_a.status.ok() ? of_b.status : of_a.status);
    const Put put = PutPair(one_a, one_b, of_a, of_b, std::move(layouts), how, step);
    if (!first) first = {put.a.front(), put.b.front()};
  }
  if (!first) return;
  AddKilled(left, right, *first, *step);
  FindLost(left, right, *first, step);
}

void JobPairs::FindLost(const Group& left, const Group& right, RecordIds ids, Step* step) {
  OpenedPair& opened = step->opened;
  const size_t from_a = opened.lost_a.size(), from_b = opened.lost_b.size();
  lost_a_.Find(left, ids.a, &opened.lost_a);
  lost_b_.Find(right, ids.b, &opened.lost_b);
  step->uneven->Add(left, right, ids);
  if (!lie_alike_) return;
  const auto common = TakeOutCommon(from_a, from_b, &opened.lost_a, &opened.lost_b);
  if (!common || std::exchange(told_common_, true)) return;
  opened.notes.push_back(
      fmt::format("what the same ranks of both sides lack, though they should hold it, is no "
                  "difference: first rank {}, {}",
                  common->rank, ToText(right.key)));
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
                      UnevenCopies::Of{b_, step.b.get(), &pair.b}, lie_alike_);
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

}  // namespace tdump::compare
