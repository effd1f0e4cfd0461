#include "compare/foreign/asked_side.h"

#include "compare/forwarding_view.h"

namespace tdump::compare::foreign {
namespace {

class AskedStep : public WrappedView {
 public:
  AskedStep(std::unique_ptr<StepView> step, const Asked& asked)
      : WrappedView(std::move(step)), asked_(asked) {}

  Status ForEachTensor(const VisitTensor& visit) const override {
    return view().ForEachTensor(
        [&](const io::Record& record) { return !asked_.Takes(record.key) || visit(record); });
  }

 private:
  const Asked& asked_;
};

}  // namespace

Result<std::unique_ptr<StepView>> AskedSide::Open(const PassRef& pass) const {
  TDUMP_ASSIGN_OR_RETURN(auto step, side_->Open(pass));
  uint64_t left_out = 0;
  TDUMP_RETURN_IF_ERROR(step->ForEachTensor([&](const io::Record& record) {
    left_out += !asked_.Takes(record.key);
    return true;
  }));
  {
    std::lock_guard lock(mutex_);
    left_out_[pass.index] = left_out;
  }
  return std::unique_ptr<StepView>(std::make_unique<AskedStep>(std::move(step), asked_));
}

uint64_t AskedSide::left_out() const {
  std::lock_guard lock(mutex_);
  uint64_t records = 0;
  for (const auto& [pass, count] : left_out_) records += count;
  return records;
}

}  // namespace tdump::compare::foreign
