// One step is kOperators calls of a cheap ATen operator.
//   rejected          nothing watches (under tdump: whatever its plan says)
//   rejected bare     a RecordFunction callback that asks for outputs and does nothing
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <tdump/tdump.h>
#include <torch/torch.h>

#include <memory>
#include <string_view>

#include "bench/jobs/turns.h"

namespace {

constexpr int kOperators = 10'000;

std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction&) { return nullptr; }
void OnEnd(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const c10::InferenceMode inference;
  if (argc > 1 && std::string_view(argv[1]) == "bare") {
    at::addGlobalCallback(at::RecordFunctionCallback(OnStart, OnEnd)
                              .needsOutputs(true)
                              .scopes({at::RecordScope::FUNCTION}));
  }
  at::Tensor value = torch::ones({4});
  const auto operators = [&] {
    for (int i = 0; i < kOperators; ++i) value.neg_();
  };
  tdump::step();
  for (int i = 0; i < 5; ++i) operators();
  return tdump::bench::TakeTurns(operators, [] { tdump::step(); });
}
