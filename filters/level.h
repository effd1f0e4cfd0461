// The words of a rule's `level`: off, meta, hash, stats, sample[:N], slice[0:8, :], full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace tdump::filters {

struct Level {
  Parts parts = kPartNone;
  uint64_t sample = 0;            // elements, with kPartSample
  std::vector<SliceRange> slice;  // with kPartSlice
  bool operator==(const Level&) const = default;
};

inline constexpr std::string_view kLevelWords =
    "off | meta | hash | stats | sample[:N] | slice[0:8, :] | full";

// Adds what a word stands for. Error: what is wrong with its arguments; kNotFound: no such word.
Status AddLevelWord(std::string_view word, Level* level);

// As YAML in flow style: `stats`, `[full, 'slice[0:8, :]']`.
std::string PrintLevel(const Level& level);

}  // namespace tdump::filters
