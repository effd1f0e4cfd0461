// Ownership: which of a job's processes are ranks. A process that activates marks its environment
// with TDUMP_OWNER, which its children inherit: shells, compilers, data-loader workers and helper
// scripts then stay inert. A child becomes a rank of its own only by joining a process group or
// MPI, or when torchrun gave it a RANK that its owner did not have.
//
// TDUMP_OWNER = pid ":" start [":" torchrun rank of the owner]
#pragma once

#include <functional>
#include <string>

#include "coordinator/identity.h"
#include "coordinator/process_facts.h"

namespace tdump::coordinator {

inline constexpr const char* kOwnerVariable = "TDUMP_OWNER";

struct ActivationDecision {
  enum class Kind { kActive, kInert, kOff };  // inert: ask again when it joins a group; off: never
  Kind kind = Kind::kActive;
  std::string reason;
};

// Pure. `trigger`: the kind of boundary that asks. `is_alive` is asked about the owner only.
ActivationDecision DecideActivation(const Environment& environment, const ProcessId& self,
                                    BoundaryKind trigger,
                                    const std::function<bool(const ProcessId&)>& is_alive);

// The value that an activating process puts into its environment.
std::string OwnerMark(const Environment& environment, const ProcessId& self);

}  // namespace tdump::coordinator
