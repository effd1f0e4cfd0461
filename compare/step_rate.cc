#include "compare/step_rate.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "compare/optimizer_states.h"

namespace tdump::compare {
namespace {

constexpr char kNothing[] = "nothing";

// Adamax divides by it.
bool IsLargestSize(std::string_view name) { return name == "exp_inf"; }
bool IsOfSquares(std::string_view name) { return StateKindOf(name) == StateKind::kOfSquares; }
bool IsDivisor(std::string_view name) { return IsLargestSize(name) || IsOfSquares(name); }

// y of the elements of a loaded tile.
class Multiplied {
 public:
  Multiplied(const WeightUpdate& update, const std::string& divided, const std::string& by) {
    for (const WeightUpdate::Part& part : update.parts) {
      if (part.name == divided) divided_ = part.sides.get();
      if (part.name == by) by_ = part.sides.get();
    }
    root_ = IsOfSquares(by);
  }
  bool is_known() const { return divided_ != nullptr; }
  double OfA(uint64_t i) const { return Of(divided_->a[i], by_ == nullptr ? 1 : by_->a[i]); }
  double OfB(uint64_t i) const { return Of(divided_->b[i], by_ == nullptr ? 1 : by_->b[i]); }

 private:
  double Of(double divided, double by) const {
    return divided == 0 ? 0 : divided / (root_ ? std::sqrt(by) : by);
  }

  const BothSides* divided_ = nullptr;
  const BothSides* by_ = nullptr;  // null: by nothing
  bool root_ = false;
};

double MedianOf(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace

std::vector<StepRate::Form> StepRate::FormsOf(const WeightUpdate& update) {
  std::vector<Form> forms;
  for (const WeightUpdate::Part& divided : update.parts) {
    if (IsDivisor(divided.name)) continue;
    forms.emplace_back(divided.name, kNothing);
    for (const WeightUpdate::Part& by : update.parts)
      if (IsDivisor(by.name)) forms.emplace_back(divided.name, by.name);
  }
  return forms;
}

Status StepRate::Add(const WeightUpdate& update) {
  struct Sums {
    Form form;
    Multiplied y;
    double dy = 0, yy = 0;
  };
  std::vector<Sums> sums;
  for (const Form& form : FormsOf(update))
    sums.push_back({form, Multiplied(update, std::get<0>(form), std::get<1>(form))});
  double dd = 0, roundings = 0;
  TDUMP_RETURN_IF_ERROR(update.ForEachTile(WeightUpdate::Of::kA, [&](uint64_t i) {
    const double d = update.now->a[i] - update.BeforeA(i);
    const double rounding = update.now->roundoff_a() * update.now->a[i];
    if (!std::isfinite(d)) return true;
    dd += d * d;
    roundings += rounding * rounding;
    for (Sums& of : sums) {
      const double y = of.y.OfA(i);
      of.dy += d * y;
      of.yy += y * y;
    }
    return true;
  }));
  if (!(dd > roundings)) return {};
  for (const Sums& of : sums) {
    const double rate = std::abs(of.dy) / of.yy;
    if (!(of.yy > 0) || !std::isfinite(rate)) continue;
    fits_[of.form].push_back({.left = 1 - rate * std::abs(of.dy) / dd, .rate = rate});
  }
  return {};
}

void StepRate::Finish() {
  for (const auto& [form, fits] : fits_) {
    std::vector<double> left, rates;
    for (const Fit& fit : fits) {
      left.push_back(fit.left);
      rates.push_back(fit.rate);
    }
    medians_[form] = {.left = MedianOf(std::move(left)), .rate = MedianOf(std::move(rates))};
  }
  fits_.clear();
}

Result<std::optional<double>> StepRate::LargestOfB(const WeightUpdate& update) const {
  std::optional<Fit> best;
  Form of;
  for (const Form& form : FormsOf(update)) {
    const auto median = medians_.find(form);
    if (median == medians_.end() || (best && best->left <= median->second.left)) continue;
    best = median->second;
    of = form;
  }
  if (!best) return std::optional<double>();
  const Multiplied y(update, std::get<0>(of), std::get<1>(of));
  double largest = 0;
  TDUMP_RETURN_IF_ERROR(update.ForEachTile(WeightUpdate::Of::kBoth, [&](uint64_t i) {
    const double of_b = std::abs(y.OfB(i));
    if (std::isfinite(of_b)) largest = std::max(largest, of_b);
    return true;
  }));
  return std::optional((1 + std::sqrt(std::max(0.0, best->left))) * best->rate * largest);
}

}  // namespace tdump::compare
