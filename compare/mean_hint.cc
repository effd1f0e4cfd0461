#include "compare/mean_hint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compare/text.h"

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
  return fmt::format("^{}@{}", RegexOf(NameOf(record)), ToString(record.key.role));
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

std::string Remedy::Option() const {
  return "--dims " + ShellWord(Printable(fmt::format("{}:{}: {}", side, pattern, dims)));
}

std::string Remedy::Text() const {
  const char other = side == 'A' ? 'B' : 'A';
  if (times == 0)
    return fmt::format(
        "the mean of what the ranks of {} hold agrees with {}; if it should, as of parts of the "
        "batch: {}",
        side, other, Option());
  return fmt::format(
      "{} is the sum over the ranks and {} times {}; if what each rank holds is a mean, as of its "
      "part of the batch: {}",
      side, times, other, Option());
}

std::optional<Remedy> RemedyOf(const PassDiff& pass, const Outcome& outcome, const io::Record& a,
                               const io::Record& b) {
  if (!outcome.fails || outcome.comparison.evidence != Evidence::kPayload) return std::nullopt;
  struct Side {
    char name;
    const StepView& view;
    uint64_t id;
    const io::Record& record;
  };
  const Side sides[] = {{'B', *pass.b, outcome.ids.b, b}, {'A', *pass.a, outcome.ids.a, a}};
  const auto remedy_of = [](const Side& side, uint64_t times) -> std::optional<Remedy> {
    std::string dims =
        times == 0 ? side.view.DimsOfAgreeingMean(side.id) : side.view.DimsOfMean(side.id, times);
    if (dims.empty()) return std::nullopt;
    return Remedy{side.name, PatternOf(side.record), std::move(dims), times};
  };
  for (const Side& side : sides) {
    if (auto remedy = remedy_of(side, 0)) return remedy;
  }
  const Metrics m = outcome.comparison.metrics;
  if (!m.cosine) return std::nullopt;
  for (const Side& side : sides) {
    const bool is_b = side.name == 'B';
    const uint64_t times =
        TimesLarger(*m.cosine, is_b ? m.rms_b : m.rms_a, is_b ? m.rms_a : m.rms_b);
    if (times > 0) return remedy_of(side, times);
  }
  return std::nullopt;
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
  const bool has_mean = !pass.a->DimsOfAgreeingMean(outcome.ids.a).empty() ||
                        !pass.b->DimsOfAgreeingMean(outcome.ids.b).empty();
  if (outcome.role != Role::kParamGrad && !has_mean) return;
  const auto a = pass.a->Get(outcome.ids.a), b = pass.b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok()) return;
  const auto remedy = RemedyOf(pass, outcome, *a, *b);
  if (!remedy) return;
  const auto known = remedies_.find(remedy->Option());
  if (known != remedies_.end())
    ++known->second.pairs;
  else if (remedies_.size() < kMostRemedies)
    remedies_.emplace(remedy->Option(), Offered{*remedy, 1});
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
  for (const auto& [option, offered] : remedies_) {
    if (!told.ends_with(option))
      notes.push_back(fmt::format("{} ({})", offered.remedy.Text(), Plural(offered.pairs, "pair")));
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
