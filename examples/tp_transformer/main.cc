// Trains a small tensor-parallel transformer for a few steps and prints the
// loss and hashes of what it computed.
//
//   mpirun -n 2 build/bin/examples/tp_transformer [--steps N] [--fault RANK:PARAM:BIT] ...
//
// The same seed gives the same training on 1, 2 or 4 ranks up to float32
// rounding: every rank draws the same numbers.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <mpi.h>
#include <torch/torch.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "fault.h"
#include "model.h"
#include "observe.h"
#include "parallel.h"
#include "text.h"

namespace {

constexpr int64_t kBatch = 4;
constexpr const char* kUsage =
    "usage: tp_transformer [--steps N] [--seed N] [--text FILE] [--fault RANK:PARAM:BIT]\n"
    "                      [--wrong-scale RANK:LAYER:STEP]\n"
    "  --steps N   training steps (default 3)\n"
    "  --seed N    of the weights, batches and dropout (default 1)\n"
    "  --rate R    learning rate (default 0.001); 0: the weights stay those of the seed\n"
    "  --text FILE characters to train on (default: the text beside the source)\n"
    "  --fault RANK:PARAM:BIT\n"
    "      before the first step, on rank RANK, flip bit BIT (0..31, 31 is the sign) of one\n"
    "      element of parameter PARAM: the first one that is still finite afterwards\n"
    "  --wrong-scale RANK:LAYER:STEP\n"
    "      in step STEP, on rank RANK, the attention of layer LAYER divides its scores by the "
    "width\n"
    "      of a head instead of its square root\n";

struct Options {
  int64_t steps = 3;
  int64_t seed = 1;
  double rate = 1e-3;
  std::string text = TP_TRANSFORMER_TEXT;
  std::string fault;
  std::string wrong_scale;
  bool help = false;
};

int64_t ParseCount(const std::string& option, const std::string& value) {
  char* end = nullptr;
  const int64_t count = std::strtoll(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || count < 0) {
    throw std::invalid_argument(option + " '" + value + "': expected a whole number");
  }
  return count;
}

double ParseRate(const std::string& value) {
  char* end = nullptr;
  const double rate = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(rate >= 0) || rate > 1)
    throw std::invalid_argument("--rate '" + value + "': expected a number from 0 to 1");
  return rate;
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help") {
      options.help = true;
      return options;
    }
    if (i + 1 == argc) {
      throw std::invalid_argument("option " + option + " is unknown or lacks a value; see --help");
    }
    const std::string value = argv[++i];
    if (option == "--steps") {
      options.steps = ParseCount(option, value);
    } else if (option == "--seed") {
      options.seed = ParseCount(option, value);
    } else if (option == "--rate") {
      options.rate = ParseRate(value);
    } else if (option == "--text") {
      options.text = value;
    } else if (option == "--fault") {
      options.fault = value;
    } else if (option == "--wrong-scale") {
      options.wrong_scale = value;
    } else {
      throw std::invalid_argument("unknown option " + option + "; see --help");
    }
  }
  return options;
}

// 64-bit FNV-1a over the bytes of tensors.
class Hash {
 public:
  void Add(const torch::Tensor& tensor) {
    const auto contiguous = tensor.contiguous();
    const auto* bytes = static_cast<const unsigned char*>(contiguous.data_ptr());
    for (size_t i = 0; i < contiguous.nbytes(); ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

void PrintHashes(const torch::nn::Module& model, int rank) {
  Hash parameters, gradients, rng;
  for (const auto& parameter : model.parameters()) {
    parameters.Add(parameter);
    if (parameter.grad().defined()) gradients.Add(parameter.grad());
  }
  rng.Add(at::detail::getDefaultCPUGenerator().get_state());
  std::printf("rank %d params %016" PRIx64 " grads %016" PRIx64 " rng %016" PRIx64 "\n", rank,
              parameters.value(), gradients.value(), rng.value());
}

void Train(tp::Transformer& model, const tp::Text& text, const tp::Config& config,
           const Options& options, const tp::Group& group,
           const std::optional<tp::ScaleFault>& fault) {
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(options.rate));
  for (int64_t step = 0; step < options.steps; ++step) {
    const auto [inputs, targets] = text.Sample(kBatch, config.context);
    if (fault && group.rank == fault->rank) {
      const double wrong = static_cast<double>(config.heads) / static_cast<double>(config.width);
      model->attention(fault->layer)
          .set_scale(step == fault->step ? std::optional(wrong) : std::nullopt);
    }
    optimizer.zero_grad();
    const auto logits = model(inputs);
    const auto loss = torch::nn::functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
    loss.backward();
    const double gradient_norm = tp::GradientNorm(*model, group);
    optimizer.step();
    if (group.rank == 0) {
      std::printf("step %" PRId64 " loss %.9g grad_norm %.9g\n", step, loss.item<float>(),
                  gradient_norm);
    }
  }
}

void Run(const Options& options, const tp::Group& group) {
  at::set_num_threads(1);
  torch::manual_seed(options.seed);
  const tp::Text text(options.text);
  const tp::Config config{.vocabulary = text.vocabulary_size()};
  tp::Transformer model(config, group);
  tdump::watch(model.ptr());

  if (!options.fault.empty()) {
    const auto fault = tp::ParseFault(options.fault, *model, group.world);
    if (group.rank == fault.rank) tp::FlipBit(fault, *model);
  }
  std::optional<tp::ScaleFault> scale_fault;
  if (!options.wrong_scale.empty())
    scale_fault = tp::ParseScaleFault(options.wrong_scale, config.layers, group.world);
  Train(model, text, config, options, group, scale_fault);
  PrintHashes(*model, group.rank);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const tp::Group group(MPI_COMM_WORLD);
  int status = 0;
  try {
    const Options options = ParseOptions(argc, argv);
    if (!options.help) {
      Run(options, group);
    } else if (group.rank == 0) {
      std::fputs(kUsage, stdout);
    }
  } catch (const std::invalid_argument& error) {  // the same on every rank: say it once
    if (group.rank == 0) std::fprintf(stderr, "tp_transformer: %s\n", error.what());
    status = 2;
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "tp_transformer: rank %d: %s\n", group.rank,
                 error.what_without_backtrace());
    MPI_Abort(MPI_COMM_WORLD, 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tp_transformer: rank %d: %s\n", group.rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  std::fflush(stdout);
  MPI_Finalize();
  return status;
}
