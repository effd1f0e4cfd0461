#include "collectors/torch/local_parts.h"

#include <atomic>

namespace tdump::collectors {
namespace {

std::atomic<LocalPartReader> reader_of_python{nullptr};

}  // namespace

void SetLocalPartReader(LocalPartReader reader) {
  reader_of_python.store(reader, std::memory_order_release);
}

bool ReadLocalPart(const at::TensorBase& tensor, UseLocalPart use, void* context) {
  const LocalPartReader reader = reader_of_python.load(std::memory_order_acquire);
  return reader != nullptr && reader(tensor, use, context);
}

}  // namespace tdump::collectors
