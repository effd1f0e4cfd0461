#include "launch/tdump_run/estimate_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "coordinator/rule_hint.h"
#include "core/text.h"
#include "io/pass_store.h"
#include "launch/config/limits.h"

namespace tdump::launch {
namespace {

std::string LostText(const std::vector<RankEstimate>& ranks) {
  std::map<SkipReason, uint64_t> lost;
  for (const RankEstimate& rank : ranks) {
    for (const auto& [reason, records] : rank.lost) lost[reason] += records;
  }
  std::string text;
  for (const auto& [reason, records] : lost) {
    text += fmt::format(
        "  note       a lower bound: {} of the steps looked at had not been kept ({})\n",
        Plural(records, "record"), ToString(reason));
  }
  return text;
}

uint32_t AskedRoles(const filters::Config& config) {
  uint32_t roles = 0;
  for (const filters::FilterSet& set : config.capture) {
    for (const filters::Rule& rule : set.rules) {
      for (const Role role : rule.role)
        roles |= rule.level == kPartNone ? 0 : 1u << static_cast<int>(role);
    }
  }
  return roles;
}

std::string RolesText(const std::vector<RankEstimate>& ranks, const filters::Config& config) {
  uint32_t missing = AskedRoles(config);
  for (const RankEstimate& rank : ranks) missing &= ~rank.roles;
  std::string names;
  for (int role = 0; role < 32; ++role) {
    if ((missing >> role & 1) != 0)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", ToString(static_cast<Role>(role)));
  }
  if (names.empty()) return "";
  return fmt::format(
      "  note       a lower bound: the rules ask for {}, of which the run has none\n", names);
}

std::string RulesText(const std::vector<RankEstimate>& ranks) {
  std::map<std::string, uint64_t> matched;
  for (const RankEstimate& rank : ranks) {
    for (const filters::RuleCount& rule : rank.rules) {
      if (rule.off) continue;
      uint64_t& most = matched[coordinator::RuleLabel(rule.rule, rule.text, rule.selector)];
      most = std::max(most, rule.matched);
    }
  }
  std::string text;
  for (const auto& [rule, operators] : matched) {
    if (operators == 0)
      text += fmt::format("  note       {} matched nothing that was looked at\n", Printable(rule));
  }
  return text;
}

}  // namespace

std::string WhyNoRoom(const std::vector<RankEstimate>& ranks, const std::string& folder,
                      std::optional<uint64_t> free_bytes) {
  const bool full = std::any_of(ranks.begin(), ranks.end(), [](const RankEstimate& rank) {
    return rank.lost.contains(SkipReason::kDiskLimit);
  });
  return fmt::format(
      "no estimate: {} of the steps looked at {} the disk of {}{}; TMPDIR names another place for "
      "them",
      Plural(LostToTheDisk(ranks), "record"), full ? "found no room on" : "could not be written to",
      folder, free_bytes ? fmt::format(" ({} free)", BytesText(*free_bytes)) : "");
}

uint64_t LostToTheDisk(const std::vector<RankEstimate>& ranks) {
  uint64_t records = 0;
  for (const RankEstimate& rank : ranks) {
    for (const auto& [reason, count] : rank.lost)
      records += reason == SkipReason::kDiskLimit || reason == SkipReason::kDiskError ? count : 0;
  }
  return records;
}

std::string NotesOfLosses(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                          bool from) {
  return LostText(ranks) + (from ? RolesText(ranks, config) : "") + RulesText(ranks);
}

std::string WhyNoPass(Env* env, const io::RunRef& run, const filters::Config& config) {
  constexpr const char* kNothing = "so there is nothing to estimate from";
  const auto store = io::PassStore::Open(env, run.path);
  if (!store.ok()) return store.status().message();
  uint64_t ran = 0, ranks = 0;
  bool selected = false;
  for (const io::ProcessEntry& process : (*store)->processes()) {
    const io::IdentitySection& who = process.identity;
    if (process.close) ran = std::max(ran, process.close->steps_seen);
    ranks = std::max(ranks, static_cast<uint64_t>(std::max(who.world, 0)));
    selected |= config.ranks.Contains(who.rank, who.world);
  }
  if (!selected && SelectedRanks(config, static_cast<int>(ranks)) != 0)
    return fmt::format(
        "the job ended after {}; ranks {} left nothing here: they recorded no step or ran on "
        "another node; set TMPDIR to a folder that all nodes share",
        Plural(ran, "step"), config.ranks.ToString());
  if (!selected)
    return fmt::format("the job ended after {}; ranks {} selects none of its {}, {}",
                       Plural(ran, "step"), config.ranks.ToString(), Plural(ranks, "rank"),
                       kNothing);
  if (ran == 0) return fmt::format("the job ended without a step, {}", kNothing);
  return fmt::format("the job ended after {}; steps {} selects none, {}", Plural(ran, "step"),
                     config.steps.ToString(), kNothing);
}

}  // namespace tdump::launch
