#include "collectors/cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <memory>
#include <string>

namespace tdump::collectors::cuda {

Result<const Driver*> Driver::Get() noexcept try {
  void* library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return NotFound("the job has not opened libcuda.so.1");
  static std::atomic<const Driver*> ready{nullptr};  // equal, whoever stores it last
  if (const Driver* known = ready.load(std::memory_order_acquire)) return known;
  auto driver = std::make_unique<Driver>();
#define TDUMP_CUDA_FIND(member, name, parameters)                               \
  driver->member = reinterpret_cast<Code(*) parameters>(dlsym(library, #name)); \
  if (driver->member == nullptr) return Unsupported("libcuda.so.1 has no " #name);
  TDUMP_CUDA_DRIVER(TDUMP_CUDA_FIND)
#undef TDUMP_CUDA_FIND
  const Driver* const made = driver.release();  // for as long as the process lives
  ready.store(made, std::memory_order_release);
  return made;
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
