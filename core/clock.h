// Clock: where collectors report what marks steps. Implemented by the coordinator
// (coordinator/step_clock.h), which decides when a step begins and whether this rank records it.
#pragma once

#include <cstdint>
#include <string_view>

namespace tdump {

enum class BoundaryKind : uint8_t {
  kFirstOperator,  // a selected kind of operator is about to run for the first time: activates
  kMpiInit,        // MPI is initialised (the rank is known): activates
  kProcessGroup,   // a c10d process group exists (rank and world in `rank`, `world`): activates
  // Outermost call of a root module; `name` = "", or "Critic#1"; `instance` = which root.
  kRootBegin,
  kRootEnd,
  kOutermostBegin,  // outermost call that is not of a root (parts called by hand)
  kOutermostEnd,
  kOptimizerCreated,  // `instance` = its number in order of construction
  kOptimizerStep,     // a step of an optimizer finished; `instance`, `name` = its class
  kBackwardBegin,
  kBackwardLeft,  // an exception left a backward pass
  kOp,            // an operator named by `steps.boundary: op:REGEX` begins
  kExplicit,      // tdump.step(): a new step begins; `number` >= 0 sets the job's own number
  kExit,          // the process is about to end in an orderly way; `number` = its exit status
};

struct Boundary {
  BoundaryKind kind = BoundaryKind::kRootBegin;
  std::string_view name = {};
  uint64_t instance = 0;
  // Of kExplicit and kExit, see there; of kRootEnd and kOutermostEnd >= 0 where the thread ended.
  int64_t number = -1;
  bool grad_enabled = false;
  int32_t rank = -1;
  int32_t world = -1;
  // Class of the module that a root or outermost call is of; may be empty.
  std::string_view cls = {};
  // Of kRootEnd and kOutermostEnd: how many module calls, itself among them, an exception left.
  uint32_t left = 0;
  int64_t thread = 0;  // whose call it is, a thread id of the system; 0: the calling thread's
};

class Clock {
 public:
  virtual ~Clock() = default;
  // Cheap, thread-safe, noexcept; never waits for another rank.
  virtual void boundary(const Boundary& boundary) noexcept = 0;
};

}  // namespace tdump
