// What a report says of an origin that is no operator's: work that one side alone did, and updates
// that part though their gradients agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/missing_work.h"
#include "compare/update_fault.h"

namespace tdump::compare {

// Of B's step `step`.
std::string MissingText(const MissingWork& work, uint64_t step);
void AddUpdateLines(const UpdateFault& fault, std::vector<std::string>* lines);

}  // namespace tdump::compare
