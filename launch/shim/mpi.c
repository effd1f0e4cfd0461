// MPI_Init*, MPI_Finalize under all their names. Each forwards to the library unchanged (arguments,
// thread level, result) and tells libtdump.so: before init and after it succeeded, before finalize.
// Handles and constants are not touched, so one object serves every MPI. Fortran entry points of
// Open MPI do not go through the C ones, those of MPICH do: `depth` tells once.
#include <stddef.h>

#include "launch/shim/shim.h"

enum { kMpiErrOther = 15 };

static __thread int depth __attribute__((tls_model("initial-exec")));

static void* Next(const char* name, const char* profiling) {
  return tdump_shim_next(name, profiling, "libmpi");
}

static void Initializing(int thread_level) {
  void (*tell)(int) = (void (*)(int))tdump_shim_runtime("tdump_on_mpi_initializing");
  if (tell != NULL) tell(thread_level);
}

static void Initialized(void) {
  void (*tell)(void) = (void (*)(void))tdump_shim_runtime("tdump_on_mpi_init");
  if (tell != NULL) tell();
}

static void Finalizing(void) {
  void (*tell)(void) = (void (*)(void))tdump_shim_loaded("tdump_on_mpi_finalize");
  if (tell != NULL) tell();
}

// Runs `call` and tells about it, before and after; `result` is its status.
#define TDUMP_INIT(result, level, call)             \
  do {                                              \
    if (depth == 0) Initializing(level);            \
    ++depth;                                        \
    call;                                           \
    --depth;                                        \
    if (depth == 0 && (result) == 0) Initialized(); \
  } while (0)

TDUMP_SHIM_EXPORT int MPI_Init(int* argc, char*** argv) {
  int (*next)(int*, char***) = (int (*)(int*, char***))Next("MPI_Init", "PMPI_Init");
  if (next == NULL) return kMpiErrOther;
  int result;
  TDUMP_INIT(result, 0, result = next(argc, argv));
  return result;
}

TDUMP_SHIM_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  int (*next)(int*, char***, int, int*) =
      (int (*)(int*, char***, int, int*))Next("MPI_Init_thread", "PMPI_Init_thread");
  if (next == NULL) return kMpiErrOther;
  int result;
  TDUMP_INIT(result, required, result = next(argc, argv, required, provided));
  return result;
}

TDUMP_SHIM_EXPORT int MPI_Finalize(void) {
  int (*next)(void) = (int (*)(void))Next("MPI_Finalize", "PMPI_Finalize");
  if (next == NULL) return kMpiErrOther;
  if (depth == 0) Finalizing();
  ++depth;
  const int result = next();
  --depth;
  return result;
}

// Fortran: arguments by reference, the status last; optional in mpi_f08,
// where a null pointer means left out.
#define TDUMP_FORTRAN_INIT(name, profiling)                       \
  TDUMP_SHIM_EXPORT void name(int* status) {                      \
    void (*next)(int*) = (void (*)(int*))Next(#name, #profiling); \
    int own = kMpiErrOther;                                       \
    int* result = status != NULL ? status : &own;                 \
    if (next == NULL) {                                           \
      *result = kMpiErrOther;                                     \
      return;                                                     \
    }                                                             \
    TDUMP_INIT(*result, 0, next(result));                         \
  }
#define TDUMP_FORTRAN_INIT_THREAD(name, profiling)                                        \
  TDUMP_SHIM_EXPORT void name(int* required, int* provided, int* status) {                \
    void (*next)(int*, int*, int*) = (void (*)(int*, int*, int*))Next(#name, #profiling); \
    int own = kMpiErrOther;                                                               \
    int* result = status != NULL ? status : &own;                                         \
    if (next == NULL) {                                                                   \
      *result = kMpiErrOther;                                                             \
      return;                                                                             \
    }                                                                                     \
    TDUMP_INIT(*result, *required, next(required, provided, result));                     \
  }
#define TDUMP_FORTRAN_FINALIZE(name, profiling)                   \
  TDUMP_SHIM_EXPORT void name(int* status) {                      \
    void (*next)(int*) = (void (*)(int*))Next(#name, #profiling); \
    if (depth == 0) Finalizing();                                 \
    ++depth;                                                      \
    if (next != NULL) {                                           \
      next(status);                                               \
    } else if (status != NULL) {                                  \
      *status = kMpiErrOther;                                     \
    }                                                             \
    --depth;                                                      \
  }

TDUMP_FORTRAN_INIT(mpi_init_, pmpi_init_)
TDUMP_FORTRAN_INIT(mpi_init_f08_, pmpi_init_f08_)
TDUMP_FORTRAN_INIT_THREAD(mpi_init_thread_, pmpi_init_thread_)
TDUMP_FORTRAN_INIT_THREAD(mpi_init_thread_f08_, pmpi_init_thread_f08_)
TDUMP_FORTRAN_FINALIZE(mpi_finalize_, pmpi_finalize_)
TDUMP_FORTRAN_FINALIZE(mpi_finalize_f08_, pmpi_finalize_f08_)
