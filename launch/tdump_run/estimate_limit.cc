#include "launch/tdump_run/estimate_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/text.h"
#include "io/capture_sink.h"
#include "io/disk_budget.h"
#include "launch/config/limits.h"

namespace tdump::launch {
namespace {

const uint64_t kLeftToTheJob = io::CaptureSinkOptions{}.min_free_bytes;

// The place among the selected steps of the one that takes more than the rank's share, if it is
// among the first `steps`.
std::optional<uint64_t> StepOverShare(const RankEstimate& rank, uint64_t share, uint64_t steps) {
  uint64_t taken = 0;
  for (size_t i = 0; i < rank.steps.size(); ++i) {
    taken += rank.steps[i].work.file_bytes;
    if (taken > share) return i;
  }
  const uint64_t later = rank.steps.empty() ? 0 : rank.steps.back().work.file_bytes;
  if (later == 0) return std::nullopt;
  const uint64_t place = rank.steps.size() + (share - taken) / later;
  return place < steps ? std::optional(place) : std::nullopt;
}

// The number of the step at this place among the selected ones.
uint64_t StepAt(const Spec& steps, uint64_t place) {
  if (steps.is_all() || steps.is_none()) return place;
  for (uint64_t step = steps.Min(); step < steps.Max(); ++step) {
    if (steps.Contains(step) && place-- == 0) return step;
  }
  return steps.Max();
}

// "writing stops in step 3, the first one".
std::string StopText(const filters::Config& config, std::string_view when, uint64_t place) {
  return fmt::format("{}{} in step {}{}", config.ring ? "the oldest steps go" : "writing stops",
                     when, StepAt(config.steps, place), place == 0 ? ", the first one" : "");
}

}  // namespace

std::optional<Room> RoomOfRun(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                              std::optional<uint64_t> free_bytes) {
  if (config.limit_bytes == 0 && !free_bytes) return std::nullopt;
  Room room;
  room.limit = RunLimitBytes(config.limit_bytes, free_bytes.value_or(0));
  const uint64_t writers =
      std::max<uint64_t>(ranks.empty() ? 0 : SelectedRanks(config, ranks.front().world), 1);
  room.share = io::PayloadLimit(std::max<uint64_t>(room.limit / writers, 1));
  if (!free_bytes) return room;
  room.on_disk = *free_bytes - std::min(*free_bytes, kLeftToTheJob);
  room.disk_binds = room.on_disk / writers < room.share;
  if (room.disk_binds) room.share = room.on_disk / writers;
  return room;
}

std::optional<uint64_t> StepsUntilFull(const std::vector<RankEstimate>& ranks, const Room& room,
                                       bool endless) {
  std::optional<uint64_t> first;
  for (const RankEstimate& rank : ranks) {
    const uint64_t steps = endless ? ~uint64_t{0} : rank.steps.size() + rank.later_steps;
    const auto step = StepOverShare(rank, room.share, steps);
    if (step && (!first || *step < *first)) first = step;
  }
  return first;
}

std::string LimitText(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                      std::optional<uint64_t> free_bytes) {
  const auto room = RoomOfRun(ranks, config, free_bytes);
  if (!room) return "auto: 10 % of the free space, at most 100 GiB";
  std::string text = BytesText(room->limit);
  if (config.limit_bytes == 0)
    text = fmt::format("auto: {}, 10 % of {} free, at most 100 GiB", text, BytesText(*free_bytes));
  if (free_bytes && room->on_disk == 0)
    return fmt::format("{}: nothing fits, {} free are less than the {} that are left to the job",
                       text, BytesText(*free_bytes), BytesText(kLeftToTheJob));
  const auto step = StepsUntilFull(ranks, *room, false);
  if (!step) return text;
  if (!room->disk_binds)
    return fmt::format("{}: {}", text, StopText(config, " when that is nearly reached,", *step));
  return fmt::format("{}: the disk has only {} besides the {} left to the job: {}", text,
                     BytesText(room->on_disk), BytesText(kLeftToTheJob),
                     StopText(config, "", *step));
}

uint64_t FilesOfPasses(const std::vector<RankEstimate>& ranks, const filters::Config& config) {
  if (ranks.empty() || config.layout == filters::OutputLayout::kPacked) return ranks.size();
  const int world = ranks.front().world;
  const uint64_t writers = std::max<uint64_t>(SelectedRanks(config, world), 1);
  const bool is_auto = config.layout == filters::OutputLayout::kAuto;
  if (config.layout == filters::OutputLayout::kNode ||
      (is_auto && NeedsNodeFiles(static_cast<uint64_t>(world), writers))) {
    std::set<std::string> nodes;
    for (const RankEstimate& rank : ranks) nodes.insert(rank.host);
    return nodes.size();
  }
  uint64_t single = ~uint64_t{0}, files = 0;
  if (is_auto) single = SingleFiles(static_cast<uint64_t>(world), writers);
  for (const RankEstimate& rank : ranks)
    files += rank.files() <= single ? rank.files() : single + 1;  // the others share one
  return files;
}

}  // namespace tdump::launch
