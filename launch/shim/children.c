// tdump-run --no-children: the process that tdump-run became gives LD_PRELOAD back as it was,
// before its own code runs; what it starts never sees the shim. The old value is the beginning of
// the new one, so it is cut in place: nothing is allocated, and no setenv() of the program (bash
// has its own) is called.
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "launch/shim/shim.h"

static const char kPreload[] = "LD_PRELOAD=";

static void Remove(char** entry) {
  do {
    entry[0] = entry[1];
  } while (*entry++ != NULL);
}

__attribute__((constructor)) static void GivePreloadBack(void) {
  const char* children = tdump_shim_variable("TDUMP_CHILDREN");
  const char* before = tdump_shim_variable("TDUMP_LD_PRELOAD_BEFORE");
  if (children == NULL || strcmp(children, "0") != 0 || before == NULL || !tdump_shim_is_launched())
    return;
  const size_t kept = strlen(before);
  for (char** entry = environ; entry != NULL && *entry != NULL; ++entry) {
    if (strncmp(*entry, kPreload, sizeof kPreload - 1) != 0) continue;
    char* value = *entry + sizeof kPreload - 1;
    if (kept == 0) {
      Remove(entry);
    } else if (strncmp(value, before, kept) == 0) {
      value[kept] = '\0';
    }
    return;
  }
}
