// TrimHeap: what was freed in small pieces goes back to the system.
#pragma once

#include <malloc.h>

namespace tdump::compare {

// Worth it between two phases of which the first took much that the second does not use again.
inline void TrimHeap() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace tdump::compare
