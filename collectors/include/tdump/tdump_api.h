/* The C interface between a program that uses tdump/tdump.h and tdump itself. A program never needs
 * this file: it includes tdump/tdump.h. `tdump_api` is weak: without tdump in the process it is
 * null and every one-liner is a no-op.
 *
 * Tensors are passed as `const at::Tensor*`, everything borrowed for the call. No function
 * throws, blocks on another rank, or keeps a tensor alive. Fields are only ever added at the end.
 */
#ifndef TDUMP_TDUMP_API_H_
#define TDUMP_TDUMP_API_H_

#include <stddef.h>
#include <stdint.h>

#define TDUMP_API_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TdumpApi {
  uint32_t version;
  uint32_t bytes;
  /* Records `tensor` now under `name`, below the open scope. */
  void (*tap)(const void* tensor, const char* name, const char* const* tags, size_t tag_count);
  /* Announces a tree of modules, called `root` ("" for the program's only one): names, parameters
   * and buffers. Kept weakly. `module` is a `const std::shared_ptr<torch::nn::Module>*`. */
  void (*watch)(const void* module, const char* root);
  /* A call begins: of the watched `module` (`const torch::nn::Module*`), or, where that is null or
   * not watched, of the operator `name` below the open scope. Returns a token for the functions
   * below, null when there is nothing to do. The token is used on this thread only and ends in
   * scope_end. */
  void* (*scope_begin)(const void* module, const char* name);
  void (*scope_input)(void* scope, const void* tensor, const char* arg);
  void (*scope_output)(void* scope, const void* tensor, const char* arg);
  void (*scope_end)(void* scope, int threw);
  /* The job's own step begins; number < 0: it has none. */
  void (*step)(int64_t number);
  /* Records the gradient of `tensor`, when it arrives, under `name` below the open scope. */
  void (*tap_grad)(const void* tensor, const char* name, const char* const* tags, size_t tag_count);
} TdumpApi;

/* Default visibility: a program built with -fvisibility=hidden must still find it elsewhere. */
__attribute__((weak, visibility("default"))) const void* tdump_api(int version);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TDUMP_TDUMP_API_H_ */
