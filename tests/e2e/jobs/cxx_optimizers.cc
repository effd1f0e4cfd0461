// A C++ program whose only line of tdump names its model: three steps of two micro-batches with the
// optimizer named as its argument. Prints, as "STEP NAME HASH" (64-bit FNV-1a of the bytes), the
// gradients before and what the optimizer keeps after each of its steps.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>

#include "tdump/tdump.h"

namespace nn = torch::nn;
namespace optim = torch::optim;

namespace {

void Print(int step, const std::string& name, const void* bytes, size_t count) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  std::printf("%d %s %016" PRIx64 "\n", step, name.c_str(), hash);
}

void Print(int step, const std::string& name, const torch::Tensor& tensor) {
  const auto whole = tensor.contiguous();
  Print(step, name, whole.data_ptr(), whole.nbytes());
}

void Print(int step, const std::string& name, int64_t number) {
  Print(step, name, &number, sizeof number);
}

void PrintState(int step, const std::string& name, const optim::OptimizerParamState& state) {
  if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(&state)) {
    Print(step, name + ".step", adam->step());
    Print(step, name + ".exp_avg", adam->exp_avg());
    Print(step, name + ".exp_avg_sq", adam->exp_avg_sq());
    Print(step, name + ".max_exp_avg_sq", adam->max_exp_avg_sq());
  } else if (const auto* adamw = dynamic_cast<const optim::AdamWParamState*>(&state)) {
    Print(step, name + ".step", adamw->step());
    Print(step, name + ".exp_avg", adamw->exp_avg());
    Print(step, name + ".exp_avg_sq", adamw->exp_avg_sq());
  } else if (const auto* sgd = dynamic_cast<const optim::SGDParamState*>(&state)) {
    Print(step, name + ".momentum_buffer", sgd->momentum_buffer());
  } else if (const auto* adagrad = dynamic_cast<const optim::AdagradParamState*>(&state)) {
    Print(step, name + ".step", adagrad->step());
    Print(step, name + ".sum", adagrad->sum());
  } else if (const auto* rms = dynamic_cast<const optim::RMSpropParamState*>(&state)) {
    Print(step, name + ".step", rms->step());
    Print(step, name + ".square_avg", rms->square_avg());
    Print(step, name + ".momentum_buffer", rms->momentum_buffer());
    Print(step, name + ".grad_avg", rms->grad_avg());
  } else if (const auto* lbfgs = dynamic_cast<const optim::LBFGSParamState*>(&state)) {
    Print(step, name + ".func_evals", lbfgs->func_evals());
    Print(step, name + ".n_iter", lbfgs->n_iter());
    Print(step, name + ".d", lbfgs->d());
    Print(step, name + ".prev_flat_grad", lbfgs->prev_flat_grad());
    for (size_t i = 0; i < lbfgs->old_dirs().size(); ++i)
      Print(step, name + ".old_dirs." + std::to_string(i), lbfgs->old_dirs()[i]);
  }
}

std::unique_ptr<optim::Optimizer> Make(const std::string& cls, std::vector<torch::Tensor> all) {
  if (cls == "Adam")
    return std::make_unique<optim::Adam>(all, optim::AdamOptions(0.01).amsgrad(true));
  if (cls == "AdamW") return std::make_unique<optim::AdamW>(all, optim::AdamWOptions(0.01));
  if (cls == "SGD") return std::make_unique<optim::SGD>(all, optim::SGDOptions(0.01).momentum(0.9));
  if (cls == "Adagrad") return std::make_unique<optim::Adagrad>(all, optim::AdagradOptions(0.01));
  if (cls == "RMSprop")
    return std::make_unique<optim::RMSprop>(
        all, optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  return std::make_unique<optim::LBFGS>(all, optim::LBFGSOptions(0.1).max_iter(4));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string cls = argv[1];
  at::set_num_threads(1);
  torch::manual_seed(5);
  nn::Sequential net(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 2));
  tdump::watch(net);
  const auto optimizer = Make(cls, net->parameters());
  const auto x = torch::randn({2, 5, 3}), y = torch::randn({2, 5, 2});
  for (int step = 0; step < 3; ++step) {
    const auto closure = [&] {
      optimizer->zero_grad();
      torch::Tensor loss;
      for (int micro = 0; micro < 2; ++micro) {
        loss = (net->forward(x[micro]) - y[micro]).square().mean();
        loss.backward();
      }
      return loss;
    };
    if (cls == "LBFGS") {  // calls the closure many times
      optimizer->step(closure);
    } else {
      closure();
      for (const auto& parameter : net->named_parameters())
        Print(step, parameter.key() + ".grad", parameter.value().grad());
      optimizer->step();
    }
    for (const auto& parameter : net->named_parameters()) {
      const auto& states = optimizer->state();
      const auto found = states.find(parameter.value().unsafeGetTensorImpl());
      if (found != states.end()) PrintState(step, parameter.key(), *found->second);
    }
  }
  double sum = 0;
  for (const auto& parameter : net->parameters()) sum += parameter.sum().item<double>();
  std::printf("sum %.17g\n", sum);
}
