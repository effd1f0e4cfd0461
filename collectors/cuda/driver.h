// The functions of the CUDA driver that tdump calls, found in the libcuda that the job has mapped:
// nothing of CUDA is needed to build tdump or to load it. The declarations repeat those of cuda.h;
// a test compares them where that header is (tests/collectors/cuda/driver_test.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

// As cuda.h names what it does not show.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

namespace tdump::collectors::cuda {

using Code = int;  // CUresult
inline constexpr Code kSuccess = 0;
inline constexpr Code kNotReady = 600;
using DevicePointer = unsigned long long;
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostPortable = 1;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kCaptureNone = 0;
inline constexpr int kComputeMajor = 75;
inline constexpr int kComputeMinor = 76;

// Every entry: member, name in libcuda, parameters.
#define TDUMP_CUDA_DRIVER(ENTRY)                                                                 \
  ENTRY(error_name, cuGetErrorName, (Code, const char**))                                        \
  ENTRY(error_text, cuGetErrorString, (Code, const char**))                                      \
  ENTRY(device_count, cuDeviceGetCount, (int*))                                                  \
  ENTRY(device_get, cuDeviceGet, (int*, int))                                                    \
  ENTRY(device_attribute, cuDeviceGetAttribute, (int*, int, int))                                \
  ENTRY(primary_state, cuDevicePrimaryCtxGetState, (int, unsigned*, int*))                       \
  ENTRY(primary_retain, cuDevicePrimaryCtxRetain, (Context*, int))                               \
  ENTRY(context_current, cuCtxGetCurrent, (Context*))                                            \
  ENTRY(context_push, cuCtxPushCurrent_v2, (Context))                                            \
  ENTRY(context_pop, cuCtxPopCurrent_v2, (Context*))                                             \
  ENTRY(memory_take, cuMemAlloc_v2, (DevicePointer*, size_t))                                    \
  ENTRY(memory_give, cuMemFree_v2, (DevicePointer))                                              \
  ENTRY(host_take, cuMemHostAlloc, (void**, size_t, unsigned))                                   \
  ENTRY(host_give, cuMemFreeHost, (void*))                                                       \
  ENTRY(stream_create, cuStreamCreate, (Stream*, unsigned))                                      \
  ENTRY(stream_destroy, cuStreamDestroy_v2, (Stream))                                            \
  ENTRY(stream_capturing, cuStreamIsCapturing, (Stream, int*))                                   \
  ENTRY(capture_mode, cuThreadExchangeStreamCaptureMode, (int*))                                 \
  ENTRY(event_create, cuEventCreate, (Event*, unsigned))                                         \
  ENTRY(event_destroy, cuEventDestroy_v2, (Event))                                               \
  ENTRY(event_record, cuEventRecord, (Event, Stream))                                            \
  ENTRY(event_query, cuEventQuery, (Event))                                                      \
  ENTRY(copy_on_device, cuMemcpyDtoDAsync_v2, (DevicePointer, DevicePointer, size_t, Stream))    \
  ENTRY(copy_to_host, cuMemcpyDtoHAsync_v2, (void*, DevicePointer, size_t, Stream))              \
  ENTRY(fill, cuMemsetD8Async, (DevicePointer, unsigned char, size_t, Stream))                   \
  ENTRY(module_load, cuModuleLoadData, (Module*, const void*))                                   \
  ENTRY(module_function, cuModuleGetFunction, (Function*, Module, const char*))                  \
  ENTRY(launch, cuLaunchKernel,                                                                  \
        (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, \
         void**, void**))

struct Driver {
#define TDUMP_CUDA_MEMBER(member, name, parameters) Code(*member) parameters = nullptr;
  TDUMP_CUDA_DRIVER(TDUMP_CUDA_MEMBER)
#undef TDUMP_CUDA_MEMBER

  // The driver of this process; kNotFound: the job has not opened it (yet), kUnsupported: it lacks
  // a function.
  static Result<const Driver*> Get() noexcept;
  // "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"; ok for kSuccess.
  Status Check(Code result, const char* what) const;
};

}  // namespace tdump::collectors::cuda
