// OriginFinder: collects the first difference of every pair of passes and chooses the origin of the
// whole diff among them, by the rules of compare/origin.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "compare/growth.h"
#include "compare/handed_on.h"
#include "compare/missing_work.h"
#include "compare/origin.h"
#include "compare/row.h"
#include "compare/skipped_operator.h"
#include "compare/stages.h"
#include "compare/update_fault.h"

namespace tdump::compare {

// Of a parameter, or of a buffer.
struct ParameterDifference {
  std::string name, path;
  int32_t rank = 0;
  uint64_t step = 0;  // first seen to differ
  bool buffer = false;
  bool outside = false;  // its values are known, and outside their bound
  bool within = false;   // its values are known, and within their bound
  double share = 0;      // of its elements that are outside
  bool drifted = false;  // it was equal at an earlier step
  // Its values are known, and NaN and infinities are where they should be.
  bool same_special = false;
  // An optimizer that divides by the size of the gradient may have made it of rounding.
  bool may_be_steps = false;
  std::shared_ptr<const Row> row;  // the pair; may be null
};

struct Origin {
  OriginKind kind = OriginKind::kOperator;
  bool certain = false;
  bool by_bits = false;  // chosen by the first difference in bits, which is within its bound
  uint64_t step_a = 0, step = 0;
  int32_t rank_a = 0, rank = 0;
  std::string name, path, op;  // name: the operator's plain name
  std::optional<Row> row;      // the first differing observation
  std::vector<Row> inputs;     // the call's recorded inputs
  std::optional<Row> last_agreeing;
  std::string parameter;                     // the operator's own parameter that differs
  bool of_buffer = false;                    // that is a buffer
  std::shared_ptr<const Row> parameter_row;  // its pair; may be null
  bool drifted = false;                      // that parameter was equal at an earlier step
  bool may_be_steps = false;  // and it may have parted as ParameterDifference::may_be_steps says
  bool may_divide = true;     // the optimizer may be such a one
  bool in_lower_precision = false;  // B's operators computed, as the user says
  // Weights were trained before this step, with rounding that differs, and not recorded at it.
  bool weights_unseen = false;
  // `rank`, the lowest, and the others on which the same begins: nothing tells which was first.
  // Empty where the ranks are put together.
  std::vector<int32_t> ranks;
  std::vector<int32_t> ranks_alike, ranks_agreeing;  // other ranks, same step and operator
  bool of_named_records = false;                     // an address leaves out what it does not name
  // An optimizer keeps it, and nothing that it is made of differs (compare/unexplained_states.h).
  bool unexplained = false;
  // Of data that differ: nobody says whether another rank, a stage of a pipeline, made them.
  bool may_be_handed_on = false;
  std::optional<MissingWork> missing;      // of kMissing; or
  std::optional<SkippedOperator> skipped;  // of kMissing
  // It is what became of gradients that agree (compare/update_fault.h).
  std::optional<UpdateFault> update;
};

// Says of the origin which parameter differs.
void NameParameter(const ParameterDifference& parameter, Origin* origin);

// Whether an outcome differs as weights that are a little off make nothing differ.
bool IsBeyondDrift(const PassDiff& pass, const Outcome& outcome);

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
  // A candidate with everything the report will say of it: its pass is gone by then.
  struct Suspect {
    Candidate candidate;
    Parting parting;
    bool of_numbers = false;  // the difference is in integers
    uint64_t key_hash = 0;
    Origin origin;
    // The differing parameter that the difference is, then those of calls between `last_agreeing`
    // and it.
    std::vector<ParameterDifference> passed_by;
    // The first of the parameters outside their bound that a call before the difference used.
    std::optional<ParameterDifference> outside_before;
    // Its error is more than what went into it, and its own roundings, explain.
    bool adds_error = false;
    bool well_beyond = false;   // by more than kWellDb; an output of the forward
    bool own_within = false;    // its own parameter differs within its bound
    bool own_outside = false;   // or outside
    bool of_state = false;      // an optimizer keeps it
    bool of_gradients = false;  // an optimizer keeps it, and it adds an error to its gradients
    bool special = false;       // NaN or infinities are on one side only
  };

  // Suspects of the earliest step that has any, and which keys differ there on which rank.
  struct Suspects {
    std::vector<Suspect> list;
    std::map<int32_t, std::unordered_set<uint64_t>> differing;
    std::map<int32_t, std::optional<uint32_t>> ranks;  // that have a pass of that step: their stage
    uint64_t step = 0;

    bool Enter(uint64_t next);
  };

  Candidate CandidateOf(const PassDiff& pass, const PassPair& pair,
                        const FirstDifference& first) const;
  template <class Differs>
  void AddSuspect(const PassDiff& pass, const PassPair& pair,
                  const std::optional<FirstDifference>& first, Suspects* suspects,
                  const Differs& differs);
  Suspect MakeSuspect(const PassDiff& pass, const PassPair& pair,
                      const FirstDifference& first) const;
  const ParameterDifference* PassedParameter(const PassDiff& pass, const PassPair& pair,
                                             const Outcome& input) const;
  std::optional<ParameterDifference> OutsideBefore(const PassDiff& pass, const PassPair& pair,
                                                   const Outcome& difference) const;
  const ParameterDifference* OwnParameter(const Origin& origin) const;
  static bool MayMake(const ParameterDifference& parameter, const Suspect& suspect);
  bool AnotherRankParted(const Suspect& suspect) const;
  Choice ChooseFirst();  // the origin, and bits
  std::optional<Suspect> Choose(Suspects* suspects, std::vector<std::string>* notes) const;
  static bool BeginAlike(const Suspect& x, const Suspect& y);
  static std::vector<size_t> AllAlike(const Suspects& suspects, size_t chosen);
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
