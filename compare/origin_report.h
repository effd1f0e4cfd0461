// Origin: where two runs first part, with all that a report says of it; and the parameters that
// may be why.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/killed_origin.h"
#include "compare/missing_work.h"
#include "compare/origin.h"
#include "compare/row.h"
#include "compare/skipped_operator.h"
#include "compare/update_fault.h"

namespace tdump::compare {

// Of a parameter, or of a buffer.
struct ParameterDifference {
  std::string name, path;
  int32_t rank = 0;    // of its element that is farthest off
  int32_t holder = 0;  // Row::holder
  uint64_t step = 0;   // first seen to differ
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
  // One of these, of kMissing.
  std::optional<MissingWork> missing;
  std::optional<SkippedOperator> skipped;
  std::optional<KilledOrigin> killed;
  // It is what became of gradients that agree (compare/update_fault.h).
  std::optional<UpdateFault> update;
};

// Says of the origin which parameter differs.
inline void NameParameter(const ParameterDifference& parameter, Origin* origin) {
  origin->parameter = parameter.name;
  origin->of_buffer = parameter.buffer;
  origin->parameter_row = parameter.row;
  origin->drifted = parameter.drifted;
  origin->may_be_steps = parameter.may_be_steps;
}

}  // namespace tdump::compare
