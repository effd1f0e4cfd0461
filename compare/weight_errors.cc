#include "compare/weight_errors.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "compare/near.h"

namespace tdump::compare {
namespace {

void Raise(const ErrorLevel& error, ErrorLevel* to) {
  to->power = std::max(to->power, error.power);
  to->peak = std::max(to->peak, error.peak);
  to->gain = std::max(to->gain, error.gain);
  to->common = to->power;  // all rows meet the same weights
}

ErrorLevel AtMost(const ErrorLevel& error, const ErrorLevel& most) {
  return {.power = std::min(error.power, most.power),
          .peak = std::min(error.peak, most.peak),
          .gain = std::min(error.gain, most.gain)};
}

ErrorLevel AtShare(const ErrorLevel& error, double share) {
  return {.power = share * error.power,
          .peak = std::sqrt(share) * error.peak,
          .gain = share * error.gain};
}

double EnergyOf(const TensorSize& size) {
  double elements = 1;
  for (const uint64_t n : size.shape) elements *= static_cast<double>(n);
  return elements * size.rms_a * size.rms_a;
}

}  // namespace

void WeightErrors::Add(uint32_t outcome, const ErrorLevel& error, bool updated) {
  const Outcome& weight = pass_->outcomes[outcome];
  Raise(AtMost(error, weight.local().level), &errors_[weight.path]);
  if (updated) updated_.push_back({outcome, error});
}

void WeightErrors::Finish(TensorSizes* sizes) {
  if (updated_.empty()) return;
  std::unordered_map<uint64_t, double> energies;  // by path
  for (const Updated& updated : updated_) energies[pass_->outcomes[updated.outcome].path] = 0;
  std::unordered_set<uint64_t> names;  // copies count once
  for (uint32_t i = 0; i < pass_->outcomes.size(); ++i) {
    const Outcome& outcome = pass_->outcomes[i];
    const auto energy = energies.find(outcome.path);
    if (outcome.role != Role::kParam || energy == energies.end()) continue;
    if (!names.insert(outcome.key_hash).second) continue;
    if (const auto size = sizes->Of(i)) energy->second += EnergyOf(*size);
  }
  for (const Updated& updated : updated_) {
    const uint64_t path = pass_->outcomes[updated.outcome].path;
    const auto size = sizes->Of(updated.outcome);
    if (!size) continue;
    const double share = std::min(1.0, EnergyOf(*size) / energies[path]);
    const ErrorLevel error = AtShare(updated.error, share);
    if (IsNear(error)) Raise(error, &errors_[path]);
  }
}

ErrorLevel WeightErrors::Of(uint64_t path) const {
  const auto own = errors_.find(path);
  return own == errors_.end() ? ErrorLevel{} : own->second;
}

}  // namespace tdump::compare
