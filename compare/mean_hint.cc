#include "compare/mean_hint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostRemedies = 3;

// How many times larger than the other side a side is, where it is that but for rounding; else 0.
uint64_t TimesLarger(double cosine, double rms, double rms_of_other) {
  constexpr double kAlike = 0.99, kOff = 0.01;
  if (!(cosine >= kAlike) || rms_of_other == 0) return 0;
  const double times = cosine * rms / rms_of_other;
  const double whole = std::round(times);
  return whole >= 2 && whole < 1e9 && std::abs(times / whole - 1) <= kOff
             ? static_cast<uint64_t>(whole)
             : 0;
}

// Gradients of parameters are mostly all of one kind: one rule is about all of them.
std::string PatternOf(const io::Record& record) {
  if (record.key.role == Role::kParamGrad) return "@param_grad";
  return fmt::format("^{}@{}", NameOf(record), ToString(record.key.role));
}

std::string RuleFor(char side, const io::Record& record, const std::string& dims) {
  return ShellWord(Printable(fmt::format("{}:{}: {}", side, PatternOf(record), dims)));
}

// What a remedy ends with: texts of several pairs may begin otherwise.
std::string OptionOf(const std::string& remedy) {
  const size_t option = remedy.find("--dims");
  return option == std::string::npos ? "" : remedy.substr(option);
}

bool IsGradientOfValue(Role role) { return role == Role::kGradInput || role == Role::kGradOutput; }

// What is left of the larger side without `times` the other one, relative to that: as exact as the
// cosine, which is a double.
double PowerBeside(uint64_t times, double cosine, double rms, double rms_of_other) {
  constexpr double kRounded = 1e-15;
  const double share = rms / (static_cast<double>(times) * rms_of_other);
  return std::max(0.0, 1 + share * share - 2 * cosine * share - kRounded);
}

double ExplainedPower(const Outcome& outcome) {
  const std::optional<Explanation>& explanation = outcome.explanation;
  return explanation ? explanation->bound.power : outcome.local().level.power;
}

void AddSizes(const Topology& topology, std::set<uint64_t>* sizes) {
  if (topology.world() > 0) sizes->insert(static_cast<uint64_t>(topology.world()));
  for (const Axis& axis : topology.axes()) {
    if (axis.name == "dp" || axis.name == "fsdp") sizes->insert(axis.size);
  }
}

}  // namespace

std::string RemedyOf(const PassDiff& pass, const Outcome& outcome, const io::Record& a,
                     const io::Record& b) {
  const Metrics& m = *outcome.comparison.metrics;
  if (!outcome.fails || outcome.comparison.evidence != Evidence::kPayload) return "";
  const auto mean = [&](char side, const std::string& dims, const io::Record& record) {
    return fmt::format(
        "the mean of what the ranks of {0} hold agrees with {1}; if it should, as of "
        "parts of the batch: --dims {2}",
        side, side == 'A' ? 'B' : 'A', RuleFor(side, record, dims));
  };
  if (const std::string dims = pass.b->DimsOfAgreeingMean(outcome.ids.b); !dims.empty())
    return mean('B', dims, b);
  if (const std::string dims = pass.a->DimsOfAgreeingMean(outcome.ids.a); !dims.empty())
    return mean('A', dims, a);
  const auto remedy = [&](char side, uint64_t times, const std::string& dims,
                          const io::Record& record) {
    return fmt::format(
        "{0} is the sum over the ranks and {1} times {2}; if what each rank holds "
        "is a mean, as of its part of the batch: --dims {3}",
        side, times, side == 'A' ? 'B' : 'A', RuleFor(side, record, dims));
  };
  if (!m.cosine) return "";
  if (const uint64_t times = TimesLarger(*m.cosine, m.rms_b, m.rms_a); times > 0) {
    const std::string dims = pass.b->DimsOfMean(outcome.ids.b, times);
    return dims.empty() ? "" : remedy('B', times, dims, b);
  }
  if (const uint64_t times = TimesLarger(*m.cosine, m.rms_a, m.rms_b); times > 0) {
    const std::string dims = pass.a->DimsOfMean(outcome.ids.a, times);
    return dims.empty() ? "" : remedy('A', times, dims, a);
  }
  return "";
}

MeanHints::MeanHints(const Topology& a, const Topology& b) {
  std::set<uint64_t> of_a = {1}, of_b = {1};
  AddSizes(a, &of_a);
  AddSizes(b, &of_b);
  for (const uint64_t x : of_a) {
    for (const uint64_t y : of_b) {
      if (std::max(x, y) % std::min(x, y) == 0) times_.insert(std::max(x, y) / std::min(x, y));
    }
  }
  times_.erase(1);
}

void MeanHints::Add(const PassDiff& pass, const Outcome& outcome) {
  if (times_.empty() || outcome.comparison.evidence != Evidence::kPayload) return;
  if (IsGradientOfValue(outcome.role)) return AddMultiple(outcome);
  // Of what a rank returns only a mean is told: a sum that is several times larger is no loss.
  const bool has_mean = !pass.a->DimsOfMean(outcome.ids.a, 0).empty() ||
                        !pass.b->DimsOfMean(outcome.ids.b, 0).empty();
  if (outcome.role != Role::kParamGrad && !has_mean) return;
  const auto a = pass.a->Get(outcome.ids.a), b = pass.b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok()) return;
  const std::string remedy = RemedyOf(pass, outcome, *a, *b);
  if (remedy.empty()) return;
  const auto known = remedies_.find(OptionOf(remedy));
  if (known != remedies_.end())
    ++known->second.pairs;
  else if (remedies_.size() < kMostRemedies)
    remedies_.emplace(OptionOf(remedy), Remedy{remedy, 1});
}

void MeanHints::AddMultiple(const Outcome& outcome) {
  const Metrics& m = *outcome.comparison.metrics;
  if (!m.numeric || !m.cosine || m.nan_mismatch + m.inf_mismatch > 0) return;
  const bool of_b = m.rms_b > m.rms_a;
  const double larger = of_b ? m.rms_b : m.rms_a, smaller = of_b ? m.rms_a : m.rms_b;
  const uint64_t times = TimesLarger(*m.cosine, larger, smaller);
  if (!times_.contains(times) ||
      PowerBeside(times, *m.cosine, larger, smaller) > ExplainedPower(outcome))
    return;
  Multiple& multiple = multiples_[{of_b ? 'B' : 'A', times}];
  ++multiple.pairs;
  multiple.roles.insert(outcome.role);
}

std::vector<std::string> MeanHints::Notes(const std::string& told) const {
  std::vector<std::string> notes;
  for (const auto& [option, remedy] : remedies_) {
    if (option != OptionOf(told))
      notes.push_back(fmt::format("{} ({})", remedy.text, Plural(remedy.pairs, "pair")));
  }
  for (const auto& [which, multiple] : multiples_) {
    const auto& [side, times] = which;
    std::vector<std::string_view> roles;
    for (const Role role : multiple.roles) roles.push_back(ToString(role));
    notes.push_back(fmt::format(
        "{0} of {1}: {2} is {3} times {4} within the bound, as gradients are where each rank's "
        "loss is the mean over its own part of the batch; if so, --allow-failed '@{5}#' lists them "
        "and does not count them",
        Plural(multiple.pairs, "pair"), fmt::join(roles, " and "), side, times,
        side == 'A' ? 'B' : 'A',
        roles.size() == 1 ? std::string(roles.front())
                          : fmt::format("({})", fmt::join(roles, "|"))));
  }
  return notes;
}

}  // namespace tdump::compare
