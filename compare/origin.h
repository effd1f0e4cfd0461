// Origin: where two runs first part, in happened-before order.
//
//   1. Within one pass of one rank, observations are ordered by the process's sequence: inputs when
//      their call began, outputs when it ended. An inner call ends before the one that encloses it,
//      so the first differing output belongs to the innermost call that differs; enclosing calls
//      merely contain it.
//   2. When the first difference is an output, its call's recorded inputs all agree (they came
//      before): the call is the origin, certain when any input was recorded. When it is an input,
//      the cause lies in operators that were not recorded, between the last observation that agrees
//      and this one. An input of the root means that the runs were given different data.
//   3. Over ranks and steps: the earliest step; within it, stages of a pipeline by their turns
//      (compare/job_time.h); then ranks that ran the same operators are compared by how far they
//      had come, a rank that holds a differing parameter of that operator before one that does not;
//      otherwise a certain origin before an interval; then the lowest rank. Inputs of the root are
//      the model's in the first stage only: what others are given the stage before made.
//   4. Differences beyond their bound decide. A difference in bits alone that comes earlier is the
//      origin instead when the operator's own parameter differs, or when bits are known to be
//      reproducible between the two runs (some other pass of that step or an earlier one is equal
//      bit by bit).
//   5. Weights that part on the way may be harmless: Adam turns the rounding of a tiny gradient
//      into whole steps. Where they may be the origin, the first difference is named besides that
//      no weight makes: NaN or infinities that one side alone has, and what an optimizer keeps
//      that is far off what the error of its gradient explains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tdump::compare {

// One paired observation as this file needs it. Parameters are left out: they are no event.
struct Observed {
  uint64_t order = 0;  // sequence number in B
  uint64_t call = 0;   // begin of its call in B
  bool output = false;
  bool root_input = false;
  bool fails = false;         // outside its bound, or shape, dtype, special values
  bool bits_differ = false;   // includes `fails`
  uint32_t outcome = 0;       // index of the caller's
  bool beyond_drift = false;  // fails as no weight that is a little off makes it (5)
};

// kMissing: work that one side alone did (compare/missing_work.h), or some ranks of a side: others
// skipped it (compare/skipped_operator.h), or were killed (compare/killed_origin.h).
enum class OriginKind : uint8_t { kOperator, kInterval, kInputs, kParameter, kMissing };
std::string_view ToString(OriginKind kind);

struct FirstDifference {
  OriginKind kind = OriginKind::kOperator;
  size_t outcome = 0;
  std::optional<size_t> last_agreeing;  // outcome of the last output before that agrees
  uint64_t position = 0;                // observations before it
  uint32_t inputs_recorded = 0;         // of the call; all agree
  bool certain() const {
    return kind == OriginKind::kInputs || (kind == OriginKind::kOperator && inputs_recorded > 0);
  }
};

struct PassFinding {
  std::optional<FirstDifference> beyond_bound;
  std::optional<FirstDifference> bits;
  std::optional<FirstDifference> beyond_drift;
};

// Sorts `observed` by order.
PassFinding FindFirst(std::vector<Observed>* observed);

// A first difference with where it happened, for the choice over ranks and steps.
struct Candidate {
  uint64_t step = 0;
  int32_t rank = 0;
  std::optional<uint64_t> turn;  // of a pipeline's stage: PipelineTurn
  uint64_t structure = 0;        // equal for passes that hold the same keys
  bool own_parameter = false;
  FirstDifference first;
};

// Index of the origin among `candidates`; precondition: not empty.
size_t ChooseOrigin(std::span<const Candidate> candidates);

// Whether `path` is `module` or lies below it ("." is above everything).
bool PathWithin(std::string_view path, std::string_view module);

}  // namespace tdump::compare
