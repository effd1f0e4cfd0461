#include <algorithm>
#include <set>

#include "filters/parse_config.h"
#include "filters/predicate.h"
#include "filters/settings.h"
#include "filters/topology.h"
#include "filters/use.h"

namespace tdump::filters {
namespace {

// Rules of all lists, each once.
std::vector<const Rule*> AllRules(const Config& config) {
  std::vector<const Rule*> rules;
  for (const FilterSet& set : config.capture) {
    for (const Rule& rule : set.rules) rules.push_back(&rule);
  }
  for (const auto& [name, list] : config.filters) {
    for (const Rule& rule : list) rules.push_back(&rule);
  }
  return rules;
}

void CheckRanks(const Spec& ranks, int world, Position at, Mistakes* mistakes,
                std::string_view key = "ranks") {
  std::string misfit;
  if (world <= 0 || ranks.FitsIn(static_cast<uint64_t>(world), &misfit)) return;
  const std::string last = std::to_string(world - 1);
  mistakes->Add(at,
                std::string(key) + ": " + misfit + " is out of range: the job has " +
                    std::to_string(world) + (world == 1 ? " rank" : " ranks"),
                world == 1 ? "0" : "numbers from 0 to " + last + ", or -1 for the last");
}

void CheckKernelRule(const Config& config, const Rule& rule, Position at, Mistakes* mistakes) {
  if (rule.kernel.empty()) return;
  if (config.kernels == KernelMode::kOff) {
    mistakes->Add(at, "rule with 'kernel', but compiled kernels are not collected",
                  "'collect: {kernels: save}' beside it");
  }
  if (!rule.op.empty() || (rule.has_leaf && !rule.leaf)) {
    mistakes->Add(at, "rule with 'kernel' and 'op' or 'leaf: false' matches nothing",
                  "one of the two keys");
  }
  const auto of_kernels = [](Role role) { return role == Role::kBefore || role == Role::kAfter; };
  if (std::none_of(rule.role.begin(), rule.role.end(), of_kernels)) {
    mistakes->Add(at, "rule with 'kernel' and neither of the roles before and after",
                  "'role: [before, after]', or no 'role'");
  }
}

void CheckRule(const Config& config, const Rule& rule, int world, Mistakes* mistakes) {
  const Position at{rule.line, rule.column};
  if (!rule.op.empty() && !config.aten) {
    mistakes->Add(at, "rule with 'op', but ATen operators are not collected",
                  "'collect: {aten: on}' beside it");
  }
  if (!rule.op.empty() && rule.has_leaf && !rule.leaf) {
    mistakes->Add(at, "rule with 'op' and 'leaf: false' matches nothing: ATen operators are leaves",
                  "one of the two keys");
  }
  if (!rule.op.empty() && std::all_of(rule.role.begin(), rule.role.end(), IsGradient)) {
    mistakes->Add(at, "rule with 'op' and roles of gradients only matches nothing",
                  "'phase: backward' for the ATen operators that make gradients");
  }
  CheckKernelRule(config, rule, at, mistakes);
  CheckRanks(rule.ranks, world, at, mistakes);
  if (rule.where.empty()) return;
  const Status where = CheckPredicate(rule.where);
  if (!where.ok()) mistakes->Add(at, "where: " + where.message());
}

void CheckBreadcrumbs(const Config& config, int world, Mistakes* mistakes) {
  if (config.crumb_ranks.is_none()) return;
  if (config.kernels == KernelMode::kOff) {
    mistakes->Add({}, "breadcrumbs.ranks: nothing leaves breadcrumbs, kernels are not collected",
                  "'collect: {kernels: names}' beside it");
  }
  if (!config.crumb_ranks.is_all())
    CheckRanks(config.crumb_ranks, world, {}, mistakes, "breadcrumbs.ranks");
}

}  // namespace

Status ValidateForWorld(const Config& config, int world) {
  Mistakes mistakes(config.source);
  CheckUses(config, &mistakes);
  CheckRanks(config.ranks, world, {config.ranks_line, config.ranks_column}, &mistakes);
  CheckTopology(config, world, &mistakes);
  if (config.collectives && !config.aten)
    mistakes.Add({}, "collect.collectives is on, but operators are not collected",
                 "'collect: {aten: on, collectives: on}'");
  CheckBreadcrumbs(config, world, &mistakes);
  for (const Rule* rule : AllRules(config)) CheckRule(config, *rule, world, &mistakes);
  return mistakes.ToStatus();
}

}  // namespace tdump::filters
