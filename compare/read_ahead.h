// ReadAhead: reads of a few units at a time, over a source that is asked for larger pieces.
#pragma once

#include <span>
#include <vector>

#include "compare/tensor_source.h"

namespace tdump::compare {

// Not thread-safe. Holds at most `most_bytes`; reads of that much or more pass through.
class ReadAhead {
 public:
  ReadAhead(Source source, uint64_t most_bytes);
  Status Read(uint64_t first, std::span<std::byte> out);

 private:
  Status Fill(uint64_t first, uint64_t units);

  Source source_;
  uint64_t unit_bytes_;
  uint64_t least_, most_;  // units of a piece
  uint64_t piece_;         // of the next: doubles as long as pieces follow each other
  std::vector<std::byte> buffer_;
  uint64_t first_ = 0, end_ = 0;  // units in the buffer
};

}  // namespace tdump::compare
