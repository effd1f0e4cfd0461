// One step is a training step of examples/tp_transformer, one rank: forward, backward, AdamW.
#include <ATen/Parallel.h>
#include <mpi.h>
#include <tdump/tdump.h>
#include <torch/torch.h>

#include "bench/jobs/turns.h"
#include "examples/tp_transformer/model.h"
#include "examples/tp_transformer/parallel.h"
#include "examples/tp_transformer/text.h"

namespace {

constexpr int64_t kBatch = 4;  // as the example

int Train() {
  at::set_num_threads(1);
  torch::manual_seed(1);
  const tp::Group group(MPI_COMM_WORLD);
  const tp::Text text(TP_TRANSFORMER_TEXT);
  const tp::Config config{.vocabulary = text.vocabulary_size()};
  tp::Transformer model(config, group);
  tdump::watch(model.ptr());
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  const tp::Batch batch = text.Sample(kBatch, config.context);
  const auto step = [&] {
    optimizer.zero_grad();
    const auto logits = model(batch.inputs);
    torch::nn::functional::cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).backward();
    optimizer.step();
  };
  for (int i = 0; i < 5; ++i) step();
  return tdump::bench::TakeTurns(step, [] {});
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int status = Train();
  MPI_Finalize();
  return status;
}
