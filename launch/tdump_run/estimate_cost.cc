#include "launch/tdump_run/estimate_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"

namespace tdump::launch {
namespace {

// What a record costs beside its bytes, measured where tensors are small (docs/performance.md): the
// job's thread in hooks, plan, recorder and sink; the writer in making its frame.
constexpr double kRecordSeconds = 3e-6;
constexpr double kWriterRecordSeconds = 3e-6;
// Of what a step took something is left, however what tdump took of it was timed.
constexpr double kLeastLeft = 0.1;
// Below this, tensors are in caches and what else a hook does counts: the rates are off by factors.
constexpr double kShortStepSeconds = 5e-3;
// `memory.max_block` is a share of no less than this (io/capture_room.cc).
constexpr double kLeastStepSeconds = 0.1;

double Take(uint64_t bytes, double rate) {
  return rate > 0 ? static_cast<double>(bytes) / rate : 0;
}

double OnThread(const StepWork& work, const Rates& rates) {
  return Take(work.copied_bytes, rates.copy) + static_cast<double>(work.records) * kRecordSeconds;
}

double OnWriter(const StepWork& work, const Rates& rates) {
  return Take(work.copied_bytes, rates.hash) + Take(work.statistics_bytes, rates.statistics) +
         Take(work.file_bytes, rates.write) +
         static_cast<double>(work.records) * kWriterRecordSeconds;
}

// Longest time that a step waits for room, by `memory.max_block`.
double MostBlocked(double step, const filters::Config& config) {
  if (config.max_block_percent >= 100) return 1e9;
  return static_cast<double>(config.max_block_percent) / 100 * std::max(step, kLeastStepSeconds);
}

std::string DurationText(double seconds) {
  if (seconds >= 1) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", 1e3 * seconds);
  return fmt::format("{:.0f} us", 1e6 * seconds);
}

std::string RateText(double rate) {
  return rate >= 1e9 ? fmt::format("{:.1f} GB/s", rate / 1e9)
                     : fmt::format("{:.0f} MB/s", rate / 1e6);
}

// What becomes of a step that keeps more than the disk takes.
std::string AtLimitText(const filters::Config& config) {
  switch (config.full_arena) {
    case filters::FullArena::kDrop:
      return "what finds no room keeps its metadata only (memory.at_limit: drop)";
    case filters::FullArena::kStats:
      return "what finds no room is kept as statistics (memory.at_limit: stats)";
    case filters::FullArena::kBlock:
      break;
  }
  if (config.max_block_percent >= 100)
    return "the job runs at the speed of the disk (memory.max_block: 100%)";
  return fmt::format(
      "a step waits for up to {} % of its time or {:.0f} ms, whichever is more (memory.max_block), "
      "and what finds no room then is kept as statistics",
      config.max_block_percent,
      10 * static_cast<double>(config.max_block_percent) * kLeastStepSeconds);
}

std::string DiskText(const StepCost& cost, const DiskLoad& load, const Rates& rates,
                     const filters::Config& config) {
  const std::string line =
      fmt::format("  disk       takes {}; the steps, without a pause between them, give it {}",
                  RateText(rates.disk), RateText(static_cast<double>(load.written) / cost.plain));
  if (!cost.disk_is_late) return line + "\n";
  const std::string arena =
      load.arenas == 0 ? "the arena" : fmt::format("the arena ({})", BytesText(load.arenas));
  if (!cost.disk_is_limit)
    return fmt::format("{}: what it has not taken yet has room in {}, no step waits\n", line,
                       arena);
  const std::string when =
      load.arenas == 0
          ? fmt::format("once {} is full", arena)
          : fmt::format("{} is full after {}; then", arena,
                        Plural(static_cast<uint64_t>(std::ceil(cost.full_after)), "step"));
  return fmt::format("{}: {} {}\n", line, when, AtLimitText(config));
}

std::string CountedText(const Rates& rates) {
  std::string text =
      fmt::format("             counted: on the job's threads copies at {} and {:.0f} us a record",
                  RateText(rates.copy), 1e6 * kRecordSeconds);
  if (rates.write > 0) {
    text += fmt::format(", on the writer's hashes at {} and files at {}; not what else runs here",
                        RateText(rates.hash), RateText(rates.write));
  }
  return text + "\n";
}

}  // namespace

StepCost CostOf(const StepWork& asked, const TimedStep& seen, const DiskLoad& load,
                const Rates& rates, const filters::Config& config) {
  StepCost cost;
  if (seen.seconds <= 0) return cost;
  const auto plain = [&](double share) {
    const double taken = OnThread(seen.work, rates) + share * OnWriter(seen.work, rates);
    return std::max(seen.seconds - seen.captured * (taken + seen.blocked),
                    kLeastLeft * seen.seconds);
  };
  cost.plain = plain(1);
  cost.high_seconds = OnThread(asked, rates) + OnWriter(asked, rates);
  cost.high = cost.high_seconds / cost.plain;
  // memory.thread: false has no other thread.
  cost.low_seconds = config.thread ? OnThread(asked, rates) : cost.high_seconds;
  cost.low = config.thread ? cost.low_seconds / plain(0) : cost.high;
  if (seen.seconds < kShortStepSeconds && cost.plain < seen.seconds / 2)
    cost.too_short = seen.seconds;
  const double writing = Take(load.written, rates.disk), waits = writing - cost.plain;
  cost.disk_is_late = waits > 0;
  if (!cost.disk_is_late) return cost;
  const double left = static_cast<double>(load.copied) * waits / writing;  // in the arenas, a step
  if (left > 0) cost.full_after = static_cast<double>(load.arenas) / left;
  cost.disk_is_limit = load.steps == 0 || cost.full_after < static_cast<double>(load.steps);
  if (config.full_arena == filters::FullArena::kBlock && cost.disk_is_limit) {
    const double blocked = std::min(waits, MostBlocked(cost.plain, config));
    cost.high_seconds = std::max(cost.high_seconds, blocked);
    cost.high = cost.high_seconds / cost.plain;
  }
  return cost;
}

std::string CostText(const StepCost& cost, const DiskLoad& load, const Rates& rates,
                     const filters::Config& config) {
  if (cost.plain <= 0) return "  slowdown   not known: the run has one step only\n";
  const auto amount = [&](double share, double seconds) {
    return cost.too_short > 0 ? "+" + DurationText(seconds) : fmt::format("+{:.1f} %", 100 * share);
  };
  const std::string of =
      cost.too_short > 0
          ? fmt::format(
                " a captured step, too short to tell its share (of the {} that one took "
                "here most was tdump's)",
                DurationText(cost.too_short))
          : fmt::format(" of a captured step ({} without)", DurationText(cost.plain));
  std::string text = "  slowdown   " + amount(cost.low, cost.low_seconds);
  if (rates.write <= 0) {
    text += of +
            " on the job's threads; what the writer takes is not in it, since no file could be "
            "written in output.dir to time it\n";
    return text + CountedText(rates);
  }
  if (config.thread) text += " to " + amount(cost.high, cost.high_seconds);
  text += of;
  if (config.thread) {
    const std::string cores =
        rates.cores == 0 ? "" : fmt::format(" ({} here)", Plural(rates.cores, "core"));
    text += fmt::format(
        ": the first where the writer has a core to itself{}, the last where the job waits for "
        "it{}\n",
        cores, cost.disk_is_limit ? " or for the disk" : "");
  } else {
    text += ": the job's threads write (memory.thread: false)\n";
  }
  text += CountedText(rates);
  return text + DiskText(cost, load, rates, config);
}

}  // namespace tdump::launch
