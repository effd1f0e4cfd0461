#include "collectors/torch/optimizer_state.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstring>
#include <mutex>
#include <type_traits>
#include <unordered_map>

#include "collectors/torch/capture.h"
#include "collectors/torch/cxx_modules.h"
#include "collectors/torch/error_text.h"
#include "collectors/torch/plugin.h"
#include "core/fork_mutex.h"

namespace tdump::collectors {
namespace {

// Steps of each optimizer in the pass it stepped in last.
uint64_t NextStep(const void* optimizer, uint64_t pass) {
  struct Count {
    uint64_t pass = ~uint64_t{0};
    uint64_t steps = 0;
  };
  static auto* mutex = new ForkMutex;
  static auto* counts = new std::unordered_map<const void*, Count>;
  std::lock_guard lock(*mutex);
  Count& count = (*counts)[optimizer];
  if (count.pass != pass) count = {pass, 0};
  return count.steps++;
}

// ---- the optimizers of LibTorch ----

template <class Items>
void All(OptimizerState* out, const std::string& name, const Items& items) {
  size_t i = 0;
  for (const at::Tensor& item : items) out->Tensor(name + "." + std::to_string(i++), item);
}

// Adam and AdamW keep the same.
template <class State>
requires std::is_same_v<State, torch::optim::AdamParamState> ||
    std::is_same_v<State, torch::optim::AdamWParamState>
void Record(OptimizerState* out, const State& state) {
  out->Integer("step", state.step());
  out->Tensor("exp_avg", state.exp_avg());
  out->Tensor("exp_avg_sq", state.exp_avg_sq());
  out->Tensor("max_exp_avg_sq", state.max_exp_avg_sq());
}

void Record(OptimizerState* out, const torch::optim::SGDParamState& state) {
  out->Tensor("momentum_buffer", state.momentum_buffer());
}

void Record(OptimizerState* out, const torch::optim::AdagradParamState& state) {
  out->Integer("step", state.step());
  out->Tensor("sum", state.sum());
}

void Record(OptimizerState* out, const torch::optim::RMSpropParamState& state) {
  out->Integer("step", state.step());
  out->Tensor("square_avg", state.square_avg());
  out->Tensor("momentum_buffer", state.momentum_buffer());
  out->Tensor("grad_avg", state.grad_avg());
}

// Of all parameters together, kept with the first.
void Record(OptimizerState* out, const torch::optim::LBFGSParamState& state) {
  out->Integer("func_evals", state.func_evals());
  out->Integer("n_iter", state.n_iter());
  out->Real("t", state.t());
  out->Real("prev_loss", state.prev_loss());
  out->Tensor("d", state.d());
  out->Tensor("H_diag", state.H_diag());
  out->Tensor("prev_flat_grad", state.prev_flat_grad());
  All(out, "old_dirs", state.old_dirs());
  All(out, "old_stps", state.old_stps());
  All(out, "ro", state.ro());
  if (state.al()) All(out, "al", *state.al());
}

template <class State>
bool RecordIf(OptimizerState* out, const torch::optim::OptimizerParamState& state) {
  const auto* known = dynamic_cast<const State*>(&state);
  if (known != nullptr) Record(out, *known);
  return known != nullptr;
}

void RecordOne(OptimizerState* out, const torch::optim::OptimizerParamState& state) {
  using namespace torch::optim;
  (void)(RecordIf<AdamWParamState>(out, state) || RecordIf<AdamParamState>(out, state) ||
         RecordIf<SGDParamState>(out, state) || RecordIf<AdagradParamState>(out, state) ||
         RecordIf<RMSpropParamState>(out, state) || RecordIf<LBFGSParamState>(out, state));
}

void RecordAll(Runtime* runtime, const torch::optim::Optimizer& optimizer) {
  const auto& states = optimizer.state();
  OptimizerState out(runtime, &optimizer);
  CxxModules::Get().ForEachParameter(
      [&](OperatorId op, const std::string& name, const at::Tensor& parameter) {
        const auto found = states.find(parameter.unsafeGetTensorImpl());
        if (found != states.end() && out.Begin(op, name)) RecordOne(&out, *found->second);
      });
}

}  // namespace

OptimizerState::OptimizerState(Runtime* runtime, const void* optimizer)
    : runtime_(runtime),
      step_(NextStep(optimizer, runtime->gate->pass.load(std::memory_order_acquire))) {}

bool OptimizerState::Begin(OperatorId op, std::string_view name) {
  if (!runtime_->recorder->BeginDetached(op, &scope_)) return false;
  if (!Wants(*runtime_->recorder, scope_, Role::kState)) return false;
  scope_.call.index = step_;
  arg_.assign(name).append(".");
  stem_ = arg_.size();
  return true;
}

std::string_view OptimizerState::ArgOf(std::string_view name) {
  arg_.resize(stem_);
  return arg_.append(name);
}

void OptimizerState::Tensor(std::string_view name, const at::TensorBase& tensor) noexcept try {
  if (!tensor.defined()) return;
  Capture(*runtime_->recorder, &scope_, {Role::kState, ArgOf(name)}, tensor);
} catch (...) {  // out of memory
}

void OptimizerState::Integer(std::string_view name, int64_t number) noexcept {
  Number(name, "int64", &number);
}

void OptimizerState::Real(std::string_view name, double number) noexcept {
  Number(name, "float64", &number);
}

void OptimizerState::Number(std::string_view name, std::string_view dtype,
                            const void* bytes) noexcept try {
  Observation observation;
  observation.role = Role::kState;
  observation.arg = ArgOf(name);
  observation.meta.dtype = MakeDType(dtype, 64);
  const Decision decision = runtime_->recorder->Ask(&scope_, observation);
  if (decision.parts == kPartNone) return;
  observation.dims = decision.dims;
  observation.filter_sets = decision.filter_sets;
  Sink& sink = runtime_->recorder->sink();
  const Slot slot =
      sink.reserve(scope_.call, observation, decision, decision.parts == kPartMeta ? 0 : 8);
  if (slot.data == nullptr) return;
  std::memcpy(slot.data, bytes, 8);
  sink.commit(slot);
} catch (...) {  // out of memory
}

}  // namespace tdump::collectors

extern "C" void tdump_torch_optimizer_stepped(const void* optimizer) {
  using namespace tdump::collectors;
  tdump::Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || !runtime->gate->armed() || !CxxModules::watching()) return;
  try {
    RecordAll(runtime, *static_cast<const torch::optim::Optimizer*>(optimizer));
  } catch (const std::exception& error) {
    runtime->sink->note("the state of a C++ optimizer could not be read: " + WhatOf(error));
  } catch (...) {
  }
}
