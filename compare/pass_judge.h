// PassJudge: what each pair of one pass is held to: a rule by name, or the bound that follows from
// dtypes, precision, length of sums, repeats, and from the error of what went in.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compare/optimizer_updates.h"
#include "compare/pass_diff.h"

namespace tdump::compare {

// The views and the options outlive it.
class PassJudge {
 public:
  PassJudge(const PassDiffOptions& options, const StepView& a, const StepView& b,
            bool parameters_given)
      : options_(options), a_(a), b_(b), parameters_given_(parameters_given) {}

  // The rule that decides, if any. Thread-safe.
  const BoundRule* RuleFor(const io::Record& b, Role role) const;
  // Before the pair is measured: outcome->rounding. Thread-safe.
  void SetBound(const io::Record& a, const io::Record& b, Outcome* outcome);
  // Of a weight within its bound that IsHeldToRounding (compare/weight_gain.h): what else explains
  // of a common factor. nullopt: it is judged otherwise. Thread-safe.
  std::optional<double> GainBesideRounding(const io::Record& a, const io::Record& b,
                                           const Outcome& outcome) const;
  // After it was measured, or not: dtypes that may differ, the rule. Thread-safe.
  void JudgePair(const io::Record& a, const io::Record& b, Outcome* outcome) const;
  // Gives an outcome of another process the rounding that equal ones have.
  void Adopt(Outcome* outcome);
  // Once all pairs are measured: what the error of the inputs explains (compare/explain.h).
  void JudgeTogether(PassDiff* pass);

 private:
  struct ForwardCalls {  // of a module
    uint64_t begin = 0;  // of one with most elements
    uint64_t elements = 0;
    uint64_t count = 0;
  };
  struct Calls {
    std::unordered_map<uint64_t, std::vector<ArgumentMeta>> arguments;  // by begin
    std::map<std::string, std::vector<int64_t>> weights;                // sizes, by path
    std::unordered_map<std::string, ForwardCalls> forward;              // by path
    std::unordered_set<std::string> without_values;  // keys of what may be scales
  };
  static Calls Load(const StepView& view);
  void LoadCalls();  // once
  // Of the module that a gradient of a parameter is of; null: not known, or another record.
  static const ForwardCalls* CallsOfGradient(const Calls& calls, const io::Record& record);
  Reduction ReductionIn(const Calls& calls, const io::Record& record) const;
  // A parameter that nobody computed, of one coarse dtype, both sides in full. In float32 a build
  // of the model may round once: the bounds of rounding hold.
  bool IsExpectedEqual(const io::Record& a, const io::Record& b, const Outcome& outcome) const;
  void JudgeWeight(const io::Record& a, const io::Record& b, Outcome* outcome) const;
  // Of weights outside their bounds, which an optimizer updated: true where that explains them.
  bool AllowUpdated(OptimizerUpdates* updates, SpillFile* spill, Outcome* outcome);
  void SetExplanation(const Explanation& explanation, Outcome* outcome) const;
  // Says which precision would explain the error, where one would.
  void Suggest(Outcome* outcome) const;
  // What B's operator computed in: of the rule that decides, else of the options; null: its dtypes.
  const Precision* GivenPrecision(const Outcome& outcome) const;
  // Of a pair whose dtypes differ: why a side stayed as it was stored.
  void NoteScales(const io::Record& a, const io::Record& b, Notes* notes) const;
  void AddNoise(const io::Record& a, const io::Record& b, LocalBound* bound) const;
  // An equal one that was given before. Thread-safe.
  std::shared_ptr<const Rounding> Shared(Rounding rounding);

  const PassDiffOptions& options_;
  const StepView& a_;
  const StepView& b_;
  const bool parameters_given_;
  std::once_flag loaded_;
  Calls calls_a_, calls_b_;  // loaded when the first pair differs
  using RoundingKey = std::tuple<OperatorClass, uint64_t, bool, double, double, std::string, double,
                                 double, double, double>;  // all fields
  std::mutex mutex_;
  std::map<RoundingKey, std::shared_ptr<const Rounding>> roundings_;
};

}  // namespace tdump::compare
