#include "compare/job_time.h"

#include <algorithm>

namespace tdump::compare {
namespace {

// Of 64 bits: turn, time, pass.
constexpr int kTimeBits = 40, kPassBits = 16;
constexpr uint64_t kLastTurn = 255;

}  // namespace

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

uint64_t JobTime::TurnOf(const Pass& pass, Phase phase, uint64_t time) const {
  const std::vector<uint64_t>& turns = pass.turns;
  if (stages_ <= 1) {
    const auto before = std::upper_bound(turns.begin(), turns.end(), time) - turns.begin();
    return std::min(static_cast<uint64_t>(before), kLastTurn);
  }
  const bool ends_forward = !turns.empty() && turns.size() % 2 == 0;
  if (phase == Phase::kForward && ends_forward && time >= turns.back()) return kLastTurn;
  const uint64_t stage = std::min<uint64_t>(pass.stage, 126);
  return phase == Phase::kForward ? stage : 253 - stage;
}

uint64_t JobTime::Of(uint32_t pass, Phase phase, uint64_t time) const {
  if (time == 0) return 0;
  const uint64_t turn = pass < passes_.size() ? TurnOf(passes_[pass], phase, time) : 0;
  return (turn << (kTimeBits + kPassBits)) |
         (std::min(time, (uint64_t{1} << kTimeBits) - 1) << kPassBits) |
         std::min<uint64_t>(pass, (uint64_t{1} << kPassBits) - 1);
}

}  // namespace tdump::compare
