// OriginFinder: collects the first difference of every pair of passes and chooses the origin of the
// whole diff among them, by the rules of compare/origin.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "compare/growth.h"
#include "compare/origin.h"
#include "compare/origin_report.h"
#include "compare/stages.h"
#include "compare/suspect.h"

namespace tdump::compare {

// Not thread-safe. Memory: what is said of one difference, for each rank of the earliest step that
// has any.
class OriginFinder {
 public:
  // Passes come in order of step and rank. `parameters`: those found to differ so far; the list
  // lives as long as the finder. `stages`: of the ranks, where they are compared one by one.
  OriginFinder(const std::vector<ParameterDifference>* parameters, const Stages& stages)
      : parameters_(parameters), stages_(stages) {}

  // Precondition: the outcomes are in order of time. `judged`: false where inputs parted, and what
  // was computed from them says nothing of the error. Returns the first difference beyond its
  // bound.
  std::optional<FirstDifference> AddPass(const PassDiff& pass, const PassPair& pair,
                                         bool judged = true);

  struct Choice {
    std::optional<Origin> origin;
    std::optional<Origin> first_bits;  // the first difference in bits, where it is not the origin
    // The first difference that no weight that parted makes, where it is not the origin.
    std::optional<Origin> beyond_drift;
    std::vector<std::string> notes;  // on what ranks were given that others made
    // The pass that holds the origin, where growth() is of another one: to be compared again.
    std::optional<PassPair> growth_pass;
  };
  // Whether an observation of a step of B before `step`, of the passes so far, is outside its
  // bound; or, with `bits`, differs at all.
  bool DiffersBefore(uint64_t step, bool bits) const;

  // Once, after the last pass.
  Choice Choose();
  // Of the pass that holds the likeliest origin, as far as passes tell one by one, else of the
  // first; empty where nothing differs.
  const Growth& growth() const { return growth_; }

 private:
  // Suspects of the earliest step that has any, and which keys differ there on which rank.
  struct Suspects {
    std::vector<Suspect> list;
    std::map<int32_t, std::unordered_set<uint64_t>> differing;
    std::map<int32_t, std::optional<uint32_t>> ranks;  // that have a pass of that step: their stage
    uint64_t step = 0;

    bool Enter(uint64_t next);
  };

  template <class Differs>
  void AddSuspect(const PassDiff& pass, const PassPair& pair,
                  const std::optional<FirstDifference>& first, Suspects* suspects,
                  const Differs& differs);
  const ParameterDifference* OwnParameter(const Origin& origin) const;
  void NameOwnParameter(Suspect* suspect) const;
  bool AnotherRankParted(const Suspect& suspect) const;
  Choice ChooseFirst();  // the origin, and bits
  std::optional<Suspect> Choose(Suspects* suspects, std::vector<std::string>* notes) const;
  static std::vector<size_t> AllAlike(const Suspects& suspects, size_t chosen);
  static void NameOtherRanks(const Suspects& suspects, Suspect* chosen);
  std::optional<PassPair> GrowthPassOf(const Suspect& origin) const;
  bool MayBeHandedOn(const Suspects& suspects, const Suspect& suspect) const;

  // Of a step of B.
  PassFinding Find(const PassDiff& pass, uint64_t step);
  void KeepGrowth(const PassDiff& pass, const PassPair& pair,
                  const std::optional<FirstDifference>& first);

  const std::vector<ParameterDifference>* parameters_;
  const Stages stages_;
  Suspects beyond_bound_, bits_, beyond_drift_;
  std::map<int32_t, uint64_t> gradients_fail_;  // by rank: the first step of B
  Growth growth_;
  std::optional<Candidate> growth_of_;
  std::optional<uint64_t> reproducible_from_;  // step of B of the first pass equal bit by bit
};

}  // namespace tdump::compare
