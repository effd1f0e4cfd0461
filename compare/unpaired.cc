#include "compare/unpaired.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <tuple>

#include "compare/leftovers.h"
#include "compare/metrics.h"
#include "compare/roles.h"
#include "compare/skipped_operator.h"
#include "compare/text.h"
#include "compare/uneven_copies.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostNames = 4096;   // of a side, for advice on maps
constexpr size_t kMostNearest = 200;  // records of a pass for which the nearest name is sought
constexpr size_t kNearest = 2;

Unpaired NewUnpaired(char side, const PassRef& pass) {
  Unpaired unpaired;
  unpaired.side = side;
  unpaired.step = pass.step;
  unpaired.rank = pass.captured_rank();
  if (pass.behind) unpaired.against = pass.rank;
  return unpaired;
}

std::string UnfinishedText(const PassRef& here, const PassRef& other) {
  if (here.captured_rank() == other.captured_rank()) return "the other side's pass is unfinished";
  return fmt::format("the pass of rank {} is unfinished", other.captured_rank());
}

std::string LostText(const LostCopy& copy, const RankLists& lists, char side, const Key& key,
                     uint64_t step) {
  if (copy.how == LostCopy::How::kSkipped)
    return SkippedText(PlainName(key.root, key.path, key.op), side, step, {copy.rank},
                       lists[copy.ran]);
  const std::string holds = fmt::format("rank {} of {} holds no copy", copy.rank, side);
  if (IsHeldByOthers(copy))
    return fmt::format("{}, though {} {}", holds, RanksText(lists[copy.ran]),
                       lists[copy.ran].size() == 1 ? "does" : "do");
  switch (copy.how) {
    case LostCopy::How::kGone:
      return holds + ", though it did before";
    case LostCopy::How::kUnfinished:
      return holds + ": its pass is unfinished";
    case LostCopy::How::kNoPass:
      return fmt::format("{}: it has no step {}", holds, step);
    case LostCopy::How::kSkipped:
      break;
  }
  return holds;
}

// What is listed apart. "" of what was lost otherwise.
std::string ToldApart(const LostCopy& copy, const Key& key) {
  if (IsHeldByOthers(copy)) return std::to_string(copy.ran);
  return copy.how == LostCopy::How::kSkipped ? key.root + "\n" + key.path : "";
}

std::vector<Leftover> LeftoversOf(const StepView& view, const std::vector<uint64_t>& ids) {
  std::vector<Leftover> leftovers;
  for (const uint64_t id : ids) {
    if (leftovers.size() == kMostNames) break;
    const auto record = view.Get(id);
    if (record.ok())
      leftovers.push_back({record->key, record->cls, ElementShape(*record), leftovers.size()});
  }
  return leftovers;
}

std::string NearestText(const io::Record& record, const std::vector<Leftover>& others) {
  const Leftover name{record.key, record.cls, ElementShape(record), 0};
  std::vector<std::string> nearest;
  for (const size_t i : NearestNames(name, others, kNearest))
    nearest.push_back(ToText(others[i].key));
  return nearest.empty() ? "" : fmt::format("nearest: {}", fmt::join(nearest, ", "));
}

}  // namespace

bool UnpairedList::IsAllowed(const io::Record& record) const {
  return options_->allow_unpaired && options_->allow_unpaired.Match(record);
}

bool UnpairedList::IsListed(bool allowed) const {
  return options_->on_unpaired || (allowed ? allowed_ : report_->unpaired).size() < options_->top;
}

void UnpairedList::CountAlone(const Key& key) {
  report_->inputs.alone += IsRootInput(key);
  report_->parameters.alone +=
      key.role == Role::kParam || (key.role == Role::kState && !IsOfOptimizer(key));
}

void UnpairedList::Add(Unpaired unpaired) {
  Counts& c = report_->counts;
  (unpaired.side == 'A' ? c.unpaired_a : c.unpaired_b) += unpaired.records;
  if (unpaired.allowed) c.unpaired_allowed += unpaired.records;
  if (options_->on_unpaired) options_->on_unpaired(unpaired);
  std::vector<Unpaired>& list = unpaired.allowed ? allowed_ : report_->unpaired;
  if (list.size() < options_->top) list.push_back(std::move(unpaired));
}

void UnpairedList::ListAllowed() {
  for (Unpaired& unpaired : allowed_) {
    if (report_->unpaired.size() >= options_->top) break;
    report_->unpaired.push_back(std::move(unpaired));
  }
}

Status UnpairedList::AddPass(char side, const PassRef& pass, const RunSide& here,
                             const RunSide& other) {
  return AddPass(side, pass, here, other.WhyMissing(other.rank().value_or(pass.rank)));
}

Status UnpairedList::AddPass(char side, const PassRef& pass, const RunSide& here, std::string why,
                             const std::set<std::string>& paired) {
  TDUMP_ASSIGN_OR_RETURN(const auto view, here.Open(pass));
  Unpaired unpaired = NewUnpaired(side, pass);
  unpaired.extra = pass.extra;
  unpaired.why = std::move(why);
  unpaired.allowed = true;
  Status status = view->ForEachTensor([&](const io::Record& record) {
    const std::string name = NameOf(record);
    if (options_->pass.select && !options_->pass.select(name)) return true;
    if (!paired.empty() && paired.contains(ToText(record.key))) return true;
    ++unpaired.records;
    CountAlone(record.key);
    unpaired.allowed = unpaired.allowed && IsAllowed(record);
    return true;
  });
  has_pass_ = has_pass_ || unpaired.records > 0;
  if (unpaired.records > 0) Add(std::move(unpaired));
  return status;
}

Status UnpairedList::AddAbsent(char side, const PassRef& absent, const RunSide& lacking) {
  const char of = side == 'A' ? 'B' : 'A';
  (of == 'A' ? absent_a_ : absent_b_).insert(absent.rank);
  PassRef whole = absent;
  whole.rank = kAllRanks;
  return AddPass(side, whole, lacking,
                 fmt::format("rank {} of {} has no step {}, which other ranks have", absent.rank,
                             of, absent.step));
}

void UnpairedList::AddRecordsOf(char side, const PassDiff& pass, const PassRef& here,
                                const PassRef& other) {
  const bool of_a = side == 'A';
  const StepView& view = of_a ? *pass.a : *pass.b;
  std::optional<std::vector<Leftover>> others;
  size_t sought = 0;
  for (const uint64_t id : of_a ? pass.only_a : pass.only_b) {
    const auto record = view.Get(id);
    if (!record.ok()) continue;
    Unpaired unpaired = NewUnpaired(side, here);
    if (here.rank == kAllRanks) unpaired.rank = view.RankAt(id, {});
    unpaired.records = 1;
    CountAlone(record->key);
    unpaired.name = NameOf(*record);
    unpaired.key = ToText(record->key);
    unpaired.allowed = IsAllowed(*record);
    if (!unpaired.allowed) (of_a ? roles_a_ : roles_b_) |= RoleBit(record->key.role);
    auto& names = of_a ? names_a_ : names_b_;
    if (names.size() < kMostNames) names.push_back(NameOfRecord(*record));
    std::string& sample = of_a ? sample_a_ : sample_b_;
    if (sample.empty()) sample = unpaired.name;
    if (other.part) {
      unpaired.why = UnfinishedText(here, other);
    } else if (IsListed(unpaired.allowed) && sought++ < kMostNearest) {
      if (!others)
        others = of_a ? LeftoversOf(*pass.b, pass.only_b) : LeftoversOf(*pass.a, pass.only_a);
      unpaired.why = NearestText(*record, *others);
    }
    Add(std::move(unpaired));
  }
}

void UnpairedList::AddRecords(const PassDiff& pass, const PassPair& pair) {
  AddRecordsOf('A', pass, pair.a, pair.b);
  AddRecordsOf('B', pass, pair.b, pair.a);
  AddLost('A', pass, pair);
  AddLost('B', pass, pair);
  absent_a_.clear();
  absent_b_.clear();
}

// `side`: the one that has them.
void UnpairedList::AddLost(char side, const PassDiff& pass, const PassPair& pair) {
  const bool of_a = side == 'A';
  const StepView& lacking = of_a ? *pass.b : *pass.a;
  const uint64_t step = of_a ? pair.b.step : pair.a.step;
  std::map<std::tuple<int32_t, bool, std::string>, Unpaired> by_rank;
  for (const LostCopy& copy : of_a ? pass.lost_b : pass.lost_a) {
    if ((of_a ? absent_b_ : absent_a_).contains(copy.rank)) continue;  // told of the whole pass
    const auto record = lacking.Get(copy.tensor);
    if (!record.ok()) continue;
    const bool allowed = IsAllowed(*record);
    const auto [found, added] =
        by_rank.try_emplace({copy.rank, allowed, ToldApart(copy, record->key)},
                            NewUnpaired(side, of_a ? pair.a : pair.b));
    Unpaired& unpaired = found->second;
    ++unpaired.records;
    if (!added) continue;
    unpaired.name = NameOf(*record);
    unpaired.key = ToText(record->key);
    unpaired.allowed = allowed;
    unpaired.lacking = copy.rank;
    unpaired.why = LostText(copy, pass.rank_lists, of_a ? 'B' : 'A', record->key, step);
  }
  for (auto& [rank, unpaired] : by_rank) Add(std::move(unpaired));
}

std::string UnpairedList::Advice() const {
  if (!options_->shipped_maps) return "";
  std::string advice = AdviceText(AdviseMap(options_->shipped_maps(), names_a_, names_b_));
  if (advice.empty() && !names_a_.empty() && !names_b_.empty())
    advice = "if it is one model under other names, --suggest-map drafts a map from A and B";
  return advice;
}

std::string UnpairedList::RulesHint(uint32_t paired_roles) const {
  const uint32_t alone = roles_a_ | roles_b_;
  if (has_pass_ || alone == 0 || (roles_a_ & roles_b_) != 0) return "";
  std::vector<std::string_view> roles;
  for (uint32_t role = 0; role < kRoleCount; ++role) {
    if (alone >> role & 1) roles.push_back(ToString(static_cast<Role>(role)));
  }
  // Where others of these roles are compared, no role tells them apart, and what takes every record
  // would hide what else is missing.
  std::string pattern = "RE";
  if ((alone & paired_roles) == 0)
    pattern = ShellWord(roles.size() == 1 ? fmt::format("@{}#", roles.front())
                                          : fmt::format("@({})#", fmt::join(roles, "|")));
  return fmt::format(
      "the runs were captured with different rules: if that is why records are without a partner, "
      "--allow-unpaired {} lists {} and does not count them",
      pattern, pattern == "RE" ? "those that RE names" : "them");
}

std::string UnpairedList::NamesText() const {
  if (sample_a_.empty() || sample_b_.empty()) return "";
  std::string text = fmt::format("A has names like {}, B like {}", sample_a_, sample_b_);
  const std::string advice = Advice();
  return advice.empty() ? text : text + "; " + advice;
}

}  // namespace tdump::compare
