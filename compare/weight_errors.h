// WeightErrors: what the parameters of a module that differ put into all that it makes.
//
//   - Of one within its bound its error, at most what rounding explains of it.
//   - Of one that its last update explains (compare/optimizer_updates.h) its error too, at its
//   share
//     of the energy of the module's parameters: a bias that is next to nothing moves hardly
//     anything although it may have parted altogether. One that is off by more than a tenth
//     (kNearDb) of the module's excuses nothing beyond rounding.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "compare/bounds.h"
#include "compare/pass_diff.h"
#include "compare/tensor_sizes.h"

namespace tdump::compare {

// Not thread-safe. The pass outlives it.
class WeightErrors {
 public:
  explicit WeightErrors(const PassDiff* pass) : pass_(pass) {}

  // Of an outcome of a parameter or buffer, which was measured.
  void Add(uint32_t outcome, const ErrorLevel& error, bool updated);
  // After the last Add.
  void Finish(TensorSizes* sizes);
  ErrorLevel Of(uint64_t path) const;  // the largest of the module

 private:
  struct Updated {
    uint32_t outcome;
    ErrorLevel error;
  };

  const PassDiff* pass_;
  std::vector<Updated> updated_;
  std::unordered_map<uint64_t, ErrorLevel> errors_;  // by path
};

}  // namespace tdump::compare
