#include "compare/gradient_sums.h"

#include <algorithm>
#include <cmath>

#include "compare/product.h"

namespace tdump::compare {
namespace {

using Shape = std::vector<uint64_t>;

double Square(double x) { return x * x; }

// Whether features are the last dimension, or the second (convolutions), and as many.
bool HasLast(const Shape& shape, uint64_t features) {
  return !shape.empty() && shape.back() == features;
}
bool HasSecond(const Shape& shape, uint64_t features) {
  return shape.size() > 2 && shape[1] == features;
}

// Whether the features of ranks that hold gradients of their own rows lie one behind the other.
bool LieBehind(const Shape& grad_output, uint64_t features) {
  const uint64_t of_one = grad_output.empty() ? 0 : grad_output.back();
  const uint64_t units = ProductOf(grad_output);
  return of_one > 0 && features > of_one && features % of_one == 0 && units % features == 0;
}

// Of tensors that the terms are products with: what multiplies them.
struct Factor {
  double square = 1;  // mean
  double error = 0;   // power, relative to that
};

}  // namespace

void GradientSums::AddInput(size_t sample, uint64_t path, const ErrorLevel& counted) {
  if (const auto module = modules_.find(path); module != modules_.end())
    module->second.inputs.push_back({sample, counted});
}

void GradientSums::AddGradOutput(size_t sample, uint64_t path, const ErrorLevel& counted) {
  if (const auto module = modules_.find(path); module != modules_.end())
    module->second.grad_outputs.push_back({sample, counted});
}

SumError GradientSums::ErrorOf(const TensorSize& gradient, uint64_t path, bool norm,
                               const SizeOf& size) const {
  const auto module = modules_.find(path);
  const Shape& shape = gradient.shape;
  if (module == modules_.end() || shape.empty() || shape.size() > 2 || ProductOf(shape) == 0)
    return {};
  const bool is_matrix = shape.size() == 2;
  Factor factor;
  if (is_matrix || norm) {
    factor.square = is_matrix ? 0 : 1;
    for (const Term& input : module->second.inputs) {
      const std::optional<TensorSize> of = size(input.sample);
      if (!of || !HasLast(of->shape, shape.back())) continue;
      if (is_matrix) factor.square = std::max(factor.square, Square(of->rms_a));
      factor.error = std::max(factor.error, input.level.power);
    }
    if (factor.square == 0) return {};
  }
  SumError sum;
  double rounding = 0, carried = 0, common = 0, squares = 0;
  for (const Term& term : module->second.grad_outputs) {
    const std::optional<TensorSize> of = size(term.sample);
    if (!of) continue;
    const uint64_t features = shape.front();
    const bool last =
        HasLast(of->shape, features) || (gradient.is_joined && LieBehind(of->shape, features));
    if (!last && (is_matrix || !HasSecond(of->shape, features))) continue;
    const uint64_t rows = ProductOf(of->shape) / features;
    const auto n = static_cast<double>(rows);
    const double square = Square(of->rms_a) * factor.square;
    sum.terms += rows;
    squares += n * square;
    rounding += n * Square(std::max(gradient.sum_roundoff, of->sum_roundoff)) * square;
    carried += n * square * (term.level.power + factor.error);
    if (last && !is_matrix) common += n * n * square * term.level.common;
  }
  if (sum.terms == 0) return {};
  sum.rms = std::sqrt(squares / static_cast<double>(sum.terms));
  sum.error = std::sqrt(rounding + std::max(carried, common));
  return std::isfinite(sum.error) ? sum : SumError{};
}

}  // namespace tdump::compare
