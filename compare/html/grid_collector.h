// GridCollector: error grids (compare/error_grid.h) of the pairs that a reader will look at, taken
// while their pass is open.
//
//   1. Of each pass of the earliest step that has any: its first failing pair and its first one
//      that differs in bits. One of them is the origin.
//   2. Of the first kMostGrids observations that fail: their first failing pair.
// Memory: kMostGrids and two for each rank. Time: as much as reading kMostElements once.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compare/error_grid.h"
#include "compare/pass_diff.h"

namespace tdump::compare::html {

struct PlacedGrid {
  std::string key;  // text of B's
  uint64_t step = 0;
  int32_t rank = 0;
  ErrorGrid grid;
};

// Not thread-safe.
class GridCollector {
 public:
  static constexpr size_t kMostGrids = 64, kMostFirsts = 4096;
  static constexpr uint64_t kMostElements = uint64_t{1} << 29;

  // Precondition: passes come in order of step, their outcomes in order of time.
  void AddPass(const PassDiff& pass, const PassPair& pair);

  // One for each observation that has one; those of 1 before those of 2.
  std::vector<const PlacedGrid*> OnePerKey() const;
  // That of exactly this pair; nullptr: none was taken.
  const PlacedGrid* Find(const std::string& key, uint64_t step, int32_t rank) const;

 private:
  void AddFirst(const PassDiff& pass, const PassPair& pair, bool fails);
  void Measure(const PassDiff& pass, const PassPair& pair, const Outcome& outcome,
               std::vector<PlacedGrid>* grids);

  std::vector<PlacedGrid> grids_, firsts_;
  std::set<std::string> keys_;  // that have one, or cannot have one
  bool failed_ = false, differed_ = false;
  uint64_t failing_step_ = 0, differing_step_ = 0;  // the earliest
  uint64_t elements_ = 0;
};

}  // namespace tdump::compare::html
