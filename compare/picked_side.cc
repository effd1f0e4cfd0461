#include "compare/picked_side.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "compare/forwarding_view.h"
#include "core/text.h"
#include "io/address.h"
#include "io/printed_name.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostRoles = 8;  // named where an address names none of them

// A name without a role means the output where there is one; so that one tensor is left.
bool NamesRole(const std::string& name) { return name.find('@') != std::string::npos; }

class PickedStep : public WrappedView {
 public:
  PickedStep(std::unique_ptr<StepView> step, const std::string& name)
      : WrappedView(std::move(step)) {
    const Status status = view().ForEachTensor([&](const io::Record& record) {
      if (name.empty() || io::NameMatchesPrinted(name, record)) {
        ids_.insert(record.id);
        if (record.key.role == Role::kOutput) outputs_.insert(record.id);
      }
      return true;
    });
    if (!name.empty() && !NamesRole(name) && !outputs_.empty()) ids_ = outputs_;
    if (!status.ok()) damage_.push_back({"", 0, status.message()});
    damage_.insert(damage_.end(), view().damage().begin(), view().damage().end());
  }

  bool empty() const { return ids_.empty(); }
  // Of all that is there: "@input#0", "@output#", each once.
  void AddRolesOf(const std::string& op, std::vector<std::string>* roles) const {
    (void)view().ForEachTensor([&](const io::Record& record) {
      const std::string role =
          Printable(fmt::format("@{}#{}", ToString(record.key.role), record.key.arg));
      if (!op.empty() && io::NameMatches(op, record.key) &&
          std::find(roles->begin(), roles->end(), role) == roles->end())
        roles->push_back(role);
      return roles->size() < kMostRoles;
    });
  }

  Status ForEachTensor(const VisitTensor& visit) const override {
    return view().ForEachTensor(
        [&](const io::Record& record) { return !ids_.contains(record.id) || visit(record); });
  }
  const std::vector<io::Damage>& damage() const override { return damage_; }

 private:
  std::set<uint64_t> ids_, outputs_;
  std::vector<io::Damage> damage_;
};

}  // namespace

PickedSide::PickedSide(std::unique_ptr<RunSide> side, Picked picked, std::string label)
    : side_(std::move(side)), picked_(std::move(picked)), label_(std::move(label)) {}

Result<std::unique_ptr<PickedSide>> PickedSide::Make(std::unique_ptr<RunSide> side, Picked picked,
                                                     std::string label) {
  std::unique_ptr<PickedSide> made(
      new PickedSide(std::move(side), std::move(picked), std::move(label)));
  TDUMP_RETURN_IF_ERROR(made->Find());
  TDUMP_RETURN_IF_ERROR(made->CheckName());
  return made;
}

Status PickedSide::Find() {
  std::vector<uint64_t> steps;
  std::vector<uint64_t> ranks;  // of the step
  const std::vector<PassRef>& all = side_->passes();
  for (size_t i = 0; i < all.size(); ++i) {
    steps.push_back(all[i].step);
    if (all[i].step != picked_.step || all[i].extra) continue;
    ranks.push_back(static_cast<uint64_t>(all[i].rank));
    if (picked_.rank && all[i].rank != *picked_.rank) continue;
    PassRef pass = all[i];
    rank_ = pass.rank;
    pass.index = i;
    passes_.push_back(pass);
  }
  if (ranks.empty())
    return NotFound(fmt::format("{}: there is no step {}; there are {}", label_, picked_.step,
                                steps.empty() ? "none" : RangesText(steps)));
  if (passes_.empty())
    return NotFound(fmt::format("{}: step {} has no rank {}; it has {}", label_, picked_.step,
                                *picked_.rank, RangesText(ranks)));
  const std::set<uint64_t> distinct(ranks.begin(), ranks.end());
  if (picked_.rank || distinct.size() == 1) return {};
  return InvalidArgument(fmt::format("{}: step {} has ranks {}; name one: {}/{}", label_,
                                     picked_.step, RangesText(ranks), label_, ranks.front()));
}

Status PickedSide::CheckName() const {
  if (picked_.name.empty()) return {};
  const std::string op = picked_.name.substr(0, picked_.name.find('@'));
  std::vector<std::string> others;  // of the operator
  for (const PassRef& pass : passes_) {
    TDUMP_ASSIGN_OR_RETURN(auto opened, side_->Open(side_->passes()[pass.index]));
    const PickedStep step(std::move(opened), picked_.name);
    if (!step.empty()) return {};
    step.AddRolesOf(op, &others);
  }
  const std::string has =
      others.empty() ? "" : fmt::format("; '{}' has {}", op, fmt::join(others, ", "));
  return NotFound(fmt::format("{}: no tensor there is named '{}'{}", label_, picked_.name, has));
}

SideInfo PickedSide::Describe() const {
  SideInfo info = side_->Describe();
  info.label = label_;
  info.holes.clear();
  return info;
}

Result<std::unique_ptr<StepView>> PickedSide::Open(const PassRef& pass) const {
  TDUMP_ASSIGN_OR_RETURN(auto step, side_->Open(side_->passes()[pass.index]));
  return std::unique_ptr<StepView>(std::make_unique<PickedStep>(std::move(step), picked_.name));
}

std::vector<io::Damage> PickedSide::DamageOf(int32_t /*rank*/) const {
  return side_->DamageOf(rank_);
}

std::string PickedSide::CoordinatesOf(int32_t /*rank*/) const {
  return side_->CoordinatesOf(rank_);
}

std::string PickedSide::WhyMissing(int32_t /*rank*/) const { return side_->WhyMissing(rank_); }

}  // namespace tdump::compare
