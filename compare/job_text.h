// Pieces of the reports about ranks that were put together, and about runs that part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/diff.h"
#include "compare/text.h"

namespace tdump::compare {

// "rank 2"; "all ranks" where they were put together and no single one decided.
std::string RankText(int32_t rank);
// Of one side, that were compared.
std::vector<int32_t> RanksOf(const DiffReport& report, bool a);
// How steps were paired, where it was by their inputs: "B = A + 3, by equal integer inputs"; else
// "".
std::string StepPairingText(const DiffReport& report);
// How tensors were put together, the commonest first; "" where they were not. Several lines.
std::string LayoutText(const DiffReport& report);
// "inputs differ: token ids from step 7 on, steps 0-6 judged". Precondition: judging stopped.
std::string PartedText(const DiffReport& report);

}  // namespace tdump::compare
