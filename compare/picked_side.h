// PickedSide: of another side only what an address names: RUN:STEP, RUN:STEP/RANK,
// RUN:STEP/RANK/NAME. What is left keeps its numbers and meets a file of tensors, or what another
// address names, whatever step and rank that is of (compare/pairing.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/run_side.h"

namespace tdump::compare {

struct Picked {
  uint64_t step = 0;
  std::optional<int32_t> rank;  // none: the only one of the side
  std::string name;             // see io::NameMatches; empty: everything
};

class PickedSide : public RunSide {
 public:
  // Errors: kNotFound: no such step, rank or name, with what there is; kInvalidArgument: the rank
  // is left out and there are several.
  static Result<std::unique_ptr<PickedSide>> Make(std::unique_ptr<RunSide> side, Picked picked,
                                                  std::string label);

  SideInfo Describe() const override;
  const std::string& label() const override { return label_; }
  int32_t world() const override { return side_->world(); }
  std::optional<int32_t> rank() const override { return rank_; }
  std::optional<uint64_t> step() const override { return picked_.step; }
  bool is_of_named_records() const override { return !picked_.name.empty(); }
  const std::vector<PassRef>& passes() const override { return passes_; }
  Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const override;
  std::vector<io::Damage> DamageOf(int32_t rank) const override;
  std::string CoordinatesOf(int32_t rank) const override;
  std::string WhyMissing(int32_t rank) const override;

 private:
  PickedSide(std::unique_ptr<RunSide> side, Picked picked, std::string label);
  Status Find();
  Status CheckName() const;

  std::unique_ptr<RunSide> side_;
  const Picked picked_;
  const std::string label_;
  std::vector<PassRef> passes_;  // PassRef::index: into side_->passes()
  int32_t rank_ = 0;             // of side_
};

}  // namespace tdump::compare
