// One process of a node speaks for all that have the same to say.
#pragma once

#include <string>

namespace tdump::launch {

enum class Claim {
  kMine,   // the first of the node, until this process ends
  kTaken,  // another living process has it
  kNone,   // it could not be tried
};

// `name` is the same in all processes that claim the same thing. Asking again for what this process
// has: kTaken. Works within a network namespace.
Claim ClaimOnNode(const std::string& name);

}  // namespace tdump::launch
