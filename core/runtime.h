// Runtime: what launch wires together and hands to collectors. Collectors live in shared objects of their own (one per
// LibTorch version, one per MPI flavour) and reach the rest through this struct only.
//
// `stamp` guards the border: a collector compares it with its own kBuildStamp before it touches anything else.
#pragma once

#include <cstdint>

#include "core/recorder.h"

namespace tdump {

// Changes with every incompatible change of a header in core/ that crosses a shared-object border.
inline constexpr uint64_t kBuildStamp = 0x7464'756d'7000'0001;

struct Runtime {
  uint64_t stamp = kBuildStamp;
  Recorder* recorder = nullptr;
  Gate* gate = nullptr;
  OperatorTable* operators = nullptr;
  Plan* plan = nullptr;
  Sink* sink = nullptr;
  Clock* clock = nullptr;
  // What the configuration asks of collectors.
  bool collect_modules = true;
  bool collect_aten = false;
  bool collect_taps = true;
  bool signature = true;
  const char* root_prefixes = "";  // names.roots, "EagleModel=draft\n..."
};

}  // namespace tdump
