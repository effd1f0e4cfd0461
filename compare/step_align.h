// Step alignment: which step of B is which of A where they are numbered otherwise: steps that were
// given equal integer inputs (token ids) are the same work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/pairing.h"
#include "compare/run_side.h"
#include "core/status.h"

namespace tdump::compare {

// What a step was given: a text for each integer input of the model (of any module where the
// model's own were not captured), made of its values whatever their dtype and shape, and where the
// values were not kept of their hash. Sorted. What several ranks hold is joined in their order,
// copies left out.
struct StepInputs {
  uint64_t step = 0;
  std::vector<std::string> contents;
};
// Of the selected ranks; steps without an integer input are left out. What cannot be read is not
// there.
std::vector<StepInputs> InputsOf(const RunSide& side, const PairOptions& options);

// The longest sequence of steps of both sides, in order, whose inputs have something in common that
// is not the same in every step (positions, masks). `by_order`: where all of it is the same, each
// step fits any, and their order decides.
std::vector<std::pair<uint64_t, uint64_t>> AlignSteps(const std::vector<StepInputs>& a,
                                                      const std::vector<StepInputs>& b,
                                                      bool by_order = true);

// One that a step of the other side was given the inputs of, but in another order: both are alone.
struct MovedStep {
  bool of_a = false;
  uint64_t step = 0;
  std::string why;
};

struct StepAlignment {
  std::vector<std::pair<uint64_t, uint64_t>> pairs;  // A, B
  std::optional<uint64_t> parted;  // first step of B that was given other inputs than A's next one
  std::vector<MovedStep> moved;
  std::vector<std::string> notes;  // steps that have no partner
};
// Error (kInvalidArgument): no step of A was given what one of B was; says what there is to
// compare.
Result<StepAlignment> AlignByInputs(const RunSide& a, const RunSide& b, const PairOptions& options);

// Whether both have steps, none of one number, and nobody says which belong together: as of a job
// that was resumed, or that counts from elsewhere.
bool CountOtherwise(const RunSide& a, const RunSide& b, const PairOptions& options);

// Of runs that were given other tokens at a step of one number: what to try where steps of other
// numbers were given equal ones; "" where none was, or the user says which belong together.
std::string OtherStepsHint(const RunSide& a, const RunSide& b, const PairOptions& options);

}  // namespace tdump::compare
