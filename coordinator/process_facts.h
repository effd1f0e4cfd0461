// What the operating system and the environment say about this process. The rest of the coordinator
// takes these as values, so that it can be tested by tables.
#pragma once

#include <cstdint>
#include <string>

#include "core/environment.h"

namespace tdump::coordinator {

struct ProcessId {
  int64_t pid = 0;
  uint64_t start = 0;  // clock ticks since boot: tells a reused pid apart
  bool operator==(const ProcessId&) const = default;
};

struct ProcessFacts {
  std::string host;
  ProcessId self;
  ProcessId parent;
  // Nearest ancestor without torchrun's variables: the torchrun agent; {} where unknown.
  ProcessId agent;
  bool parent_is_interactive_shell = false;
  std::string program;  // argv, at most 4 KiB
};

Environment CurrentEnvironment();
// Reads /proc; a value that cannot be read stays 0. Runs no command and starts no process.
ProcessFacts CurrentFacts();
// Start time of a process, 0 when there is none.
uint64_t StartTime(int64_t pid);
// It runs, stopped or not; a zombie does not.
bool IsAlive(const ProcessId& process);

}  // namespace tdump::coordinator
