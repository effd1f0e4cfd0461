// What the files of the shim share. The shim is preloaded into every process of a job, shells
// included, so it is plain C-like code that needs nothing but libc: no thread, no allocation, no
// message, no C++ library. It brings in libtdump.so (and libtdump_torch.so) by dlopen only when the
// process turns out to be one that tdump records.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#define TDUMP_SHIM_EXPORT __attribute__((visibility("default")))

// tdump was asked for in this environment, and not switched off. Reads the
// environment anew: the job may change it.
int tdump_shim_wanted(void);
// This process is the one tdump-run became, not one that it started.
int tdump_shim_is_launched(void);
// Value of an environment variable, null when unset.
const char* tdump_shim_variable(const char* name);

// The next definition of `name` after this object. Where the library that has it was opened with
// RTLD_LOCAL, the search goes through the mapped object whose file name begins with `library`
// ("libmpi.so"), then for `fallback` in the same places.
void* tdump_shim_next(const char* name, const char* fallback, const char* library);

// Whether an object whose file name begins with `prefix` is mapped. `path`, when not null, gets its
// path (`size` bytes).
int tdump_shim_mapped(const char* prefix, char* path, unsigned long size);

// A function of libtdump.so, which is opened and started when it is not there yet. Null when that
// failed or tdump is not asked for. `tdump_shim_loaded` does not open it.
void* tdump_shim_runtime(const char* function);
void* tdump_shim_loaded(const char* function);
// A function of the LibTorch collector, opened once libtorch_cpu is mapped and the runtime runs.
// `tdump_shim_torch_loaded` does not open it.
void* tdump_shim_torch(const char* function);
void* tdump_shim_torch_loaded(const char* function);

#ifdef __cplusplus
}

// What `look` says of the function, asked again while that is null; `found` is a static of the
// caller. Any thread: a static with an initializer would have a guard at which no thread waits
// here (-fno-threadsafe-statics), and a second one would read it before it is set.
template <class Look>
static inline void* tdump_shim_found(Look look, const char* function, void** found) {
  void* known = __atomic_load_n(found, __ATOMIC_RELAXED);
  if (known != nullptr) return known;
  known = look(function);
  if (known != nullptr) __atomic_store_n(found, known, __ATOMIC_RELAXED);
  return known;
}

// The same of the next definition, in LibTorch.
static inline void* tdump_shim_next_torch(const char* function, void** found) {
  return tdump_shim_found(
      [](const char* name) { return tdump_shim_next(name, nullptr, "libtorch_cpu.so"); }, function,
      found);
}
#endif
