// Runs before main() of every program. A C++ program that maps libtorch_cpu gets its collectors
// here: all its libraries are initialised, none of its own code but static constructors has run.
// For any other program this is one look at the environment, and another at its end: a process in
// which torch came and tdump did not (python -I, a program that loads LibTorch by itself) says so.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch/shim/shim.h"

typedef int (*Main)(int, char**, char**);
typedef int (*StartMain)(Main, int, char**, void (*)(void), void (*)(void), void (*)(void), void*);

static Main job_main;

// Where a process above is recorded, this one is its helper and nobody misses it.
static void TellTorchUnseen(void) {
  if (!tdump_shim_wanted() || tdump_shim_variable("TDUMP_OWNER") != NULL ||
      !tdump_shim_mapped("libtorch_cpu.so", NULL, 0) || tdump_shim_mapped("libtdump.so", NULL, 0))
    return;
  void (*tell)(void) = (void (*)(void))tdump_shim_runtime("tdump_runtime_torch_unseen");
  if (tell != NULL) tell();
}

static int MainWithTdump(int argc, char** argv, char** envp) {
  const int wanted = tdump_shim_wanted();
  if (wanted && !tdump_shim_mapped("libtorch_cpu.so", NULL, 0)) {
    atexit(TellTorchUnseen);
  } else if (wanted) {
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
