// C++ optimizers by address: the shim sees `this`, the clock wants the n-th constructed.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/fork_mutex.h"

namespace tdump::launch {

// Thread-safe. An optimizer is new when its address is; an address that is used again after a
// destructor counts as the old one, which does no harm: what matters is the first.
class Optimizers {
 public:
  explicit Optimizers(Clock* clock) : clock_(clock) {}
  void Created(const void* optimizer) noexcept;
  void Stepped(const void* optimizer, std::string_view cls) noexcept;
  // Class of the first one, before it has stepped: read from its table of virtual functions, which
  // LibTorch exports. "" when there is none, it is gone, or its class is the program's own.
  std::string ClassOfFirst();

 private:
  // Index by order of construction; tells the clock of a new one.
  uint64_t Number(const void* optimizer, std::string_view cls);

  Clock* clock_;
  ForkMutex mutex_;
  std::vector<const void*> known_;
};

}  // namespace tdump::launch
