#include "collectors/cuda/exports.h"

#include <algorithm>
#include <string_view>

#include "collectors/cuda/cuda_device.h"
#include "core/runtime.h"

namespace {

void Say(std::string_view text, char* error, size_t bytes) {
  if (bytes == 0) return;
  const size_t length = std::min(text.size(), bytes - 1);
  text.copy(error, length);
  error[length] = '\0';
}

}  // namespace

void* tdump_cuda_open(uint64_t stamp, int ordinal, char* error, size_t error_bytes) {
  if (stamp != tdump::kBuildStamp) {
    Say("libtdump_cuda.so is of another build of tdump", error, error_bytes);
    return nullptr;
  }
  auto device = tdump::collectors::cuda::CudaDevice::Open(ordinal);
  if (!device.ok()) {
    const bool later = device.status().code() == tdump::StatusCode::kNotFound;
    Say(later ? "" : device.status().message(), error, error_bytes);
    return nullptr;
  }
  return static_cast<tdump::collectors::Device*>(device->release());
}
