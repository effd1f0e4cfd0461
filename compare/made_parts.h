// MadeParts: where one side kept the values and the other less, statistics, a hash, a slice or a
// sample, the same made from the values, so that the two have something in common.
#pragma once

#include "compare/payload_view.h"
#include "core/status.h"
#include "io/records.h"

namespace tdump::compare {

// Whether both kept the same elements.
bool SameSlice(const io::Record& a, const io::Record& b);
// Elements of the record's sample; 0 without one.
uint64_t SampleCount(const io::Record& record);

// What `other` kept of values that it did not keep, and `record`, which has a payload, has not.
// Empty: nothing, or hashes that are equal say all.
struct LackingParts {
  bool hash = false, statistics = false, sample = false, slice = false;
  bool any() const { return hash || statistics || sample || slice; }
  bool bytes() const { return hash || statistics || sample; }  // that are read for it
};
// `summarised`: of `other` statistics of another tool are known.
LackingParts PartsLacking(const io::Record& record, const io::Record& other, bool summarised);

// `record` with what it lacks. `read`: its canonical payload; read once, in order, where anything
// but a slice is asked for. The slice's own payload is in no file: ReadSlice. Errors: the
// payload's.
Result<io::Record> MakeParts(const io::Record& record, const io::Record& other,
                             const LackingParts& lacking, const ReadBytes& read);

// The elements of the record's slice in row-major order, out of the canonical payload that `read`
// gives; of a dimension that is stored once each of them. Errors: the payload's.
Result<ReadBytes> ReadSlice(const io::Record& record, ReadBytes read);

}  // namespace tdump::compare
