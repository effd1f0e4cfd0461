// Names as reports print them, which users give back: of a parameter its own ("layers.0.fc.weight",
// "pos" of a root), of a record with what it is to its operator ("layers.0.fc, grad_input 0", "the
// whole model, output").
#pragma once

#include <string_view>

#include "io/records.h"

namespace tdump::compare {

// Whether `name` means the record: as io::NameMatches says, or as reports print it.
bool NameMatchesPrinted(std::string_view name, const io::Record& record);

}  // namespace tdump::compare
