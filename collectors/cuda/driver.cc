#include "collectors/cuda/driver.h"

#include <dlfcn.h>

#include <string>

namespace tdump::collectors::cuda {

Result<const Driver*> Driver::Get() noexcept try {
  void* library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return NotFound("the job has not opened libcuda.so.1");
  static const Driver* ready = nullptr;  // one value, whoever stores it
  if (ready != nullptr) return ready;
  auto* driver = new Driver;
#define TDUMP_CUDA_FIND(member, name, parameters)                               \
  driver->member = reinterpret_cast<Code(*) parameters>(dlsym(library, #name)); \
  if (driver->member == nullptr) return Unsupported("libcuda.so.1 has no " #name);
  TDUMP_CUDA_DRIVER(TDUMP_CUDA_FIND)
#undef TDUMP_CUDA_FIND
  ready = driver;
  return ready;
} catch (...) {
  return Status(StatusCode::kInternal, "out of memory");
}

Status Driver::Check(Code result, const char* what) const {
  if (result == kSuccess) return {};
  const char *name = nullptr, *text = nullptr;
  (void)error_name(result, &name);
  (void)error_text(result, &text);
  return Internal(std::string(what) + ": " + (name != nullptr ? name : "unknown CUDA error") +
                  (text != nullptr ? std::string(" (") + text + ")" : ""));
}

}  // namespace tdump::collectors::cuda
