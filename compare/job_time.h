// JobTime: times of all ranks of a step in one order.
//
//   Ranks of one stage run the same program, and their own counts compare; as one rank may count
//   more than another, what lies between two turns from forward to backward work, or back, goes
//   before what lies behind them. Stages of a pipeline take turns: forward work is ordered from the
//   first stage to the last, backward work from the last one on, and what each does after its last
//   backward work (what the optimizer keeps) comes in the end. Of an interleaved pipeline the
//   chunks of each stage take their turns: chunk c of stage s is the (c * stages + s)-th part of
//   the model.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types.h"

namespace tdump::compare {

// When a rank saw something, by its own count.
struct Moment {
  uint64_t time = 0;
  Phase phase = Phase::kForward;
};

// A part of a pipeline's model: chunk * stages + stage.
constexpr uint64_t PipelinePart(uint32_t stage, uint32_t stages, uint32_t chunk) {
  return uint64_t{chunk} * stages + stage;
}
// The turn of a part's work among that of all parts. `ends`: it comes after all backward work.
uint64_t PipelineTurn(uint64_t part, Phase phase, bool ends);

class JobTime {
 public:
  explicit JobTime(uint32_t stages = 1) : stages_(stages) {}

  // Of the next rank.
  void AddPass(uint32_t stage, std::vector<Moment> moments);
  // 0 stays 0. `pass`: the n-th that was added.
  uint64_t Of(uint32_t pass, Phase phase, uint64_t time, uint32_t chunk = 0) const;

 private:
  struct Pass {
    uint32_t stage = 0;
    std::vector<uint64_t> turns;  // to backward work, to forward work, ...
  };
  uint64_t TurnOf(const Pass& pass, Phase phase, uint64_t time, uint32_t chunk) const;

  uint32_t stages_;
  std::vector<Pass> passes_;
};

}  // namespace tdump::compare
