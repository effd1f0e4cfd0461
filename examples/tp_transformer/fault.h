// A deliberate bit flip in one parameter of one rank, to have something to find.
#pragma once

#include <torch/torch.h>

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

}  // namespace tp
