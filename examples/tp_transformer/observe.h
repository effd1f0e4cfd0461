// The optional one-liners of tdump; without its header the program is the same, without them.
#pragma once

#if __has_include(<tdump/tdump.h>)
#include <tdump/tdump.h>
#else
#include <torch/torch.h>

namespace tdump {

inline void watch(const std::shared_ptr<torch::nn::Module>&) {}
inline void tap(const torch::Tensor&, const char*) {}

struct scope {
  scope(const torch::nn::Module*, const torch::Tensor&) {}
  torch::Tensor output(torch::Tensor value) { return value; }
};

}  // namespace tdump
#endif
