// Events: from writer threads to the coordinator, when a trigger fires. Never blocks. Triggers come
// with a later version; the place stands so that the sink's constructor does not change.
#pragma once

#include <cstdint>
#include <string_view>

namespace tdump {

class Events {
 public:
  virtual ~Events() = default;
  virtual void fired(std::string_view trigger, uint64_t record) noexcept = 0;
};

}  // namespace tdump
