// Runs made by hand of one module that an optimizer trains.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {

using Numbers = std::vector<float>;

inline constexpr int64_t kRows = 16, kColumns = 8;
inline constexpr size_t kCount = kRows * kColumns;
inline constexpr float kRate = 0.01f;

// Of size 1, but one in eight is next to nothing: its rounding, of 1e-6, is larger than itself.
inline Numbers Gradient(double noise, uint32_t seed) {
  std::mt19937 values(1), errors(seed);
  std::normal_distribution<double> value, error;  // each keeps a number that it has drawn
  Numbers gradient(kCount);
  for (size_t i = 0; i < kCount; ++i)
    gradient[i] =
        static_cast<float>((i % 8 == 0 ? 1e-7 : 1) * value(values) + noise * error(errors));
  return gradient;
}

inline Numbers Weights() {
  std::mt19937 values(2);
  std::normal_distribution<float> normal(0, 0.1f);
  Numbers weights(kCount);
  for (float& w : weights) w = normal(values);
  return weights;
}

// After the first step of Adam.
inline Numbers Stepped(const Numbers& gradient, float rate) {
  Numbers weights = Weights();
  for (size_t i = 0; i < kCount; ++i)
    weights[i] -= rate * gradient[i] / (std::abs(gradient[i]) + 1e-8f);
  return weights;
}

inline void Add(PassBuilder* pass, Role role, const std::string& name, const Numbers& numbers) {
  const Tensor tensor = Matrix(kRows, kColumns, numbers);
  pass->Param("fc", name, tensor);
  pass->last()->key.role = role;
  pass->last()->payload = tensor.record.payload;
}

inline void AddGradient(PassBuilder* pass, const Numbers& gradient) {
  const uint64_t call = pass->Begin("fc", "", {});
  pass->End(call, "fc", "", {{"weight", Matrix(kRows, kColumns, gradient)}});
  pass->last()->key.role = Role::kParamGrad;
  pass->last_call()->arguments = {
      {.role = Role::kGradOutput, .arg = "", .dtype = "float32", .sizes = {1024, kRows}}};
}

}  // namespace tdump::compare
