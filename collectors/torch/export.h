// Marks what other shared objects (libtdump.so, the Python extension,
// tests) may call in libtdump_torch.so.
#pragma once
#define TDUMP_TORCH_EXPORT __attribute__((visibility("default")))
