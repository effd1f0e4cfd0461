#include "collectors/torch/gradients.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace tdump::collectors {
namespace {

// What a job has registered for the moment after the accumulation.
struct JobHook final : torch::autograd::PostAccumulateGradHook {
  explicit JobHook(int* count) : calls(count) {}
  void operator()(const torch::autograd::Variable&) override { ++*calls; }
  int* calls;
};

TEST(Gradients, AFailureToWatchKeepsTheHookOfTheJob) {
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  int calls = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<JobHook>(&calls));
  const std::string_view longer_than_any_string("w", ~size_t{0} >> 1);  // is not looked into
  WatchParameterGradient(1, longer_than_any_string, parameter);
  parameter.sum().backward();
  EXPECT_EQ(calls, 1);
  WatchParameterGradient(1, "weight", parameter);
  parameter.sum().backward();
  EXPECT_EQ(calls, 2);
  WatchParameterGradient(1, longer_than_any_string, parameter);  // named anew
  parameter.sum().backward();
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace tdump::collectors
