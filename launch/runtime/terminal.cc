#include "launch/runtime/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/text.h"

namespace tdump::launch {
namespace {

std::atomic<LogLevel> least{LogLevel::kInfo};

std::string Count(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string Writes(const StartFacts& facts) {
  if (facts.steps.is_none()) return "writing no steps";
  const std::string steps = facts.steps.is_all() ? "all steps" : "steps " + facts.steps.ToString();
  if (facts.ranks.is_all())
    return fmt::format("writing {} on {}", steps, Count(facts.identity.world, "rank"));
  std::vector<uint64_t> ranks;  // that there are
  const auto world = static_cast<uint64_t>(std::max(facts.identity.world, 1));
  for (uint64_t rank = 0; rank < world; ++rank) {
    if (facts.ranks.Contains(rank, world)) ranks.push_back(rank);
  }
  if (ranks.empty()) return "writing nothing: no rank is selected";
  const char* const plural = ranks.size() == 1 ? "" : "s";
  return fmt::format("writing {} on rank{} {}", steps, plural, RangesText(std::move(ranks)));
}

std::string Numbered(const StartFacts& facts) {
  if (facts.rule.starts_with("explicit")) return "numbered by the program";
  return facts.first_step >= 0 ? fmt::format("numbered from {} (config)", facts.first_step)
                               : "numbered from 0";
}

}  // namespace

std::string ShownPath(const std::string& path, const std::string& base) {
  const bool below = !base.empty() && path.size() > base.size() + 1 && path.starts_with(base) &&
                     path[base.size()] == '/';
  return below ? path.substr(base.size() + 1) : path;
}

std::string StartLines(const StartFacts& facts) {
  const std::string nodes = facts.nodes > 0 ? " on " + Count(facts.nodes, "node") : "";
  const std::string numbered = Numbered(facts);
  const std::string limit = facts.limit_bytes != 0 ? "disk at most " + BytesText(facts.limit_bytes)
                                                   : "disk without limit";
  const std::string staging =
      facts.staging_bytes != 0 ? "staging " + BytesText(facts.staging_bytes) + " a GPU, " : "";
  return fmt::format(
      "tdump: on, {}{}, run {} (generation {}), config {}\n"
      "tdump: step = {}, {}; {}\n"
      "tdump: arena {} a process, {}{} (free {})\n",
      Count(facts.identity.world, "rank"), nodes, facts.run, facts.generation, facts.config,  //
      facts.rule, numbered, Writes(facts),                                                    //
      BytesText(facts.arena_bytes), staging, limit, BytesText(facts.free_bytes));
}

void SetLogLevel(LogLevel level) noexcept { least.store(level, std::memory_order_relaxed); }

void Print(const std::string& text, LogLevel level) noexcept {
  if (level < least.load(std::memory_order_relaxed)) return;
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void TellUser(const std::string& text, LogLevel level) noexcept {
  try {
    Print(fmt::format("tdump: {}\n", text), level);
  } catch (...) {
  }
}

}  // namespace tdump::launch
