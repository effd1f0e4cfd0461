#include "tools/coverage_json.h"

#include <nlohmann/json.hpp>

#include "coordinator/coverage.h"
#include "coordinator/coverage_ways.h"

namespace tdump::tools {
namespace {

using Json = nlohmann::ordered_json;

Json RanksJson(const io::PassStore& store, const io::RunIndex& index) {
  Json ranks = Json::array();
  const auto covered =
      coordinator::CoverRanks(store, index, coordinator::OfCutPasses::kWhatCanBeRead);
  for (size_t i = 0; i < covered.size(); ++i) {
    const io::RankState& state = index.ranks[i];
    const coordinator::RankCoverage& rank = covered[i];
    Json processes = Json::array();
    for (const size_t process : state.processes) {
      const io::IdentitySection& identity = store.processes()[process].identity;
      processes.push_back({{"directory", store.processes()[process].directory},
                           {"host", identity.host},
                           {"pid", identity.pid},
                           {"program", identity.program},
                           {"versions", identity.versions},
                           {"closed", store.processes()[process].close.has_value()}});
    }
    ranks.push_back({{"rank", state.rank},
                     {"selected", state.selected},
                     {"closed", state.closed},
                     {"state", state.how},
                     {"last_step", state.processes.empty() ? Json() : Json(state.last_step)},
                     {"steps", rank.whole},
                     {"steps_unfinished", rank.torn},
                     {"steps_left_out", rank.left_out},
                     {"steps_extra", rank.extra},
                     {"steps_agreed", rank.agreed},
                     {"passes", rank.passes},
                     {"records", rank.records},
                     {"calls", rank.calls},
                     {"bytes", rank.bytes},
                     {"not_kept", rank.not_kept},
                     {"blocked_ns", rank.blocked_ns},
                     {"processes", std::move(processes)}});
  }
  return ranks;
}

// Each step that a rank wrote or began to, and on how many of those that record it is whole.
Json StepsJson(const io::PassStore& store, const io::RunIndex& index) {
  const auto covered = coordinator::CoverSteps(coordinator::CoverRanks(store, index), index);
  Json in_part = Json::array();
  for (const auto& [ranks, steps] : covered.in_part)
    in_part.push_back({{"ranks", ranks}, {"steps", steps}});
  return {{"ranks", covered.ranks}, {"everywhere", covered.everywhere}, {"in_part", in_part}};
}

Json OperatorsJson(const io::PassStore& store, const io::RunIndex& index) {
  const coordinator::OperatorSummary summary = coordinator::SummariseOperators(store, index);
  return {{"selected", summary.selected},
          {"seen", summary.seen},
          {"complete", summary.complete},
          {"complete_but_for_steps", summary.but_for_steps},
          {"never_called", summary.never_called}};
}

Json RulesJson(const io::RunIndex& index) {
  Json rules = Json::array();
  for (const io::RuleCoverage& rule : index.rules) {
    rules.push_back({{"filter_set", rule.rule.filter_set},
                     {"rule", rule.rule.rule},
                     {"text", rule.rule.text},
                     {"selector", rule.rule.selector},
                     {"matched", rule.rule.matched},
                     {"near", rule.near_names}});
  }
  return rules;
}

}  // namespace

Json CoverageJson(const io::PassStore& store, const io::RunIndex& index) {
  Json not_kept = Json::array();
  for (const auto& [why, records] : index.not_kept)
    not_kept.push_back({{"why", why}, {"records", records}});
  Json overwritten = Json::array();
  for (const io::OperatorCoverage& op : index.operators) {
    if (op.overwritten != 0)
      overwritten.push_back({{"operator", op.name}, {"records", op.overwritten}});
  }
  Json damage = Json::array();
  for (const io::Damage& item : index.damage)
    damage.push_back({{"file", item.file}, {"offset", item.offset}, {"what", item.what}});
  return {{"run", index.run},
          {"generation", index.generation},
          {"verdict", ToString(coordinator::VerdictOf(index))},
          {"job_key", index.job_key},
          {"world", index.world},
          {"boundary", index.boundary},
          {"rank_source", index.rank_source},
          {"transport", index.transport},
          {"lag", index.max_lag},
          {"steps_seen", index.steps_seen},
          {"bytes", index.bytes},
          {"files", index.files},
          {"ranks", RanksJson(store, index)},
          {"steps_whole", StepsJson(store, index)},
          {"operators", OperatorsJson(store, index)},
          {"rules", RulesJson(index)},
          {"not_kept", std::move(not_kept)},
          {"overwritten", std::move(overwritten)},
          {"notes", index.notes},
          {"damage", std::move(damage)},
          {"holes", index.holes}};
}

Json WaysJson(const io::PassStore& store, const io::RunIndex& index) {
  const auto found = coordinator::FindWays(store, index);
  Json counts = Json::object(), operators = Json::array();
  for (const auto& [words, count] : coordinator::CountWays(found)) counts[words] = count;
  for (const coordinator::OperatorWays& op : found) {
    Json seen = Json::array();
    for (const auto& [way, by] : op.seen)
      seen.push_back({{"way", ToString(way)}, {"calls", by.calls}, {"steps", by.steps.ranges()}});
    operators.push_back({{"name", op.name},
                         {"seen", std::move(seen)},
                         {"not_seen", op.not_seen.ranges()},
                         {"why_not", op.why}});
  }
  return {{"counts", std::move(counts)}, {"operators", std::move(operators)}};
}

std::string JsonText(const Json& document) {
  return document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace tdump::tools
