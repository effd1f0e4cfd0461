// UpdateFault: where most parameters of a step part although their gradients, as they were
// recorded, agree. Gradients are recorded after backward: what comes between them and the
// optimizer's step, their all-reduce, clipping, a loss scale, is in no record, and what it spoils
// shows in what the optimizer keeps, or, where that was not captured, in the parameters one step
// later.
//
//   1. Of a rank's pass: a parameter parts where its gradients agree and everything that is kept of
//      it is outside its bound; of what is recomputed from the same gradient one that is right
//      shows that the gradient was. No gradient of another rank fails in that step.
//   2. Without such: where gradients of one step are equal bit for bit on every rank, a parameter
//      parts that is outside its bound at the next step, and was not before.
//   3. Most: more than half of those with a gradient, of at least three.
//   4. One cause may reach all, as the norm does that gradients are clipped by. So a parameter that
//      is off by 20 dB more than the median of its rank is where to look, and a rank without such
//      follows; else ranks whose median is worse by 10 dB.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/pairing.h"
#include "compare/pass_diff.h"
#include "compare/row.h"

namespace tdump::compare {

struct Origin;

struct UpdateFault {
  uint64_t step = 0;                    // of B, whose gradients agree
  uint64_t parameters = 0, parted = 0;  // with a gradient; of these
  bool of_weights = false;              // no state tells: (2)
  std::string apart;                    // the parameter that is off by far more; may be empty
  uint64_t more_apart = 0;              // others like it
  double apart_db = 0, median_db = 0;   // of `ranks`
  std::vector<int32_t> ranks;           // where the error is larger; empty where none differ
  std::vector<int32_t> others;          // where it is smaller
  double others_db = 0;                 // at their median
};

// Not thread-safe. Memory: of two steps, two rows a rank, 8 bytes for each of its weights that is
// outside its bound, and 16 for each gradient, once for all ranks that have the same ones.
class UpdateFaultFinder {
 public:
  // Passes come in order of step.
  void AddPass(const PassDiff& pass, const PassPair& pair);

  // Once, after the last pass: says it of an origin that is of this kind, and moves the origin to
  // where the error is larger.
  void Explain(std::optional<Origin>* origin);

 private:
  struct Place {
    Row row;
    std::vector<Row> gradients;
  };
  // Of a pass, without states: its gradients' keys, and the parameters that they are of; hashes,
  // sorted.
  struct Gradients {
    std::vector<uint64_t> keys, parameters;
  };
  struct OfRank {
    uint64_t parameters = 0, parted = 0, apart = 0;
    bool has_states = false, gradient_fails = false, gradient_differs = false;
    double median = 0, worst = 0;  // error power
    std::string worst_name;
    std::optional<Place> first_place, worst_place;
    // Where no state tells: of its passes; hashes of parameters, sorted.
    std::vector<std::shared_ptr<const Gradients>> gradients;
    std::vector<uint64_t> failing_weights;

    // Few are off by far more than the others.
    bool has_apart() const { return apart > 0 && 4 * apart <= parted; }
  };
  struct Step {
    uint64_t step = 0;
    std::map<int32_t, OfRank> ranks;
  };
  struct Found {
    Step step;
    bool of_weights = false;
  };
  static void AddStates(const PassDiff& pass, const PassPair& pair, OfRank* rank);
  void AddWeights(const PassDiff& pass, OfRank* rank);
  std::shared_ptr<const Gradients> GradientsIn(const PassDiff& pass);
  static bool HasGradient(const OfRank& rank, uint64_t parameter);
  void Close();
  static bool HasFault(const Step& step);
  // Of the step before `next`, by the weights of `next`.
  static std::optional<Step> FaultOfWeights(const Step& before, const Step& next);
  using Ranks = std::vector<std::pair<int32_t, const OfRank*>>;  // on which most parted
  bool IsOf(const Origin& origin) const;
  static const OfRank& Farthest(const Ranks& ranks);
  static void TellRanks(const Ranks& ranks, UpdateFault* fault, Origin* origin);
  static void MoveTo(const Place& place, Origin* origin);

  std::optional<Step> before_, open_;
  std::vector<std::shared_ptr<const Gradients>> lists_;  // of these
  std::optional<Found> found_;
};

}  // namespace tdump::compare
