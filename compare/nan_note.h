// What reports say of NaN that both sides hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tdump::compare {

// What the note of a pair begins with of which both sides hold some.
inline constexpr std::string_view kNanNote = "NaN on both sides";

struct NanRecords {
  uint64_t records = 0;
  bool at_least = false;  // some were not looked at, before the first one too
  int32_t rank = 0;       // of the first one, in order of step, rank and time
  uint64_t step = 0;
  std::string title;  // "layers.1.mlp, output"
};

// "3 records hold NaN on both sides, first: rank 0, step 2, layers.1.mlp, output"; "at least 3
// records hold NaN on both sides, first seen: ...".
std::string NanNote(const NanRecords& found);
// Whether a note is one.
bool IsNanNote(std::string_view note);

}  // namespace tdump::compare
