// What a checkpoint computed anew while backward ran, against a job without checkpoints. Such a
// forward has no partner there. It is left out where it is proven to be its first forward again,
// which is compared:
//   1. The other pass holds nothing that was computed anew: where it does, keys pair them.
//   2. In its own pass each forward of the name that was computed anew follows a first one of the
//      same micro-batch, and no two of a kind follow each other. Calls that are computed anew are
//      counted from 0, and backward asks for the last one first: numbers do not tell.
//   3. That first forward is paired, and has the same dtype, shape and bytes.
// Else it stays without a partner, as what was recorded of it, or what was not, does not tell.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compare/pass_diff.h"

namespace tdump::compare {

// One pass of one rank against another. Takes such forwards out of what has no partner; a note of
// the pass counts them, another one those that differ from their first forward.
void LeaveOutRecomputed(const PassPair& pair, PassDiff* diff);

// These notes, summed over passes. Not thread-safe.
class RecomputedNotes {
 public:
  bool Add(const std::string& note);  // false: it is none of them
  std::vector<std::string> Sums() const;

 private:
  struct Sum {
    uint64_t records = 0;
    std::string first;  // of the first pass
  };
  std::map<std::string, Sum> sums_;
};

bool IsRecomputedNote(std::string_view note);
// Of a sum or of a pass: that some differ.
bool SaysRecomputedDiffers(std::string_view note);

}  // namespace tdump::compare
