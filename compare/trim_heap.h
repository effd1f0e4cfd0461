// TrimHeap: what was freed in small pieces goes back to the system.
#pragma once

#include <cstdlib>  // defines __GLIBC__ where it is the library

#ifdef __GLIBC__

#include <malloc.h>

namespace tdump::compare {

// Worth it between two phases of which the first took much that the second does not use again.
inline void TrimHeap() { ::malloc_trim(0); }

}  // namespace tdump::compare

#else

namespace tdump::compare {

inline void TrimHeap() {}

}  // namespace tdump::compare

#endif
