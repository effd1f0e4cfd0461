// The border of libtdump_cuda.so, opened by libtdump_torch.so when the job has a CUDA tensor.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
// The tdump::collectors::Device of CUDA device `ordinal`, which lives as long as the process; null:
// `error` says why (NUL-terminated, cut at `error_bytes`; empty: the job does not use it yet).
// `stamp`: kBuildStamp of the caller.
__attribute__((visibility("default"))) void* tdump_cuda_open(uint64_t stamp, int ordinal,
                                                             char* error, size_t error_bytes);
}
