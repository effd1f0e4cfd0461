// y = x * 2 below a module of its own, recorded by a tap. Prints y;
// the same with and without tdump.
#include <ATen/ATen.h>
#include <tdump/tdump.h>
#include <torch/nn/module.h>

#include <iostream>

struct Doubling : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    tdump::scope scope(this, x);
    const at::Tensor y = x * 2;
    tdump::tap(y, "doubled");
    return scope.output(y);
  }
};

int main() {
  const auto model = std::make_shared<Doubling>();
  tdump::watch(model);
  at::NoGradGuard no_grad;
  for (int step = 0; step < 2; ++step) {
    tdump::step(step);
    std::cout << model->forward(at::arange(3, at::kFloat) + step).sum().item<float>() << '\n';
  }
}
