// The graph of a script module's `forward` with the operators of collectors/torch/scripted_calls.h
// in it.
#pragma once

#include <ATen/core/class_type.h>
#include <ATen/core/symbol.h>

#include <cstdint>

namespace tdump::collectors {

c10::Symbol ScriptedBeginSymbol();
c10::Symbol ScriptedEndSymbol();

enum class Marked : uint8_t {
  kYes,
  kRanBefore,  // it has another executor already
  kWaits,      // it waits for a future: its run may go on in another thread
};

// Gives `forward` of the class an executor of such a graph, for the autocast that is on now;
// nothing where it has one. May throw, as torch does; then the class is as it was. Any thread.
Marked GiveMarkedExecutor(const c10::ClassTypePtr& type);

}  // namespace tdump::collectors
