#include "tests/collectors/started_rig.h"

#include "collectors/torch/aten_collector.h"
#include "collectors/torch/plugin.h"
#include "tdump/tdump.h"

// In a job this is the shim's.
extern "C" const void* tdump_api(int version) { return tdump_torch_api(version); }

namespace tdump::collectors {
namespace {

CollectorRig* Start() {
  auto* made = new CollectorRig;
  made->runtime.collect_aten = true;
  Runtime foreign = made->runtime;
  foreign.stamp ^= 1;
  EXPECT_EQ(tdump_torch_start(nullptr), 0);
  EXPECT_EQ(tdump_torch_start(&foreign), 0);  // of another build: stays out
  EXPECT_EQ(CurrentRuntime(), nullptr);
  ::tdump::step(1);  // before the start: nothing to do, nothing happens
  EXPECT_EQ(tdump_torch_start(&made->runtime), 1);
  EXPECT_EQ(tdump_torch_start(&made->runtime), 1);
  EXPECT_EQ(CurrentRuntime(), &made->runtime);
  return made;
}

}  // namespace

CollectorRig& StartedRig() {
  static CollectorRig* const rig = Start();
  rig->gate.state = GateState::kArmed;
  ++rig->gate.pass;
  FollowGate(&rig->runtime);
  rig->plan.aten = false;
  rig->sink.Clear();
  rig->clock.kinds.clear();
  rig->clock.names.clear();
  return *rig;
}

}  // namespace tdump::collectors
