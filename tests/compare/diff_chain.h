// Runs made by hand of three modules in a row, with tensors that agree or do not.
#pragma once

#include <vector>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace chain {  // other headers of tests have a kInput too

inline const Tensor kInput = Vector<float>("float32", {1, 2});
inline const Tensor kGood = Vector<float>("float32", {3, 4});
inline const Tensor kBad = Vector<float>("float32", {3, 5});
inline const Tensor kNear = Vector<float>("float32", {3, 4.0f + 0x1p-21f});  // one rounding away

// Three modules in a row: `values` are what they return.
inline void Chain(FakeRun* run, int32_t rank, uint64_t step, const std::vector<Tensor>& values) {
  PassBuilder pass = run->Pass(rank, step);
  Tensor in = kInput;
  const char* names[] = {"first", "second", "third"};
  for (size_t i = 0; i < values.size(); ++i) {
    pass.Module(names[i], in, values[i]);
    in = values[i];
  }
}

}  // namespace chain

using namespace chain;  // NOLINT(google-build-using-namespace): of tests

}  // namespace tdump::compare
