// What a pickle holds, by the place in its containers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compare/foreign/pickle_heap.h"
#include "core/status.h"

namespace tdump::compare::foreign {

struct PickledTensor {
  std::vector<std::string> place;  // keys and indices; empty: the pickle is the tensor
  PickleRef tensor = 0;
};
struct PickleContents {
  std::vector<PickledTensor> tensors;
  std::vector<std::string> skipped;
  std::map<std::string, std::string> texts;  // short ones, by TextOf(place); a thousand at most
};

std::string TextOf(const std::vector<std::string>& place);  // "model.layers.0"

// Errors: kCorrupt: nested deeper than 64, more than a million tensors, a key twice; kUnsupported:
// something opaque and no tensor.
Result<PickleContents> WalkPickle(const PickleHeap& heap, PickleRef root, const std::string& file);

}  // namespace tdump::compare::foreign
