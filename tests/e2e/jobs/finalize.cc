// Three steps of one tap on each rank. The argument says when MPI is finalised: "return", before
// main returns; "static", in the destructor of a static object of main; "global", in that of a
// global object; "never".
#include <mpi.h>
#include <torch/torch.h>

#include <cstdio>
#include <string_view>

#include "tdump/tdump.h"

namespace {

struct Finalizer {
  explicit Finalizer(bool wanted) : wanted(wanted) {}
  ~Finalizer() {
    if (!wanted) return;
    MPI_Finalize();
    std::puts("finalised");
  }
  bool wanted;
};

Finalizer of_the_program(false);

}  // namespace

int main(int argc, char** argv) {
  const std::string_view when = argc > 1 ? argv[1] : "return";
  MPI_Init(&argc, &argv);
  static Finalizer of_main(when == "static");
  of_the_program.wanted = when == "global";
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int step = 0; step < 3; ++step) {
    tdump::step(step);
    tdump::scope scope("part");
    tdump::tap(torch::full({2, 3}, 10.0 * rank + step), "value");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  std::printf("rank %d is done\n", rank);
  std::fflush(stdout);
  if (when == "return") MPI_Finalize();
}
