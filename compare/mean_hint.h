// MeanHints: pairs that fail because the ranks of one side share a batch and each took the mean
// over its own part: how to say so. Never taken for granted, since a forgotten division looks the
// same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/pass_diff.h"
#include "compare/topology.h"

namespace tdump::compare {

// Of a tensor that is compared as a sum over the ranks of one side: the dims that take their mean.
struct Remedy {
  char side = 'B';
  std::string pattern;  // of the records that it is about
  std::string dims;
  uint64_t times = 0;  // the sum is so many times the other side; 0: its mean agrees with that

  std::string Option() const;  // "--dims 'B:^fc@output: b[dp] h'"
  std::string Text() const;    // why, and at its end Option()
};
// Of a pair that fails as a sum where the mean over the ranks that hold it would agree.
std::optional<Remedy> RemedyOf(const PassDiff& pass, const Outcome& outcome, const io::Record& a,
                               const io::Record& b);

// Of a comparison in which ranks are put together. Not thread-safe.
class MeanHints {
 public:
  MeanHints() = default;
  MeanHints(const Topology& a, const Topology& b);

  // Of every pair that fails.
  void Add(const PassDiff& pass, const Outcome& outcome);
  // Without those whose remedy was `told` (its text) with the origin.
  std::vector<std::string> Notes(const std::string& told) const;

 private:
  struct Offered {
    Remedy remedy;  // of the first pair
    uint64_t pairs = 0;
  };
  struct Multiple {
    uint64_t pairs = 0;
    std::set<Role> roles;
  };
  void AddMultiple(const Outcome& outcome);

  std::set<uint64_t> times_;                 // by which a side may be larger; none: nothing is told
  std::map<std::string, Offered> remedies_;  // by option; the first ones
  std::map<std::pair<char, uint64_t>, Multiple> multiples_;  // larger side, times
};

}  // namespace tdump::compare
