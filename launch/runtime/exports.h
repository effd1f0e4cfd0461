// The C border of libtdump.so: what the shim, the Python loader and collectors find by name. None
// of them throws, waits for another rank or fails the job.
#pragma once

#include "core/kernels.h"
#include "core/runtime.h"

#define TDUMP_RUNTIME_EXPORT __attribute__((visibility("default")))

extern "C" {

// Reads the configuration and stands by; nothing on disk, no thread. 1: running (again: 1). 0:
// tdump is not asked for, not for this process, or the configuration is wrong (told in one line).
TDUMP_RUNTIME_EXPORT int tdump_runtime_start();
// Null before tdump_runtime_start() and in a process tdump stays out
// of. Lives as long as the process.
TDUMP_RUNTIME_EXPORT tdump::Runtime* tdump_runtime();
// Closes the run of this process in order; later calls do nothing.
// Registered with atexit by itself.
TDUMP_RUNTIME_EXPORT void tdump_runtime_stop();

// 1: the LibTorch collector beside libtdump.so fits the torch in this process and may be opened. 0:
// it does not; the reason is told and goes into the coverage. `version` is torch.__version__. The
// second form finds torch by itself.
TDUMP_RUNTIME_EXPORT int tdump_runtime_check_torch(const char* version, int cxx11_abi);
TDUMP_RUNTIME_EXPORT int tdump_runtime_torch_matches();

// At the end of a process that brought in torch past tdump: the user is told why nothing is there.
TDUMP_RUNTIME_EXPORT void tdump_runtime_torch_unseen();

// A line for the coverage by which nothing is missing, once per distinct text. (What is missing
// goes to Sink::note.)
TDUMP_RUNTIME_EXPORT void tdump_runtime_remark(const char* text);

// Null: compiled kernels are not collected (collect.kernels: off), or, with `*answered` 0, there is
// no session to tell yet. Else as long as the process.
TDUMP_RUNTIME_EXPORT tdump::KernelReports* tdump_runtime_kernels(int* answered);

// For a process whose collectors could not be opened: who it is goes on
// record at its first call of a module.
TDUMP_RUNTIME_EXPORT void tdump_on_first_operator();
// From the shim: before the job's MPI_Init* (`thread_level`: what it asks for, 0 for MPI_Init) and
// after it succeeded; before MPI_Finalize.
TDUMP_RUNTIME_EXPORT void tdump_on_mpi_initializing(int thread_level);
TDUMP_RUNTIME_EXPORT void tdump_on_mpi_init();
TDUMP_RUNTIME_EXPORT void tdump_on_mpi_finalize();
TDUMP_RUNTIME_EXPORT void tdump_on_optimizer_created(const void* optimizer);
TDUMP_RUNTIME_EXPORT void tdump_on_optimizer_step(const void* optimizer, const char* cls);

}  // extern "C"
