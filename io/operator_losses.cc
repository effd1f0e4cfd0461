#include "io/operator_losses.h"

#include <sys/mman.h>

namespace tdump::io {

OperatorLosses::OperatorLosses() {
  void* base = ::mmap(nullptr, kMost * sizeof(*counts_), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base != MAP_FAILED) counts_ = static_cast<std::atomic<uint32_t>*>(base);
}

OperatorLosses::~OperatorLosses() {
  if (counts_ != nullptr) ::munmap(counts_, kMost * sizeof(*counts_));
}

}  // namespace tdump::io
