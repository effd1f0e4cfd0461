// ForwardingView: a StepView that is another one, but for what a subclass says itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compare/step_view.h"

namespace tdump::compare {

class ForwardingView : public StepView {
 public:
  explicit ForwardingView(std::unique_ptr<StepView> view) : view_(std::move(view)) {}

  Status ForEachTensor(const VisitTensor& visit) const override {
    return view_->ForEachTensor(visit);
  }
  Result<io::Record> Get(uint64_t id) const override { return view_->Get(id); }
  Result<ReadBytes> Open(const io::Record& record) const override { return view_->Open(record); }
  std::optional<Summary> SummaryOf(const io::Record& record) const override {
    return view_->SummaryOf(record);
  }
  Status ForEachCall(const VisitCall& visit) const override { return view_->ForEachCall(visit); }
  const std::vector<io::Damage>& damage() const override { return view_->damage(); }
  bool dequantises() const override { return view_->dequantises(); }
  void ShowStored(const std::function<bool(const io::Record& stored)>& picks) override {
    view_->ShowStored(picks);
  }
  bool is_assembled() const override { return view_->is_assembled(); }
  std::string LayoutOf(uint64_t id) const override { return view_->LayoutOf(id); }
  Status StateOf(uint64_t id) const override { return view_->StateOf(id); }
  std::string DimsOfMean(uint64_t id, uint64_t times) const override {
    return view_->DimsOfMean(id, times);
  }
  std::string DimsOfAgreeingMean(uint64_t id) const override {
    return view_->DimsOfAgreeingMean(id);
  }
  int32_t RankAt(uint64_t id, std::span<const uint64_t> position) const override {
    return view_->RankAt(id, position);
  }

 protected:
  const StepView& view() const { return *view_; }

 private:
  const std::unique_ptr<StepView> view_;
};

}  // namespace tdump::compare
