// The calls of a pickle that are understood: torch's ways to write a tensor, plain containers, and
// where a storage lies. They make data of data; no other call is performed.
#pragma once

#include "compare/foreign/pickle_heap.h"
#include "core/status.h"

namespace tdump::compare::foreign {

// The value of `function(*arguments)`, where `function` is a global and `arguments` a list; opaque
// for a function that is not among them, and for arguments it does not take.
PickleRef CallGlobal(PickleRef function, PickleRef arguments, uint64_t offset, PickleHeap* heap);

// A persistent id of torch.save: ('storage', class, key, location, number of units). Opaque when it
// is none.
PickleRef PersistentStorage(PickleRef id, uint64_t offset, PickleHeap* heap);

}  // namespace tdump::compare::foreign
