// What the signature of a run says: which data went in, and how many parameters are known by hash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/run_source.h"

namespace tdump::tools {

struct SignatureFacts {
  int32_t rank = -1;  // looked at; -1: nothing was recorded
  uint64_t step = 0;  // looked at
  struct Input {
    std::string arg, dtype, shape, hash;
    std::string root = "";  // the second root that it is of; "": the model
  };
  std::vector<Input> inputs;            // of the roots
  uint64_t parameters = 0, states = 0;  // hashed; names, not calls
  bool whole = true;                    // false: the pass is longer than what was looked at
  // Records of that pass that left no trace, and operators that may lack them. Parameters may be
  // among them.
  uint64_t lost = 0;
  std::vector<std::string> lost_of;
};

// Reads the first pass there is, at most its first records.
SignatureFacts ReadSignature(const LoadedRun& run);

// One line without a newline; empty when there is nothing to say.
std::string SignatureText(const SignatureFacts& facts);

}  // namespace tdump::tools
