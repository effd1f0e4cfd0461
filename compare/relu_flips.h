// ReluFlips: gradients that came through max(x, 0). Where x is close to 0 its rounding puts it on
// the other side in one of two runs: the gradient of that element is there in one and 0 in the
// other, which is no error that grew.
//
//   1. A gradient is gated by a tensor of the forward (what the module of that name was given or
//      gave, of the same shape) if it is 0 wherever that is not above 0, on each side by itself.
//   2. An element flipped where that tensor is above 0 on one side only. Its error is explained:
//      the tensor is within its bound, or nothing is said.
//   3. The gradient is judged by the elements that did not flip. A fault of the backward stays
//      visible: on each side the gradient still has to obey the tensor of that very side, and where
//      both sides let it through it has to agree.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compare/bounds.h"
#include "compare/explain.h"
#include "compare/metrics.h"
#include "compare/pass_diff.h"
#include "core/status.h"

namespace tdump::compare {

struct FlipFacts {
  Operand gradient_a, gradient_b, gate_a, gate_b;  // real numbers, of one shape
  Bound bound;                                     // of each element of the gradient
  double bound_abs = 0;                            // its part that is relative to the rms
};
// None: the gradient is not gated, or nothing flipped. Reads each payload once, up to where that
// shows. Errors: the payloads'.
Result<std::optional<Unflipped>> MeasureUnflipped(const FlipFacts& facts);

// Not thread-safe. The pass outlives it; its outcomes are measured.
class ReluFlips {
 public:
  explicit ReluFlips(const PassDiff* pass) : pass_(pass) {}

  // Of a gradient that is outside its bound; none: see MeasureUnflipped, or no tensor of its module
  // tells. What cannot be read tells nothing.
  std::optional<Unflipped> Measure(const Outcome& gradient);

 private:
  void FindGates();
  Result<std::optional<Unflipped>> MeasureBy(const Outcome& gradient, const Outcome& gate) const;

  const PassDiff* pass_;
  bool found_ = false;
  std::unordered_map<uint64_t, std::vector<uint32_t>> gates_;  // outcomes, by path
};

}  // namespace tdump::compare
