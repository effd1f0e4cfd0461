// Runs an AOTInductor package from C++, twice: cxx_package FILE ROWS COLUMNS. Nothing of tdump.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const at::Tensor x = torch::full({std::atoi(argv[2]), std::atoi(argv[3])}, 0.5);
  const at::Tensor index = torch::tensor({5L, 0L, 3L});
  torch::inductor::AOTIModelPackageLoader loader(argv[1]);
  const torch::NoGradGuard no_grad;
  for (int step = 0; step < 2; ++step)
    std::printf("%d %.9g\n", step, loader.run({x + step, index})[0][0][0].item<double>());
}
