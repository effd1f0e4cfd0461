#include "launch/tdump_run/estimate_cost.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "core/text.h"
#include "io/hash.h"
#include "io/statistics.h"

namespace tdump::launch {
namespace {

using Seconds = std::chrono::duration<double>;

// What a record costs beside its bytes, measured where tensors are small (docs/performance.md): the
// job's thread in hooks, plan, recorder and sink; the writer in making its frame.
constexpr double kRecordSeconds = 3e-6;
constexpr double kWriterRecordSeconds = 3e-6;
// Of what a step took something is left, however what tdump took of it was timed.
constexpr double kLeastLeft = 0.1;
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
      return "what finds the arena full keeps its metadata only (memory.at_limit: drop)";
    case filters::FullArena::kStats:
      return "what finds the arena full is kept as statistics (memory.at_limit: stats)";
    case filters::FullArena::kBlock:
      break;
  }
  if (config.max_block_percent >= 100)
    return "once the arena is full the job runs at the speed of the disk (memory.max_block: 100%)";
  return fmt::format(
      "once the arena is full a step waits, {} % of it but at least {:.0f} ms (memory.max_block), "
      "and what finds no room then is kept as statistics",
      config.max_block_percent,
      10 * static_cast<double>(config.max_block_percent) * kLeastStepSeconds);
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

double RateOf(double least_seconds, uint64_t bytes, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t done = 0;
  Seconds took{};
  while (took.count() < least_seconds) {
    work();
    done += bytes;
    took = std::chrono::steady_clock::now() - begin;
  }
  return static_cast<double>(done) / took.count();
}

// A file without a name, so that nothing is left of it; -1: the file system takes none.
int NamelessFile(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string name = folder + "/.tdump-estimate-XXXXXX";
  const int named = ::mkstemp(name.data());
  if (named >= 0) (void)::unlink(name.c_str());
  return named;
}

void MeasureFiles(const std::string& folder, const std::vector<std::byte>& from, Rates* rates) {
  constexpr double kLongEnough = 0.5;
  constexpr uint64_t kMost = 256 << 20;
  const int fd = NamelessFile(NearestFolder(folder));
  if (fd < 0) return;
  const auto begin = std::chrono::steady_clock::now();
  uint64_t done = 0;
  Seconds written{}, synced{};
  bool ok = true;
  while (ok && synced.count() < kLongEnough && done < kMost) {
    const auto start = std::chrono::steady_clock::now();
    ok = ::write(fd, from.data(), from.size()) == static_cast<ssize_t>(from.size());
    written += std::chrono::steady_clock::now() - start;
    ok = ok && ::fdatasync(fd) == 0;
    synced = std::chrono::steady_clock::now() - begin;
    done += from.size();
  }
  ::close(fd);
  if (!ok) return;
  rates->write = static_cast<double>(done) / written.count();
  rates->disk = static_cast<double>(done) / synced.count();
}

}  // namespace

std::string NearestFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(folder, error).lexically_normal();
  while (path.has_relative_path() && !std::filesystem::is_directory(path, error))
    path = path.parent_path();
  return path.string();
}

StepCost CostOf(const StepWork& asked, const TimedStep& seen, uint64_t all_ranks,
                const Rates& rates, const filters::Config& config) {
  StepCost cost;
  if (seen.seconds <= 0) return cost;
  const auto plain = [&](double share) {
    const double taken = OnThread(seen.work, rates) + share * OnWriter(seen.work, rates);
    return std::max(seen.seconds - seen.captured * (taken + seen.blocked),
                    kLeastLeft * seen.seconds);
  };
  const auto slowdown = [&](double share) {
    return (OnThread(asked, rates) + share * OnWriter(asked, rates)) / plain(share);
  };
  cost.plain = plain(1);
  cost.high = slowdown(1);
  // memory.thread: false has no other thread.
  cost.low = config.thread ? slowdown(0) : cost.high;
  const double waits = Take(all_ranks, rates.disk) - cost.plain;
  cost.disk_is_limit = waits > 0;
  if (config.full_arena == filters::FullArena::kBlock && waits > 0) {
    const double blocked = std::min(waits, MostBlocked(cost.plain, config));
    cost.high = std::max(cost.high, blocked / cost.plain);
  }
  return cost;
}

std::string CostText(const StepCost& cost, uint64_t all_ranks, const Rates& rates,
                     const filters::Config& config) {
  if (cost.plain <= 0) return "  slowdown   not known: the run has one step only\n";
  std::string text = fmt::format("  slowdown   +{:.1f} %", 100 * cost.low);
  if (rates.write <= 0) {
    text += fmt::format(
        " of a captured step ({} without) on the job's threads; what the writer takes is not in "
        "it, since no file could be written in output.dir to time it\n",
        DurationText(cost.plain));
    return text + CountedText(rates);
  }
  if (config.thread) text += fmt::format(" to +{:.1f} %", 100 * cost.high);
  text += fmt::format(" of a captured step ({} without)", DurationText(cost.plain));
  if (config.thread) {
    const std::string cores =
        rates.cores == 0 ? "" : fmt::format(" ({} here)", Plural(rates.cores, "core"));
    text += fmt::format(
        ": the first where the writer has a core to itself{}, the last where the job waits for it "
        "or for the disk\n",
        cores);
  } else {
    text += ": the job's threads write (memory.thread: false)\n";
  }
  text += CountedText(rates);
  return text + fmt::format("  disk       takes {}; steps one after the other keep {}{}\n",
                            RateText(rates.disk),
                            RateText(static_cast<double>(all_ranks) / cost.plain),
                            cost.disk_is_limit ? ": " + AtLimitText(config) : "");
}

Rates MeasureRates(const std::string& folder) {
  constexpr size_t kBytes = 64 << 20, kPiece = 8 << 20;
  Rates rates;
  std::vector<std::byte> from(kBytes, std::byte{1}), to(kBytes, std::byte{2});
  size_t copies = 0;
  rates.copy = RateOf(0.5, kBytes, [&] {  // long enough for a fair share of the CPU
    std::memcpy(to.data(), from.data(), kBytes);
    from[copies++ % kBytes] = to[kBytes - 1];
  });
  const std::span<const std::byte> piece = std::span(from).first(kPiece);
  io::TileHasher hasher;
  rates.hash = RateOf(0.2, kPiece, [&] { hasher.Update(piece); });
  io::StatisticsAccumulator statistics(MakeDType("float32", 32));
  rates.statistics = RateOf(0.2, kPiece, [&] { statistics.Update(piece); });
  cpu_set_t mine;
  if (::sched_getaffinity(0, sizeof mine, &mine) == 0)
    rates.cores = static_cast<unsigned>(CPU_COUNT(&mine));
  from.resize(kPiece);
  MeasureFiles(folder, from, &rates);
  return rates;
}

}  // namespace tdump::launch
