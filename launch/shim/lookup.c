// Finding things in the process: the environment, mapped objects, the next definition of a symbol,
// tdump's own objects.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/shim/shim.h"

enum { kPathBytes = 4096 };

// Not getenv: a program may bring its own (bash does), which is not ready before its main().
const char* tdump_shim_variable(const char* name) {
  const size_t length = strlen(name);
  for (char** entry = environ; entry != NULL && *entry != NULL; ++entry) {
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return NULL;
}

static int Set(const char* name) {
  const char* value = tdump_shim_variable(name);
  return value != NULL && value[0] != '\0';
}

static int Is(const char* name, const char* text) {
  const char* value = tdump_shim_variable(name);
  return value != NULL && strcmp(value, text) == 0;
}

int tdump_shim_is_launched(void) {
  const char* pid = tdump_shim_variable("TDUMP_LAUNCHED");
  return pid != NULL && strtol(pid, NULL, 10) == (long)getpid();
}

int tdump_shim_wanted(void) {
  if (Is("TDUMP_DISABLE", "1")) return 0;
  if (Is("TDUMP_CHILDREN", "0") && !tdump_shim_is_launched()) return 0;
  return Set("TDUMP_EFFECTIVE") || Set("TDUMP_CONFIG") || Set("TDUMP_DIR");
}

typedef struct {
  const char* prefix;
  char* path;
  unsigned long size;
} Search;

static int Match(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  Search* search = data;
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* file = slash != NULL ? slash + 1 : info->dlpi_name;
  if (strncmp(file, search->prefix, strlen(search->prefix)) != 0) return 0;
  if (search->path != NULL) snprintf(search->path, search->size, "%s", info->dlpi_name);
  return 1;
}

int tdump_shim_mapped(const char* prefix, char* path, unsigned long size) {
  Search search = {prefix, path, size};
  return dl_iterate_phdr(Match, &search) != 0;
}

void* tdump_shim_next(const char* name, const char* fallback, const char* library) {
  void* found = dlsym(RTLD_NEXT, name);
  char path[kPathBytes];
  if (found == NULL && tdump_shim_mapped(library, path, sizeof path)) {
    void* handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    if (handle != NULL) {
      found = dlsym(handle, name);
      if (found == NULL && fallback != NULL) found = dlsym(handle, fallback);
      dlclose(handle);
    }
  }
  if (found == NULL && fallback != NULL) found = dlsym(RTLD_NEXT, fallback);
  return found;
}

// The object `file` in the shim's own folder. Null: missing, or one of its libraries is.
static void* OpenBeside(const char* file) {
  Dl_info self;
  char path[kPathBytes];
  if (dladdr((void*)&OpenBeside, &self) == 0 || self.dli_fname == NULL) return NULL;
  const char* slash = strrchr(self.dli_fname, '/');
  const int length = slash != NULL ? (int)(slash - self.dli_fname) + 1 : 0;
  if (snprintf(path, sizeof path, "%.*s%s", length, self.dli_fname, file) >= (int)sizeof path)
    return NULL;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void* runtime_handle;
static void* torch_handle;

void* tdump_shim_loaded(const char* function) {
  if (runtime_handle == NULL) {
    // The Python loader may have opened it.
    char path[kPathBytes];
    if (tdump_shim_mapped("libtdump.so", path, sizeof path)) {
      runtime_handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    }
  }
  return runtime_handle != NULL ? dlsym(runtime_handle, function) : NULL;
}

void* tdump_shim_runtime(const char* function) {
  static int tried;
  void* found = tdump_shim_loaded(function);
  if (found != NULL || tried || !tdump_shim_wanted()) return found;
  tried = 1;
  runtime_handle = OpenBeside("libtdump.so");
  if (runtime_handle == NULL) return NULL;
  int (*start)(void) = (int (*)(void))dlsym(runtime_handle, "tdump_runtime_start");
  if (start == NULL || start() == 0) return NULL;
  return dlsym(runtime_handle, function);
}

void* tdump_shim_torch(const char* function) {
  static int tried;
  if (torch_handle == NULL && !tried) {
    if (!tdump_shim_mapped("libtorch_cpu.so", NULL, 0)) return NULL;
    int (*usable)(void) = (int (*)(void))tdump_shim_runtime("tdump_runtime_torch_matches");
    tried = 1;
    if (usable == NULL || usable() == 0) return NULL;
    torch_handle = OpenBeside("libtdump_torch.so");
  }
  return torch_handle != NULL ? dlsym(torch_handle, function) : NULL;
}

void* tdump_shim_torch_loaded(const char* function) {
  return torch_handle != NULL ? dlsym(torch_handle, function) : NULL;
}
