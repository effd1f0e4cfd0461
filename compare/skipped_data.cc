#include "compare/skipped_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "compare/job_text.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

// As it was captured.
std::string NameOf(const JobStep& step, const Group& group) {
  const auto data = step.DataOf(group.members.front());
  const Key& key = data.ok() ? data->record.key : group.key;
  return PlainName(key.root, key.path, key.op);
}

}  // namespace

std::vector<int32_t> RanksOf(const JobStep& step, const Group& group) {
  std::vector<int32_t> ranks;
  for (const Member& member : group.members) ranks.push_back(step.RankOf(member));
  return ranks;
}

bool HaveOtherData(const std::vector<SkippedRank>& ranks) {
  return std::ranges::all_of(ranks, &SkippedRank::has_other_data);
}

bool RanIt(const std::vector<SkippedRank>& ranks) {
  return std::ranges::all_of(ranks, &SkippedRank::ran_it);
}

void AddLost(const JobStep& step, const Group& group, const std::vector<SkippedRank>& lacking,
             RecordIds ids, bool are_copies, RankLists* lists, std::vector<LostCopy>* lost) {
  if (lacking.empty()) return;
  // Mostly that of the tensor before.
  if (std::vector<int32_t> ran = RanksOf(step, group); lists->empty() || lists->back() != ran)
    lists->push_back(std::move(ran));
  for (const SkippedRank& rank : lacking) {
    if (rank.ran_it || (are_copies && rank.has_other_data)) continue;  // its data had none of it
    lost->push_back({.tensor = ids.a,
                     .partner = ids.b,
                     .rank = rank.rank,
                     .how = LostCopy::How::kSkipped,
                     .ran = static_cast<uint32_t>(lists->size() - 1)});
  }
}

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

std::string OtherDataText(const JobStep& step, char side, const Group& group) {
  return fmt::format(
      "ranks of {} that have no record of {} were given other data than those that have, which "
      "is taken for the reason",
      side, NameOf(step, group));
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

}  // namespace tdump::compare
