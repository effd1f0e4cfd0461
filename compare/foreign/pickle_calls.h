// The calls of a pickle that are understood: torch's ways to write a tensor, plain containers, and
// where a storage lies. They make data of data; no other call is performed.
#pragma once

#include <vector>

#include "compare/foreign/pickle_heap.h"
#include "core/status.h"

namespace tdump::compare::foreign {

// The value of `function(*arguments)`, where `function` is a global; opaque for one that is not on
// the list, and for arguments it does not take.
PickleRef CallGlobal(PickleRef function, std::vector<PickleRef> arguments, uint64_t offset,
                     PickleHeap* heap);

// A persistent id of torch.save: ('storage', class, key, location, number of units). Opaque when it
// is none.
PickleRef PersistentStorage(PickleRef id, uint64_t offset, PickleHeap* heap);

}  // namespace tdump::compare::foreign
