// The graph of a script module's `forward` with the operators of collectors/torch/scripted_calls.h
// in it.
#pragma once

#include <ATen/core/class_type.h>
#include <ATen/core/symbol.h>

namespace tdump::collectors {

c10::Symbol ScriptedBeginSymbol();
c10::Symbol ScriptedEndSymbol();

// Gives `forward` of the class an executor of such a graph, for the autocast that is on now;
// nothing where it has one. False: it has another already, as it was run before. May throw, as
// torch does; then the class is as it was. Any thread.
bool GiveMarkedExecutor(const c10::ClassTypePtr& type);

}  // namespace tdump::collectors
