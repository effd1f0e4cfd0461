#include "collectors/torch/summary.h"

#include <atomic>

namespace tdump::collectors {
namespace {

std::atomic<Summariser> summariser_of_python{nullptr};

}  // namespace

void SetSummariser(Summariser summariser) {
  summariser_of_python.store(summariser, std::memory_order_release);
}

Summariser CurrentSummariser() { return summariser_of_python.load(std::memory_order_acquire); }

}  // namespace tdump::collectors
