// The one symbol the public header looks for: the table of the LibTorch collector's C++ interface,
// null when tdump is not in this process (then every one-liner of the header does nothing).
#include <stddef.h>

#include "launch/shim/shim.h"

TDUMP_SHIM_EXPORT const void* tdump_api(int version) {
  if (!tdump_shim_wanted()) return NULL;
  const void* (*table)(int) = (const void* (*)(int))tdump_shim_torch("tdump_torch_api");
  return table != NULL ? table(version) : NULL;
}
