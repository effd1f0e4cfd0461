// NaN that both sides hold. Where two runs agree nothing else tells of it: equal hashes are equal
// whatever was hashed, and two NaN are the same value.
#pragma once

#include <optional>

#include "compare/diff.h"
#include "compare/nan_note.h"
#include "compare/run_side.h"

namespace tdump::compare {

// Of a run that is the same as `report` says, B. Statistics tell; values are looked into in a few
// steps (16 passes, the last one among them), of each the beginning of what was recorded last (at
// most 256 KiB): what becomes NaN early in a step makes what comes after it NaN. Only where that
// finds some is everything read from there on, at most 1 GiB. None: none was found.
std::optional<NanRecords> FindNan(const RunSide& b, const DiffReport& report,
                                  const DiffOptions& options);

}  // namespace tdump::compare
