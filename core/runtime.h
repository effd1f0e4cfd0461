// Runtime: what launch wires together and hands to collectors. Collectors live in
// shared objects of their own (one per LibTorch version, one per MPI flavour) and
// reach the rest through this struct only.
//
// `stamp` guards the border: a collector compares it with its own
// kBuildStamp before it touches anything else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/recorder.h"

namespace tdump {

// Changes with every incompatible change of a header in core/ that crosses a shared-object border.
inline constexpr uint64_t kBuildStamp = 0x7464'756d'7000'0010;

// Asks a predicate of the configuration (`where`, TDUMP_FILTER_FN) about one operator. Set by the
// collector that can run it (the Python one). 1: match, 0: no match, -1: it failed, `error` says
// how (NUL-terminated, cut at `error_bytes`). `subject` is the borrowed PyObject* of the module
// that Plan::op() was given, or null. May take the GIL; noexcept.
using PredicateFn = int (*)(const char* spec, const char* name, const void* subject, char* error,
                            size_t error_bytes);

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
  bool collect_collectives = false;  // with collect_aten
  bool collect_taps = true;
  bool collect_compiled = false;  // modules in what torch.compile makes
  bool signature = true;
  bool tell_backward = false;      // steps.boundary: backward, the clock wants kBackwardBegin
  bool tell_operators = false;     // steps.boundary: op:REGEX, it wants kOp of every operator
  bool tell_parts = false;         // steps.boundary: forward:REGEX, parts of a model mark steps
  const char* root_prefixes = "";  // names.roots, "EagleModel=draft\n..."
  uint64_t staging_bytes = 256ull << 20;  // memory.device, of each device
  int64_t staging_wait_ns = 0;            // longest wait of a tensor for room in it
  double staging_share = 1;               // memory.max_block, of a step's time
  bool staging_stats = false;  // without room: hash and statistics in place of the payload
  // Set by collectors when they start.
  PredicateFn predicate = nullptr;
  // Takes the staging of the devices in use; bytes a device, 0: none. noexcept.
  uint64_t (*prepare_devices)() = nullptr;
};

}  // namespace tdump
