// A C++ program with one line of tdump: it names the model. Its modules are LibTorch's own.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <cstdio>

#include "tdump/tdump.h"

namespace nn = torch::nn;

int main() {
  at::set_num_threads(1);
  torch::manual_seed(0);
  nn::Sequential net(nn::Linear(4, 6), nn::ReLU(nn::ReLUOptions().inplace(true)), nn::Linear(6, 2));
  tdump::watch(net);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto x = torch::randn({3, 4});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    if (step == 1) {
      try {
        net->forward(torch::ones({3, 5}));
        std::puts("not reached");
      } catch (const c10::Error&) {
        std::puts("caught");
      }
    }
    net->forward(x).sum().backward();
    optimizer.step();
  }
  double sum = 0;
  for (const auto& parameter : net->parameters()) sum += parameter.sum().item<double>();
  std::printf("sum %.17g random %.9g\n", sum, torch::randn({1}).item<double>());
}
