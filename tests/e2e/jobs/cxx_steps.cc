// A LibTorch program without a line of tdump: three steps of two micro-batches with the optimizer
// named as its argument, a second optimizer that steps after it, and a step of SGD on its own at
// the end. Prints the loss of each micro-batch in hexadecimal.
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <string>

namespace {

template <class Optimizer>
std::unique_ptr<torch::optim::Optimizer> Make(std::vector<torch::Tensor> parameters) {
  return std::make_unique<Optimizer>(parameters, 1e-2);
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(0);
  torch::set_num_threads(1);
  torch::Tensor weight = torch::randn({2, 2}, torch::requires_grad());
  torch::Tensor other = torch::randn({2}, torch::requires_grad());
  const bool adamw = argc > 1 && std::string(argv[1]) == "adamw";
  auto first = adamw ? Make<torch::optim::AdamW>({weight}) : Make<torch::optim::SGD>({weight});
  auto second = Make<torch::optim::SGD>({other});
  for (int step = 0; step < 3; ++step) {
    for (int micro = 0; micro < 2; ++micro) {
      const auto batch = torch::full({1, 2}, 1.0 + 2 * step + micro);
      torch::Tensor loss = (torch::mm(batch, weight) + other).sum();
      loss.backward();
      std::printf("%a\n", loss.item<float>());
    }
    first->step();
    second->step();
    first->zero_grad();
    second->zero_grad();
  }
}
