// A watched model with parameters and buffers in training. Of the first step, and of all steps from
// the fifth (or the one named) to the last, it prints what the thread allocated and formatted
// (count_allocations.c, preloaded), then the names of the process's threads.
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tdump/tdump.h"

namespace nn = torch::nn;

namespace {

constexpr int kSteps = 48;
constexpr int kLayers = 8;

template <class Function>
Function* Counter(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) std::exit(3);
  return reinterpret_cast<Function*>(found);
}

void PrintThreads() {
  std::multiset<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    names.insert(name);
  }
  std::printf("threads");
  for (const std::string& name : names) std::printf(",%s", name.c_str());
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int warm = argc > 1 ? std::atoi(argv[1]) : 4;
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
    if (step == 0 || step == warm) begin();
    net->forward(x).sum().backward();
    if (step != 0 && step != kSteps - 1) continue;
    long counts[4];
    end(counts);
    std::printf("training %d allocations %ld of tdump %ld texts %ld of tdump %ld\n", step,
                counts[0], counts[1], counts[2], counts[3]);
  }
  PrintThreads();
}
