// One step is kTaps records of a 256-byte CPU tensor through the C++ tap.
#include <ATen/Parallel.h>
#include <tdump/tdump.h>

#include <vector>

#include "bench/jobs/turns.h"

namespace {
constexpr int kTaps = 1000;  // engine/programs.py has the same number
constexpr int kTensors = 64;
}  // namespace

int main() {
  at::set_num_threads(1);
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < kTensors; ++i) tensors.push_back(torch::rand({64}));
  const auto taps = [&] {
    for (int i = 0; i < kTaps; ++i) tdump::tap(tensors[i % kTensors], "bench");
  };
  tdump::step();
  for (int i = 0; i < 5; ++i) taps();
  return tdump::bench::TakeTurns(taps, [] { tdump::step(); });
}
