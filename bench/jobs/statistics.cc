// One step measures a float32 or bfloat16 tensor of MIB MiB once.
//   statistics DTYPE MIB tdump     all fields of core/statistics.h, one thread
//   statistics DTYPE MIB torch     aminmax, mean, std and count_nonzero(isnan) of it, one thread
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench/jobs/turns.h"
#include "io/statistics.h"

namespace {

volatile double sink;  // so that no result is unused

void WithTorch(const at::Tensor& values) {
  const auto [low, high] = at::aminmax(values);
  sink = low.item<double>() + high.item<double>() + values.mean().item<double>() +
         values.std().item<double>() + at::count_nonzero(at::isnan(values)).item<double>();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: statistics float32|bfloat16 MIB tdump|torch\n", stderr);
    return 2;
  }
  at::set_num_threads(1);
  torch::manual_seed(0);
  const bool wide = std::string_view(argv[1]) == "float32";
  const int64_t bytes = std::atoll(argv[2]) << 20;
  const c10::InferenceMode inference;
  const at::Tensor values =
      torch::randn({bytes / (wide ? 4 : 2)}).to(wide ? at::kFloat : at::kBFloat16);
  const tdump::DType dtype =
      wide ? tdump::MakeDType("float32", 32) : tdump::MakeDType("bfloat16", 16);
  const std::span<const std::byte> payload(static_cast<const std::byte*>(values.const_data_ptr()),
                                           static_cast<size_t>(bytes));
  const bool ours = std::string_view(argv[3]) == "tdump";
  const auto step = [&] {
    if (ours) {
      sink = tdump::io::StatisticsOf(dtype, payload).mean;
    } else {
      WithTorch(values);
    }
  };
  step();
  return tdump::bench::TakeTurns(step, [] {});
}
