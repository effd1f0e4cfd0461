// Names of records as reports and tables print them, which users give back: of a parameter its own
// ("layers.0.fc.weight", "pos" of a root), of a record with what it is to its operator
// ("layers.0.fc, grad_input 0", "the whole model, output").
#pragma once

#include <string>
#include <string_view>

#include "core/key.h"
#include "io/records.h"

namespace tdump::io {

// The plain name of a record; of a parameter or buffer, with its own name:
// "encoder.layer.0.dense.weight".
std::string PrintedName(const Record& record);

// "output", "input 0 of call 2": what a record is to its operator, as tables say it.
std::string ObservationText(const Key& key);

// A plain name in a table: "the whole model" for "."; without control characters.
std::string ShownName(const std::string& name);

// Whether `name` means the record: as NameMatches (io/address.h) says, or as reports print it.
bool NameMatchesPrinted(std::string_view name, const Record& record);

}  // namespace tdump::io
