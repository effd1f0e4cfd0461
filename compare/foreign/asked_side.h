// AskedSide: of a run only what a dump of another tool has too. Many dumps hold the outputs of
// modules, or weights, and nothing else: that a run also has inputs is no difference.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "compare/run_side.h"
#include "core/key.h"

namespace tdump::compare::foreign {

// Records with one of these roles, and those with one of these keys (ToText).
struct Asked {
  std::set<Role> roles;
  std::set<std::string> keys;

  bool Takes(const Key& key) const {
    return roles.contains(key.role) || keys.contains(ToText(key));
  }
};

class AskedSide : public RunSide {
 public:
  AskedSide(std::unique_ptr<RunSide> side, Asked asked)
      : side_(std::move(side)), asked_(std::move(asked)) {}

  SideInfo Describe() const override { return side_->Describe(); }
  const std::string& label() const override { return side_->label(); }
  int32_t world() const override { return side_->world(); }
  std::optional<int32_t> rank() const override { return side_->rank(); }
  std::optional<uint64_t> step() const override { return side_->step(); }
  bool is_of_named_records() const override { return side_->is_of_named_records(); }
  const std::vector<PassRef>& passes() const override { return side_->passes(); }
  Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const override;
  bool IsLost(int32_t rank) const override { return side_->IsLost(rank); }
  std::optional<KilledState> KilledStateOf(int32_t rank) const override {
    return side_->KilledStateOf(rank);
  }
  std::vector<io::Damage> DamageOf(int32_t rank) const override { return side_->DamageOf(rank); }
  std::string CoordinatesOf(int32_t rank) const override { return side_->CoordinatesOf(rank); }
  std::string WhyMissing(int32_t rank) const override { return side_->WhyMissing(rank); }

  // Records that were left out of the passes that were opened, each counted once.
  uint64_t left_out() const;
  const Asked& asked() const { return asked_; }

 private:
  std::unique_ptr<RunSide> side_;
  const Asked asked_;
  mutable std::mutex mutex_;
  mutable std::map<size_t, uint64_t> left_out_;  // by PassRef::index
};

}  // namespace tdump::compare::foreign
