// Stages: which stage of a pipeline (axis pp) each rank of two sides holds, as the capture tells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compare/pairing.h"
#include "compare/run_side.h"

namespace tdump::compare {

// None where the capture does not say, or there is no pipeline.
std::optional<uint32_t> StageOf(const RunSide& side, int32_t rank);
// Of B's pass, else of A's.
std::optional<uint32_t> StageOf(const RunSide& a, const RunSide& b, const PassPair& pair);

// Why one rank is not compared with the other: they are of different stages, which may count their
// layers from 0 on each, so that equal names are other layers of the model; "" where they are not,
// or not known to be. `has_map`: a map says which layers are the same.
std::string WhyNotSameStage(const RunSide& a, const RunSide& b, bool has_map);
// One rank against another one, of which nobody says where they are.
bool AreUnknownRanks(const RunSide& a, const RunSide& b);

// Immutable. The sides outlive it.
class Stages {
 public:
  Stages(const RunSide& a, const RunSide& b);

  uint32_t count() const { return count_; }  // 1: there is no pipeline, as far as is known
  // There are several ranks, and of none is known where it lies.
  bool are_unknown() const { return unknown_; }
  // None also of ranks put together.
  std::optional<uint32_t> Of(const PassPair& pair) const { return StageOf(a_, b_, pair); }
  const RunSide& a() const { return a_; }
  const RunSide& b() const { return b_; }

 private:
  const RunSide& a_;
  const RunSide& b_;
  uint32_t count_ = 1;
  bool unknown_ = false;
};

}  // namespace tdump::compare
