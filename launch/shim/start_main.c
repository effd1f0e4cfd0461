// Runs before main() of every program. A C++ program that maps libtorch_cpu gets its collectors
// here: all its libraries are initialised, none of its own code but static constructors has run.
// For any other program this is one look at the environment.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch/shim/shim.h"

typedef int (*Main)(int, char**, char**);
typedef int (*StartMain)(Main, int, char**, void (*)(void), void (*)(void), void (*)(void), void*);

static Main job_main;

static int MainWithTdump(int argc, char** argv, char** envp) {
  if (tdump_shim_wanted() && tdump_shim_mapped("libtorch_cpu.so", NULL, 0)) {
    void* (*runtime)(void) = (void* (*)(void))tdump_shim_runtime("tdump_runtime");
    int (*start)(void*) = (int (*)(void*))tdump_shim_torch("tdump_torch_start");
    if (runtime != NULL && start != NULL && runtime() != NULL) start(runtime());
    envp = environ;
  }
  return job_main(argc, argv, envp);
}

TDUMP_SHIM_EXPORT int __libc_start_main(Main main, int argc, char** argv, void (*init)(void),
                                        void (*fini)(void), void (*rtld_fini)(void),
                                        void* stack_end) {
  StartMain next = (StartMain)dlsym(RTLD_NEXT, "__libc_start_main");
  if (next == NULL) _exit(127);  // no libc: cannot happen
  job_main = main;
  return next(MainWithTdump, argc, argv, init, fini, rtld_fini, stack_end);
}
