#include "compare/uneven_copies.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include "compare/lost_passes.h"
#include "compare/names.h"
#include "compare/roles.h"
#include "compare/skipped_ranks.h"

namespace tdump::compare {
namespace {

bool IsOfExpert(const Key& key) { return ContainsAny(LowerCase(key.path), {"expert"}); }

// Owners may hold it alone, each its own: parameters, or their gradients.
bool MayBeDealtOut(const Key& key) {
  return key.role == Role::kParam || key.role == Role::kParamGrad;
}

std::string ModuleOf(const Key& key) { return key.root + "\n" + key.path; }

// Whether two ranks lie apart on axes of which `may_differ` says so alone.
bool LieBeside(const Topology& topology, int32_t x, int32_t y,
               const std::function<bool(const std::string&)>& may_differ) {
  if (!topology.HasPlace(x) || !topology.HasPlace(y)) return false;
  for (size_t axis = 0; axis < topology.axes().size(); ++axis) {
    if (!may_differ(topology.axes()[axis].name) &&
        topology.PlaceOn(axis, x) != topology.PlaceOn(axis, y))
      return false;
  }
  return true;
}

bool IsOfData(const std::string& axis) { return IsOfReplicas(axis) && !SharesData(axis); }

// Of `from`, both ascending.
std::vector<int32_t> Without(const std::vector<int32_t>& from, const std::vector<int32_t>& some) {
  std::vector<int32_t> rest;
  std::ranges::set_difference(from, some, std::back_inserter(rest));
  return rest;
}

uint32_t ListOf(const std::vector<int32_t>& ranks, RankLists* lists) {
  if (lists->empty() || lists->back() != ranks) lists->push_back(ranks);  // mostly the one before
  return static_cast<uint32_t>(lists->size() - 1);
}

}  // namespace

UnevenCopies::Side::Side(const Of& of)
    : job(of.job),
      step(of.step),
      is_of_places(!job->Describe().is_ours && !job->topology().is_unknown()),
      absent(job->RanksWithout(*of.ref)) {
  for (uint32_t pass = 0; pass < step->passes().size(); ++pass)
    pass_of.emplace(step->passes()[pass].rank, pass);
}

UnevenCopies::UnevenCopies(const Of& a, const Of& b, bool lie_alike)
    : a_(a), b_(b), lie_alike_(lie_alike) {}

void UnevenCopies::Add(const Group& left, const Group& right, RecordIds ids) {
  const bool may_be_apart =
      IsOfOptimizer(right.key) ||
      (!IsWeight(right.key.role) && (IsOfExpert(left.key) || IsOfExpert(right.key)));
  const bool some_lack_it = left.members.size() != right.members.size() ||
                            left.members.size() < static_cast<size_t>(a_.job->world()) ||
                            right.members.size() < static_cast<size_t>(b_.job->world());
  if (some_lack_it && !may_be_apart) pairs_.push_back({&left, &right, ids});
}

const UnevenCopies::Held& UnevenCopies::Side::HeldBy(uint32_t pass) {
  const auto [known, is_new] = held.try_emplace(pass);
  if (!is_new) return known->second;
  Held& of_pass = known->second;
  // Damage: told by JobStep::Gather.
  (void)step->views()[pass]->ForEachTensor([&](const io::Record& record) {
    of_pass.modules.insert(ModuleOf(record.key));
    if (!IsOfParameters(record.key.role)) of_pass.ran.insert(ModuleOf(record.key));
    // Each rank has experts of its own: they say nothing of what others hold.
    if (MayBeDealtOut(record.key) && !IsOfExpert(record.key))
      of_pass.dealt[record.key.role].insert(ToText(record.key));
    return true;
  });
  (void)step->views()[pass]->ForEachCall([&](const io::CallRecord& call) {
    of_pass.ran.insert(call.root + "\n" + call.path);
    return true;
  });
  return of_pass;
}

bool UnevenCopies::Side::HoldsModuleOf(const Member& member, uint32_t pass) {
  const auto data = step->DataOf(member);
  return data.ok() && HeldBy(pass).modules.contains(ModuleOf(data->record.key));
}

bool UnevenCopies::Side::HoldsAllOf(Role role, uint32_t witness, uint32_t pass) {
  const auto [known, is_new] = holds_all.try_emplace({role, witness, pass});
  if (!is_new) return known->second;
  const auto &of_pass = HeldBy(pass).dealt, &of_witness = HeldBy(witness).dealt;
  const auto own = of_pass.find(role), others = of_witness.find(role);
  return known->second = own != of_pass.end() && others != of_witness.end() &&
                         std::ranges::includes(others->second, own->second);
}

bool UnevenCopies::Side::OughtToHold(const Group& group, uint32_t pass) {
  const auto data = step->DataOf(group.members.front());
  if (!data.ok()) return false;
  const Key& key = data->record.key;
  const bool is_of_module = data->record.kind == OperatorKind::kModule;
  // A capture has the calls of what ran; in another tool's dump a module may have one record.
  const bool must_have_run = job->Describe().is_ours && !IsWeight(key.role);
  const Held& own = HeldBy(pass);
  if (!(must_have_run ? own.ran : own.modules).contains(ModuleOf(key))) return false;
  const OperatorUse use = step->base().UseOf(step->passes()[pass], key);
  if (use.is_known && ((is_of_module && !use.is_selected) || use.not_kept > 0)) return false;
  return !MayBeDealtOut(key) || IsOfExpert(key) ||
         std::ranges::any_of(group.members, [&](const Member& member) {
           return HoldsAllOf(key.role, member.pass, pass);
         });
}

std::vector<int32_t> UnevenCopies::Side::RanksOf(const Group& group) const {
  std::vector<int32_t> ranks;
  for (const Member& member : group.members) ranks.push_back(step->RankOf(member));
  std::ranges::sort(ranks);
  return ranks;
}

LostCopy::How UnevenCopies::Side::HowOf(int32_t rank) const {
  const auto pass = pass_of.find(rank);
  if (pass == pass_of.end()) return LostCopy::How::kNoPass;
  return step->passes()[pass->second].part ? LostCopy::How::kUnfinished : LostCopy::How::kGone;
}

// `own`, `others`: the ranks that hold it, ascending.
std::vector<int32_t> UnevenCopies::LackedBySame(const std::vector<int32_t>& own,
                                                const std::vector<int32_t>& others,
                                                const Group& group, Side* side) const {
  if (!lie_alike_ || others.size() < 2) return {};  // what one rank has may be on another
  const bool is_known = !a_.job->topology().is_unknown() && !b_.job->topology().is_unknown();
  std::vector<int32_t> lacking = Without(others, own);
  std::erase_if(lacking, [&](int32_t rank) {
    const auto pass = side->pass_of.find(rank);
    if (pass == side->pass_of.end())
      return !is_known || !std::ranges::binary_search(side->absent, rank);
    return !side->OughtToHold(group, pass->second);
  });
  return lacking;
}

std::vector<int32_t> UnevenCopies::LackedByPlace(const Group& group, Side* side) {
  std::vector<int32_t> lacking;
  if (!side->is_of_places) return lacking;
  const std::vector<int32_t> own = side->RanksOf(group);
  for (const auto& [rank, pass] : side->pass_of) {
    if (!std::ranges::binary_search(own, rank) && IsMissedByPlace(group, pass, side))
      lacking.push_back(rank);
  }
  return lacking;
}

bool UnevenCopies::IsMissedByPlace(const Group& group, uint32_t pass, Side* side) {
  const JobStep& step = *side->step;
  const bool is_parameter = group.key.role == Role::kParam;
  if (!is_parameter && (IsWeight(group.key.role) || IsOfParameters(group.key.role))) return false;
  const auto is_beside = [&](const Member& member, auto&& may_differ) {
    return LieBeside(step.topology(), step.passes()[pass].rank, step.RankOf(member), may_differ);
  };
  std::vector<Member> sharing, of_other_data;
  for (const Member& member : group.members) {
    if (is_beside(member, SharesData)) sharing.push_back(member);
    if (is_parameter && is_beside(member, IsOfData)) of_other_data.push_back(member);
  }
  std::vector<Member> witnesses = std::move(of_other_data);
  if (sharing.size() > 1) witnesses.insert(witnesses.end(), sharing.begin(), sharing.end());
  return std::ranges::any_of(witnesses, [&](const Member& member) {
    return side->HoldsModuleOf(member, pass) &&
           (!is_parameter || side->HoldsAllOf(Role::kParam, member.pass, pass));
  });
}

void UnevenCopies::Finish(OpenedPair* opened) {
  const auto is_extra = [](const Side& side) {
    return std::ranges::any_of(side.step->passes(), &PassRef::extra);
  };
  if (pairs_.empty() || is_extra(a_) || is_extra(b_)) return;
  for (const auto& [side, lost] : {std::pair(&a_, &opened->lost_a), {&b_, &opened->lost_b}}) {
    for (const LostCopy& copy : *lost) side->told.emplace(copy.tensor, copy.rank);
  }
  for (const Pair& pair : pairs_) {
    const std::vector<int32_t> holders_a = a_.RanksOf(*pair.left);
    const std::vector<int32_t> holders_b = b_.RanksOf(*pair.right);
    std::vector<int32_t> by_place_a = LackedByPlace(*pair.left, &a_);
    std::vector<int32_t> by_place_b = LackedByPlace(*pair.right, &b_);
    if (!by_place_a.empty() && !by_place_b.empty() &&
        SkipAlike(a_.job->topology(), {holders_a, by_place_a}, b_.job->topology(),
                  {holders_b, by_place_b})) {
      by_place_a.clear();
      by_place_b.clear();
    }
    const auto add = [&](Side* side, RecordIds ids, const std::vector<int32_t>& holders,
                         std::vector<int32_t> lacking, const std::vector<int32_t>& more,
                         std::vector<LostCopy>* lost) {
      lacking.insert(lacking.end(), more.begin(), more.end());
      for (const int32_t rank : lacking) {
        if (!side->told.emplace(ids.a, rank).second) continue;
        lost->push_back({.tensor = ids.a,
                         .partner = ids.b,
                         .rank = rank,
                         .how = side->HowOf(rank),
                         .ran = ListOf(holders, &opened->rank_lists)});
      }
    };
    add(&a_, pair.ids, holders_a, LackedBySame(holders_a, holders_b, *pair.left, &a_), by_place_a,
        &opened->lost_a);
    add(&b_, {pair.ids.b, pair.ids.a}, holders_b,
        LackedBySame(holders_b, holders_a, *pair.right, &b_), by_place_b, &opened->lost_b);
  }
}

}  // namespace tdump::compare
