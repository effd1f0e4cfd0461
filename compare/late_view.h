// LateView: a StepView that is opened when something is first asked of it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compare/run_side.h"
#include "compare/step_view.h"

namespace tdump::compare {

// Thread-safe. What cannot be opened is the error of every call.
class LateView : public StepView {
 public:
  using Opener = std::function<Result<std::unique_ptr<StepView>>()>;
  explicit LateView(Opener open) : open_(std::move(open)) {}

  Status ForEachTensor(const VisitTensor& visit) const override {
    TDUMP_ASSIGN_OR_RETURN(const StepView* view, View());
    return view->ForEachTensor(visit);
  }
  Result<io::Record> Get(uint64_t id) const override {
    TDUMP_ASSIGN_OR_RETURN(const StepView* view, View());
    return view->Get(id);
  }
  Result<ReadBytes> Open(const io::Record& record) const override {
    TDUMP_ASSIGN_OR_RETURN(const StepView* view, View());
    return view->Open(record);
  }
  std::optional<Summary> SummaryOf(const io::Record& record) const override {
    const auto view = View();
    return view.ok() ? (*view)->SummaryOf(record) : std::nullopt;
  }
  Status ForEachCall(const VisitCall& visit) const override {
    TDUMP_ASSIGN_OR_RETURN(const StepView* view, View());
    return view->ForEachCall(visit);
  }
  // Known to who compared it.
  const std::vector<io::Damage>& damage() const override { return none_; }
  bool is_assembled() const override {
    const auto view = View();
    return view.ok() && (*view)->is_assembled();
  }
  std::string LayoutOf(uint64_t id) const override {
    const auto view = View();
    return view.ok() ? (*view)->LayoutOf(id) : "";
  }
  Status StateOf(uint64_t id) const override {
    TDUMP_ASSIGN_OR_RETURN(const StepView* view, View());
    return view->StateOf(id);
  }
  std::string DimsOfMean(uint64_t id, uint64_t times) const override {
    const auto view = View();
    return view.ok() ? (*view)->DimsOfMean(id, times) : "";
  }
  std::string DimsOfAgreeingMean(uint64_t id) const override {
    const auto view = View();
    return view.ok() ? (*view)->DimsOfAgreeingMean(id) : "";
  }
  int32_t RankAt(uint64_t id, std::span<const uint64_t> position) const override {
    const auto view = View();
    return view.ok() ? (*view)->RankAt(id, position) : kAllRanks;
  }

 private:
  Result<const StepView*> View() const {
    std::call_once(opened_, [this] { view_ = open_(); });
    if (!view_->ok()) return view_->status();
    return (**view_).get();
  }

  const Opener open_;  // called once
  mutable std::once_flag opened_;
  mutable std::optional<Result<std::unique_ptr<StepView>>> view_;
  std::vector<io::Damage> none_;
};

}  // namespace tdump::compare
