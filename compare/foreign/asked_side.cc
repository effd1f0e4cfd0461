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
  TDUMP_RETURN_IF_ERROR(step->ForEachTensor([this](const io::Record& record) {
    if (!asked_.Takes(record.key)) ++left_out_;
    return true;
  }));
  return std::unique_ptr<StepView>(std::make_unique<AskedStep>(std::move(step), asked_));
}

}  // namespace tdump::compare::foreign
