// RootCalls: which of the modules that a step called as a whole was called first: what the others
// are given may have been made of its output.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "core/types.h"
#include "io/records.h"

namespace tdump::compare {

// Thread-safe once all calls are added.
class RootCalls {
 public:
  // Any call, in any order.
  void Add(OperatorKind kind, const std::string& root, uint64_t begin);

  // Whether an input of a root is what the job gave it: not made by a root called before it, as the
  // floating-point input of a loss module beside the model may be.
  bool IsData(const io::Record& input) const;

 private:
  bool IsAnotherBefore(const std::string& root, uint64_t begin) const;

  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  std::string first_root_;
  uint64_t first_ = kNever;            // begin of its first call
  uint64_t first_of_others_ = kNever;  // of the other roots
};

}  // namespace tdump::compare
