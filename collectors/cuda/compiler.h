// Compiles kernels.cu for one kind of device with the NVRTC that lies with the job's torch. Needs
// no device.
#pragma once

#include <string>

#include "core/status.h"

namespace tdump::collectors::cuda {

// The source as one file name and its text; headers beside it.
struct SourceFile {
  const char* name;
  const char* text;
};
extern const SourceFile kKernelSource;
extern const SourceFile kKernelHeaders[5];

// Machine code (cubin) for compute capability major.minor; for one that NVRTC does not know yet,
// PTX of the newest one it does. `library`: file name of NVRTC, or "" to look for it where torch
// lies.
Result<std::string> CompileKernels(int major, int minor, const std::string& library = "");

}  // namespace tdump::collectors::cuda
