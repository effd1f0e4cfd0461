// What a job's terminal sees of tdump: the three start lines, and single lines when something goes
// wrong. All on stderr.
#pragma once

#include <cstdint>
#include <string>

#include "core/identity.h"
#include "core/spec.h"

namespace tdump::launch {

struct StartFacts {
  Identity identity;
  int nodes = 0;    // 0: not known
  std::string run;  // as shown: relative to the working directory where it is below it
  uint32_t generation = 0;
  std::string config;       // "cfg.yaml", "defaults"
  std::string rule;         // StepClock::RuleInForce()
  int64_t first_step = -1;  // number of the first step, -1: the job's own, else 0
  Spec steps, ranks;
  uint64_t staging_bytes = 0;  // of each GPU, 0: the job uses none yet
  uint64_t arena_bytes = 0, limit_bytes = 0, free_bytes = 0;
};

// Three lines, each ending in a newline.
std::string StartLines(const StartFacts& facts);

// `path` relative to `base` when it lies below it.
std::string ShownPath(const std::string& path, const std::string& base);

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };
// The key `log`: what is below is not written. kInfo at first. Thread-safe.
void SetLogLevel(LogLevel level) noexcept;

// Writes to stderr in one write(2) call, so that lines of many ranks do not
// mix. TellUser: "tdump: <text>\n".
void Print(const std::string& text, LogLevel level = LogLevel::kInfo) noexcept;
void TellUser(const std::string& text, LogLevel level = LogLevel::kWarning) noexcept;

}  // namespace tdump::launch
