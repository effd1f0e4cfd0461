#include "compare/update_fault.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "compare/bounds.h"
#include "compare/origin_finder.h"
#include "compare/roles.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kLeast = 3;       // parameters
constexpr double kFarPower = 100;    // 20 dB
constexpr double kLargerPower = 10;  // 10 dB

// What a pass holds of a parameter.
struct OfParameter {
  std::vector<const Outcome*> gradients;
  bool gradients_agree = true, gradients_equal = true;
  uint64_t kept = 0, kept_fail = 0;
  const Outcome* first = nullptr;  // of those

  bool has_parted() const {
    return !gradients.empty() && gradients_agree && kept > 0 && kept_fail == kept;
  }
};

// Known to be outside, and not only unequal.
bool IsOutside(const Outcome& outcome) {
  return outcome.fails && !outcome.allowed && !outcome.comparison.verdict.Unproven();
}

// Of B; none: it cannot be read.
std::optional<uint64_t> ParameterHash(const PassDiff& pass, const Outcome& outcome) {
  const std::hash<std::string> hash;
  if (const io::Record* known = pass.b->Known(outcome.ids.b)) return hash(ParameterIn(known->key));
  const auto record = pass.b->Get(outcome.ids.b);
  return record.ok() ? std::optional(hash(ParameterIn(record->key))) : std::nullopt;
}

void SortOnce(std::vector<uint64_t>* hashes) {
  std::sort(hashes->begin(), hashes->end());
  hashes->erase(std::unique(hashes->begin(), hashes->end()), hashes->end());
  hashes->shrink_to_fit();
}

// In order of names.
std::map<std::string, OfParameter> ParametersOf(const PassDiff& pass) {
  std::map<std::string, OfParameter> parameters;
  for (const Outcome& outcome : pass.outcomes) {
    const bool is_gradient = outcome.role == Role::kParamGrad;
    if (!is_gradient && !outcome.of_optimizer) continue;
    const auto record = pass.b->Get(outcome.ids.b);
    if (!record.ok()) continue;
    OfParameter& parameter = parameters[ParameterIn(record->key)];
    if (is_gradient) {
      const Verdict& v = outcome.comparison.verdict;
      parameter.gradients.push_back(&outcome);
      parameter.gradients_agree = parameter.gradients_agree && v.Judged() && !outcome.fails;
      parameter.gradients_equal = parameter.gradients_equal && v.bitwise == Answer::kSame;
    } else if (!record->sizes.empty()) {  // no number of steps
      ++parameter.kept;
      if (!IsOutside(outcome)) continue;
      ++parameter.kept_fail;
      if (parameter.first == nullptr) parameter.first = &outcome;
    }
  }
  return parameters;
}

// 0: not known, or beyond the range of a double.
double PowerOf(const Outcome& outcome) {
  if (outcome.comparison.evidence != Evidence::kPayload) return 0;
  const double power = LevelOf(outcome.comparison.metrics).power;
  return std::isfinite(power) ? power : 0;
}

double MedianOf(std::vector<double> powers) {
  const auto middle = powers.begin() + static_cast<ptrdiff_t>(powers.size() / 2);
  std::nth_element(powers.begin(), middle, powers.end());
  return *middle;
}

// "layers.1.mlp.up.weight" of "layers.1.mlp.up.weight.exp_avg".
std::string ParameterName(const Row& row) {
  const size_t after = row.key.arg.size() - ParameterOf(row.key).size();
  return row.name.substr(0, row.name.size() - std::min(after, row.name.size()));
}

bool IsMost(uint64_t parted, uint64_t parameters) {
  return parameters >= kLeast && 2 * parted > parameters;
}

bool IsIn(const std::vector<int32_t>& ranks, int32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

void UpdateFaultFinder::AddStates(const PassDiff& pass, const PassPair& pair, OfRank* rank) {
  const std::map<std::string, OfParameter> parameters = ParametersOf(pass);
  const OfParameter *first = nullptr, *worst = nullptr;
  std::vector<double> powers;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.gradients.empty()) ++rank->parameters;
    if (!parameter.has_parted()) continue;
    const double power = PowerOf(*parameter.first);
    powers.push_back(power);
    if (first == nullptr || parameter.first->order < first->first->order) first = &parameter;
    if (worst == nullptr || power > rank->worst) {
      worst = &parameter;
      rank->worst = power;
    }
  }
  rank->parted = powers.size();
  if (!IsMost(rank->parted, rank->parameters)) return;
  const auto place = [&](const OfParameter& parameter) {
    Place made{.row = MakeRow(pass, pair, *parameter.first), .gradients = {}};
    for (const Outcome* gradient : parameter.gradients)
      made.gradients.push_back(MakeRow(pass, pair, *gradient));
    return made;
  };
  rank->median = MedianOf(powers);
  rank->first_place = place(*first);
  rank->worst_place = place(*worst);
  rank->worst_name = ParameterName(rank->worst_place->row);
  const auto is_apart = [&](double power) { return power > kFarPower * rank->median; };
  rank->apart = static_cast<uint64_t>(std::count_if(powers.begin(), powers.end(), is_apart));
}

// Records are looked at where the same gradients were not seen on another rank, or a step before.
std::shared_ptr<const UpdateFaultFinder::Gradients> UpdateFaultFinder::GradientsIn(
    const PassDiff& pass) {
  Gradients made;
  for (const Outcome& outcome : pass.outcomes) {
    if (outcome.role == Role::kParamGrad) made.keys.push_back(outcome.key_hash);
  }
  SortOnce(&made.keys);
  const auto same = std::find_if(lists_.begin(), lists_.end(),
                                 [&](const auto& list) { return list->keys == made.keys; });
  if (same != lists_.end()) return *same;
  for (const Outcome& outcome : pass.outcomes) {
    if (outcome.role != Role::kParamGrad) continue;
    if (const auto parameter = ParameterHash(pass, outcome)) made.parameters.push_back(*parameter);
  }
  SortOnce(&made.parameters);
  return lists_.emplace_back(std::make_shared<const Gradients>(std::move(made)));
}

bool UpdateFaultFinder::HasGradient(const OfRank& rank, uint64_t parameter) {
  return std::any_of(rank.gradients.begin(), rank.gradients.end(), [&](const auto& list) {
    return std::binary_search(list->parameters.begin(), list->parameters.end(), parameter);
  });
}

// And gradients.
void UpdateFaultFinder::AddWeights(const PassDiff& pass, OfRank* rank) {
  rank->gradients.push_back(GradientsIn(pass));
  rank->parameters += rank->gradients.back()->parameters.size();
  for (const Outcome& outcome : pass.outcomes) {
    if (outcome.role != Role::kParam || !IsOutside(outcome)) continue;
    if (const auto weight = ParameterHash(pass, outcome)) rank->failing_weights.push_back(*weight);
  }
  SortOnce(&rank->failing_weights);
}

void UpdateFaultFinder::AddPass(const PassDiff& pass, const PassPair& pair) {
  if (open_ && open_->step != pair.b.step) Close();
  if (found_) return;
  if (!open_) open_ = Step{.step = pair.b.step, .ranks = {}};
  OfRank& rank = open_->ranks[pair.b.rank];
  bool state_fails = false;
  for (const Outcome& outcome : pass.outcomes) {
    rank.has_states = rank.has_states || outcome.of_optimizer;
    state_fails = state_fails || (outcome.of_optimizer && IsOutside(outcome));
    if (outcome.role != Role::kParamGrad) continue;
    rank.gradient_fails = rank.gradient_fails || (outcome.fails && !outcome.allowed);
    rank.gradient_differs =
        rank.gradient_differs || outcome.comparison.verdict.bitwise != Answer::kSame;
  }
  if (state_fails)
    AddStates(pass, pair, &rank);
  else if (!rank.has_states)
    AddWeights(pass, &rank);
}

bool UpdateFaultFinder::HasFault(const Step& step) {
  return std::any_of(step.ranks.begin(), step.ranks.end(), [&](const auto& of) {
    if (!IsMost(of.second.parted, of.second.parameters)) return false;
    return std::none_of(step.ranks.begin(), step.ranks.end(), [&](const auto& other) {
      return other.first != of.first && other.second.gradient_fails;
    });
  });
}

std::optional<UpdateFaultFinder::Step> UpdateFaultFinder::FaultOfWeights(const Step& before,
                                                                         const Step& next) {
  Step fault = before;
  if (before.step + 1 != next.step) return std::nullopt;
  for (auto& [rank, of] : fault.ranks) {
    if (of.has_states || of.gradient_differs) return std::nullopt;
    const auto after = next.ranks.find(rank);
    if (after == next.ranks.end()) continue;
    const std::vector<uint64_t>& failed = of.failing_weights;
    const std::vector<uint64_t>& failing = after->second.failing_weights;
    of.parted = static_cast<uint64_t>(
        std::count_if(failing.begin(), failing.end(), [&](uint64_t parameter) {
          return HasGradient(of, parameter) &&
                 !std::binary_search(failed.begin(), failed.end(), parameter);
        }));
  }
  return HasFault(fault) ? std::optional(std::move(fault)) : std::nullopt;
}

void UpdateFaultFinder::Close() {
  if (!open_ || found_) return;
  if (HasFault(*open_))
    found_ = Found{.step = *open_, .of_weights = false};
  else if (auto fault = before_ ? FaultOfWeights(*before_, *open_) : std::nullopt)
    found_ = Found{.step = *std::move(fault), .of_weights = true};
  before_ = std::exchange(open_, std::nullopt);
  std::erase_if(lists_, [](const auto& list) { return list.use_count() == 1; });
}

void UpdateFaultFinder::MoveTo(const Place& place, Origin* origin) {
  origin->row = place.row;
  origin->inputs = place.gradients;
  origin->last_agreeing.reset();
  origin->certain = true;
  origin->rank = place.row.rank_b;
  origin->rank_a = place.row.rank_a;
  origin->path = place.row.key.path;
  origin->op = place.row.key.op;
  origin->name = PlainName(place.row.key.root, origin->path, origin->op);
  // What was known of the old one.
  origin->parameter.clear();
  origin->parameter_row.reset();
  origin->of_buffer = origin->drifted = origin->may_be_steps = origin->by_bits = false;
  origin->ranks_alike.clear();
  origin->ranks_agreeing.clear();
}

bool UpdateFaultFinder::IsOf(const Origin& origin) const {
  const uint64_t step = found_->step.step;
  if (found_->of_weights) return origin.drifted && !origin.of_buffer && origin.step == step + 1;
  const bool is_state = origin.row && IsOfOptimizer(origin.row->key);
  return is_state && origin.step == step && !origin.unexplained;
}

// The rank with the parameter that is off most, of those that are off by far more than others; else
// the one with the largest median.
const UpdateFaultFinder::OfRank& UpdateFaultFinder::Farthest(const Ranks& ranks) {
  const auto key = [](const OfRank& of) {
    return std::pair(of.has_apart() ? of.worst : 0, of.median);
  };
  const OfRank* farthest = ranks.front().second;
  for (const auto& [rank, of] : ranks) {
    if (key(*of) > key(*farthest)) farthest = of;
  }
  return *farthest;
}

void UpdateFaultFinder::Explain(std::optional<Origin>* origin) {
  Close();
  if (!found_ || !*origin || !IsOf(**origin)) return;
  Ranks ranks;
  UpdateFault fault;
  fault.step = found_->step.step;
  fault.of_weights = found_->of_weights;
  for (const auto& [rank, of] : found_->step.ranks) {
    if (!IsMost(of.parted, of.parameters)) continue;
    ranks.emplace_back(rank, &of);
    if (of.parted <= fault.parted) continue;
    fault.parted = of.parted;
    fault.parameters = of.parameters;
  }
  if (!fault.of_weights) TellRanks(ranks, &fault, &**origin);
  (*origin)->update = std::move(fault);
}

void UpdateFaultFinder::TellRanks(const Ranks& ranks, UpdateFault* fault, Origin* origin) {
  const OfRank& farthest = Farthest(ranks);
  if (farthest.median == 0) return;  // values are not known
  const bool has_apart = farthest.has_apart();
  const OfRank* first = nullptr;
  double others = 0;
  for (const auto& [rank, of] : ranks) {
    if (of->median == 0) continue;
    const bool is_like = has_apart ? of->has_apart() && of->worst_name == farthest.worst_name
                                   : of->median * kLargerPower >= farthest.median;
    (is_like ? fault->ranks : fault->others).push_back(rank);
    if (is_like && first == nullptr) first = of;
    if (!is_like) others = std::max(others, of->median);
  }
  fault->median_db = DbOf(farthest.median);
  fault->others_db = DbOf(others);
  if (has_apart) {
    fault->apart = farthest.worst_name;
    fault->more_apart = farthest.apart - 1;
    fault->apart_db = DbOf(farthest.worst);
  }
  if (!has_apart && IsIn(fault->ranks, origin->rank)) return;
  MoveTo(has_apart ? *first->worst_place : *first->first_place, origin);
  origin->ranks.clear();
  if (fault->ranks.front() != kAllRanks) origin->ranks = fault->ranks;
}

}  // namespace tdump::compare
