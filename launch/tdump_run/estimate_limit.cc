#include "launch/tdump_run/estimate_limit.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "io/capture_sink.h"
#include "launch/config/limits.h"

namespace tdump::launch {
namespace {

const uint64_t kLeftToTheJob = io::CaptureSinkOptions{}.min_free_bytes;

// The place among the selected steps of the one that takes more than the rank's share.
std::optional<uint64_t> StepOverShare(const RankEstimate& rank, uint64_t share) {
  uint64_t taken = 0;
  for (size_t i = 0; i < rank.steps.size(); ++i) {
    taken += rank.steps[i].work.file_bytes;
    if (taken > share) return i;
  }
  const uint64_t later = rank.steps.empty() ? 0 : rank.steps.back().work.file_bytes;
  const uint64_t fit = later == 0 ? rank.later_steps : (share - taken) / later;
  if (fit >= rank.later_steps) return std::nullopt;
  return rank.steps.size() + fit;
}

// The number of the step at this place among the selected ones.
uint64_t StepAt(const Spec& steps, uint64_t place) {
  if (steps.is_all() || steps.is_none()) return place;
  for (uint64_t step = steps.Min(); step < steps.Max(); ++step) {
    if (steps.Contains(step) && place-- == 0) return step;
  }
  return steps.Max();
}

std::string ReachedText(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                        uint64_t room) {
  std::optional<uint64_t> first;
  for (const RankEstimate& rank : ranks) {  // each has the same share
    const auto step = StepOverShare(rank, room / ranks.size());
    if (step && (!first || *step < *first)) first = step;
  }
  if (!first) return "";
  return fmt::format(": less than that, {} when it is reached, in step {}{}",
                     config.ring ? "the oldest steps go" : "writing stops",
                     StepAt(config.steps, *first), *first == 0 ? ", the first one" : "");
}

}  // namespace

std::optional<uint64_t> LimitOfRun(const filters::Config& config,
                                   std::optional<uint64_t> free_bytes) {
  if (config.limit_bytes == 0 && !free_bytes) return std::nullopt;
  return RunLimitBytes(config.limit_bytes, free_bytes.value_or(0));
}

std::string LimitText(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                      std::optional<uint64_t> free_bytes) {
  const auto limit = LimitOfRun(config, free_bytes);
  if (!limit) return "auto: 10 % of the free space, at most 100 GiB";
  std::string text = BytesText(*limit);
  if (config.limit_bytes == 0)
    text = fmt::format("auto: {}, 10 % of {} free, at most 100 GiB", text, BytesText(*free_bytes));
  if (free_bytes && *free_bytes <= kLeftToTheJob)
    return fmt::format("{}: nothing fits, {} free are less than the {} that are left to the job",
                       text, BytesText(*free_bytes), BytesText(kLeftToTheJob));
  return text + ReachedText(ranks, config,
                            free_bytes ? std::min(*limit, *free_bytes - kLeftToTheJob) : *limit);
}

uint64_t FilesOfPasses(const std::vector<RankEstimate>& ranks, const filters::Config& config) {
  if (ranks.empty() || config.layout == filters::OutputLayout::kPacked) return ranks.size();
  uint64_t single = ~uint64_t{0}, files = 0;
  if (config.layout == filters::OutputLayout::kAuto)
    single = SingleFiles(static_cast<uint64_t>(ranks.front().world), ranks.size());
  for (const RankEstimate& rank : ranks)
    files += rank.files() <= single ? rank.files() : single + 1;  // the others share one
  return files;
}

}  // namespace tdump::launch
