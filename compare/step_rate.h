// StepRate: how large a step A's optimizer makes of what it keeps.
//
//   The step d of an element is a multiple of some y: of a momentum or of the gradient (gradient
//   descent; RMSprop with momentum), of one of these over the root of a mean of squares (Adam,
//   Adagrad) or over a largest size (Adamax). Which one, and the rate, is read off A: of each
//   parameter the rate is the one that leaves least of d - rate * y. That y counts which leaves
//   least in the median parameter, with the median of its rates; steps may be as much larger as
//   that is of them (a decay of weights). Where the rounding of the weight may be all of its steps
//   a parameter tells nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compare/weight_update.h"
#include "core/status.h"

namespace tdump::compare {

// Not thread-safe. Memory: some numbers for each parameter.
class StepRate {
 public:
  // One parameter of a step, of which A is read. Error: a payload's.
  Status Add(const WeightUpdate& update);
  // Of all that was added.
  void Finish();
  // The largest step that it would make of what B keeps of a parameter; none: nothing is known.
  // Error: a payload's. Precondition: Finish.
  Result<std::optional<double>> LargestOfB(const WeightUpdate& update) const;

 private:
  using Form = std::tuple<std::string, std::string>;  // what is divided, and by what ("nothing")
  struct Fit {
    double left = 0;  // of the squares of d, their share
    double rate = 0;
  };
  static std::vector<Form> FormsOf(const WeightUpdate& update);

  std::map<Form, std::vector<Fit>> fits_;  // until Finish
  std::map<Form, Fit> medians_;
};

}  // namespace tdump::compare
