#include "compare/job_time.h"

#include <algorithm>

namespace tdump::compare {
namespace {

// Of 64 bits: turn, time, pass.
constexpr int kTurnBits = 10, kTimeBits = 39, kPassBits = 15;
static_assert(kTurnBits + kTimeBits + kPassBits == 64);
constexpr uint64_t kLastTurn = (uint64_t{1} << kTurnBits) - 1;
// Of a pipeline's turns before the last one the first half is forward work, part by part, and the
// rest backward work from the last part on. Parts beyond share a turn.
constexpr uint64_t kLastPart = kLastTurn / 2 - 1;
constexpr uint64_t kLastBackward = 2 * kLastPart + 1;  // of part 0
static_assert(kLastBackward < kLastTurn);

}  // namespace

uint64_t PipelineTurn(uint64_t part, Phase phase, bool ends) {
  if (ends) return kLastTurn;
  part = std::min(part, kLastPart);
  return phase == Phase::kForward ? part : kLastBackward - part;
}

void JobTime::AddPass(uint32_t stage, std::vector<Moment> moments) {
  std::stable_sort(moments.begin(), moments.end(),
                   [](const Moment& x, const Moment& y) { return x.time < y.time; });
  Pass& pass = passes_.emplace_back();
  pass.stage = stage;
  Phase phase = Phase::kForward;
  for (const Moment& moment : moments) {
    if (moment.phase == phase || moment.time == 0) continue;
    phase = moment.phase;
    pass.turns.push_back(moment.time);
  }
}

uint64_t JobTime::TurnOf(const Pass& pass, Phase phase, uint64_t time, uint32_t chunk) const {
  const std::vector<uint64_t>& turns = pass.turns;
  if (stages_ <= 1) {
    const auto before = std::upper_bound(turns.begin(), turns.end(), time) - turns.begin();
    return std::min(static_cast<uint64_t>(before), kLastTurn);
  }
  // They begin with one to backward work and alternate.
  const bool ends_forward = !turns.empty() && turns.size() % 2 == 0;
  const bool ends = phase == Phase::kForward && ends_forward && time >= turns.back();
  return PipelineTurn(PipelinePart(pass.stage, stages_, chunk), phase, ends);
}

uint64_t JobTime::Of(uint32_t pass, Phase phase, uint64_t time, uint32_t chunk) const {
  if (time == 0) return 0;
  const uint64_t turn = pass < passes_.size() ? TurnOf(passes_[pass], phase, time, chunk) : 0;
  return (turn << (kTimeBits + kPassBits)) |
         (std::min(time, (uint64_t{1} << kTimeBits) - 1) << kPassBits) |
         std::min<uint64_t>(pass, (uint64_t{1} << kPassBits) - 1);
}

}  // namespace tdump::compare
