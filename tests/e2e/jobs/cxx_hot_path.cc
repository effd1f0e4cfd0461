// A watched model with parameters and buffers in training. Of the first step, and of all steps from
// the fifth to the last, it prints what the thread allocated and formatted (count_allocations.c,
// preloaded).
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "tdump/tdump.h"

namespace nn = torch::nn;

namespace {

constexpr int kSteps = 48;
constexpr int kWarm = 4;
constexpr int kLayers = 8;

template <class Function>
Function* Counter(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) std::exit(3);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

int main() {
  at::set_num_threads(1);
  auto* const begin = Counter<int()>("counting_begin");
  auto* const end = Counter<void(long*)>("counting_end");
  nn::Sequential net;
  for (int i = 0; i < kLayers; ++i) {
    net->push_back(nn::Linear(8, 8));
    net->push_back(nn::BatchNorm1d(8));
  }
  tdump::watch(net);
  const auto x = torch::ones({4, 8});
  for (int step = 0; step < kSteps; ++step) {
    if (step == 0 || step == kWarm) begin();
    net->forward(x).sum().backward();
    if (step != 0 && step != kSteps - 1) continue;
    long counts[4];
    end(counts);
    std::printf("training %d allocations %ld of tdump %ld texts %ld of tdump %ld\n", step,
                counts[0], counts[1], counts[2], counts[3]);
  }
}
