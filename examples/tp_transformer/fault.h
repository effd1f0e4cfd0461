// Deliberate faults on one rank, to have something to find: a bit flip in a parameter, or attention
// scores that are scaled wrongly in one step.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace tp {

struct Fault {
  int rank;
  std::string parameter;
  int bit;  // 0..31 of the float32; 31 is the sign
};

// Parses RANK:PARAM:BIT and checks it against the model. Throws std::invalid_argument with one line
// that says what is wrong. `world` is the number of ranks.
Fault ParseFault(const std::string& spec, const torch::nn::Module& model, int world);

// Flips the bit in the first element, in flattened order, whose value stays finite; if none does,
// in the first element.
void FlipBit(const Fault& fault, torch::nn::Module& model);

// In this step, on this rank, the attention of this layer forgets the square root: it divides its
// scores by the width of a head.
struct ScaleFault {
  int rank;
  int64_t layer;
  int64_t step;
};

// Parses RANK:LAYER:STEP. Throws std::invalid_argument with one line that says what is wrong.
ScaleFault ParseScaleFault(const std::string& spec, int64_t layers, int world);

}  // namespace tp
