// The runtime that the collectors of this process run on.
#pragma once

#include "tests/collectors/collector_rig.h"

namespace tdump::collectors {

// The collectors keep their first runtime for the life of the process, so all cases share one. It
// comes armed, in a pass of its own, and without what earlier cases left; modules, taps and scopes
// are recorded, operators of the dispatcher where the case sets plan.aten.
CollectorRig& StartedRig();

}  // namespace tdump::collectors
