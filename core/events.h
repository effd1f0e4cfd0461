// Events: from writer threads to the coordinator, when a trigger of the configuration fires. No
// trigger is in this version; the interface stands here because both sides are built against core.
#pragma once

#include <cstdint>
#include <string_view>

namespace tdump {

// Implemented by the coordinator, handed to the sink by launch. Any thread; never blocks.
class Events {
 public:
  virtual ~Events() = default;
  // `trigger`: as the configuration names it; `record`: id within the open pass.
  virtual void fired(std::string_view trigger, uint64_t record) noexcept = 0;
};

}  // namespace tdump
