// MadeParts: where one side kept the values and the other less, statistics, a hash, a slice or a
// sample, the same made from the values, so that the two have something in common.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "compare/payload_view.h"
#include "core/status.h"
#include "io/records.h"

namespace tdump::compare {

// A record, and the bytes of its slice where they were made: they are in no file.
struct MadeParts {
  io::Record record;
  std::optional<std::vector<std::byte>> slice;
};

// What `other` kept of values that it did not keep, and `record`, which has a payload, has not.
// Empty: nothing, or hashes that are equal say all.
struct LackingParts {
  bool hash = false, statistics = false, sample = false, slice = false;
  bool any() const { return hash || statistics || sample || slice; }
};
// `summarised`: of `other` statistics of another tool are known.
LackingParts PartsLacking(const io::Record& record, const io::Record& other, bool summarised);

// `record` with what it lacks. `read`: its canonical payload; read once, in order. Errors: the
// payload's.
Result<MadeParts> MakeParts(const io::Record& record, const io::Record& other,
                            const LackingParts& lacking, const ReadBytes& read);

}  // namespace tdump::compare
