#include "compare/foreign/asked_side.h"

namespace tdump::compare::foreign {
namespace {

class AskedStep : public StepView {
 public:
  AskedStep(std::unique_ptr<StepView> step, const Asked& asked)
      : step_(std::move(step)), asked_(asked) {}

  Status ForEachTensor(const VisitTensor& visit) const override {
    return step_->ForEachTensor(
        [&](const io::Record& record) { return !asked_.Takes(record.key) || visit(record); });
  }
  Result<io::Record> Get(uint64_t id) const override { return step_->Get(id); }
  Result<ReadBytes> Open(const io::Record& record) const override { return step_->Open(record); }
  Status ForEachCall(const VisitCall& visit) const override { return step_->ForEachCall(visit); }
  const std::vector<io::Damage>& damage() const override { return step_->damage(); }
  bool is_assembled() const override { return step_->is_assembled(); }
  std::string LayoutOf(uint64_t id) const override { return step_->LayoutOf(id); }
  Status StateOf(uint64_t id) const override { return step_->StateOf(id); }
  int32_t RankAt(uint64_t id, std::span<const uint64_t> position) const override {
    return step_->RankAt(id, position);
  }

 private:
  std::unique_ptr<StepView> step_;
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
