// Values that compiled code hands over. When torch.compile traces a model, the hooks of Python put
// operators of tdump into the graph (tdump/_compiled.py). They come here when it runs, in the order
// of the program; to the compilers they have an effect that is ordered, so they stay:
//
//   tdump::traced_root(Tensor[] witness, int site, bool begins, bool grad) -> ()
//       around the call of a module that is no part of the open one, or that nothing says is; grad:
//       whether gradients were enabled, which they are not where a graph with a backward runs
//   tdump::traced_call(Tensor[] values, Tensor? ticket, int site, int slot) -> ()
//       what a module took or gave, or a tap; slot: which call of the graph
//   tdump::traced_ticket(int graph) -> Tensor
//       where gradients are wanted: a number for this run of the graph. It travels to backward
//       among the saved tensors
//   tdump::traced_grad(Tensor gradient, Tensor ticket, int site, int slot, int value) -> ()
//       of a value of a traced_call. The autograd kernel of traced_call hooks its values while
//       AOTAutograd traces the joint graph, so this lands in the graph of backward. (Where the
//       graph runs as it is, its values are watched as those of eager code are.)
//
// Code is shared between modules of a class and kept from run to run, so what a graph holds is a
// site: a path below the innermost open module call of the thread that runs the graph. Which module
// that is, is found anew in each recorded step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace at {
class Tensor;
}

namespace tdump::collectors {

// What one traced_call hands over.
struct TracedSite {
  enum class Part : uint8_t { kWhole, kBegin, kEnd };  // of the call of the module
  struct Value {
    Role role = Role::kOutput;
    std::string arg;
    bool late = false;
  };
  // Of the module: "" the open one itself, "layers.0.mlp" a part of it. A tap that is in no module
  // of the graph has none.
  std::optional<std::string> path;
  bool in_root = false;            // the open one is that of a traced_root
  std::optional<std::string> tap;  // its name
  std::vector<std::string> tags;
  Part part = Part::kWhole;
  bool keeps = true;       // its values are wanted
  bool gradients = false;  // those of its values are
  std::vector<Value> values;
};

// What only Python knows. All take the GIL; noexcept.
struct TracedHost {
  // The operator of the part `path` of the module `open`; kNoOperator: there is none.
  OperatorId (*find)(const void* open, const std::string& path, const void** module) = nullptr;
  // The serial number of the call that begins (module_calls.h); 0: it is not followed.
  uint64_t (*begin_root)(std::span<const at::Tensor> witness, int64_t site) = nullptr;
  void (*end_root)(uint64_t serial) = nullptr;
};

// Defines the operators, once. May throw, as torch does.
TDUMP_TORCH_EXPORT void DefineTracedOperators(const TracedHost& host);
// A number for the graph. Sites are kept for good.
TDUMP_TORCH_EXPORT int64_t AddTracedSite(TracedSite site);

}  // namespace tdump::collectors
