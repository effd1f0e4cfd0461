// ForwardingView: a StepView that is another one, but for what a subclass says itself.
// WrappedView: of one that it owns.
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

struct Quantised;

// Forwards every call of StepView.
class ForwardingView : public StepView {
 public:
  Status ForEachTensor(const VisitTensor& visit) const override {
    TDUMP_ASSIGN_OR_RETURN(const StepView* view, View());
    return view->ForEachTensor(visit);
  }
  Result<io::Record> Get(uint64_t id) const override {
    TDUMP_ASSIGN_OR_RETURN(const StepView* view, View());
    return view->Get(id);
  }
  const io::Record* Known(uint64_t id) const override {
    const auto view = View();
    return view.ok() ? (*view)->Known(id) : nullptr;
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
  const std::vector<io::Damage>& damage() const override {
    static const std::vector<io::Damage> none;
    const auto view = View();
    return view.ok() ? (*view)->damage() : none;
  }
  bool is_assembled() const override {
    const auto view = View();
    return view.ok() && (*view)->is_assembled();
  }
  bool dequantises() const override {
    const auto view = View();
    return view.ok() && (*view)->dequantises();
  }
  void ShowStored(const std::function<bool(const io::Record& stored)>& picks) override {
    if (const auto view = View(); view.ok()) (*view)->ShowStored(picks);
  }
  std::string LayoutOf(uint64_t id) const override {
    const auto view = View();
    return view.ok() ? (*view)->LayoutOf(id) : "";
  }
  bool IsJoined(uint64_t id) const override {
    const auto view = View();
    return view.ok() && (*view)->IsJoined(id);
  }
  // Scales of a tensor that appears as the numbers that it stands for (DequantisedView); null: it
  // does not, or its view, one of several ranks, does not tell.
  virtual const Quantised* ScalesOf(uint64_t id) const {
    const auto view = View();
    const auto* inner = view.ok() ? dynamic_cast<const ForwardingView*>(*view) : nullptr;
    return inner == nullptr ? nullptr : inner->ScalesOf(id);
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
    return view.ok() ? (*view)->RankAt(id, position) : -1;
  }
  std::vector<int32_t> RanksApart(uint64_t id) const override {
    const auto view = View();
    return view.ok() ? (*view)->RanksApart(id) : std::vector<int32_t>();
  }

 protected:
  // The other one. Error: of every call; those that cannot have one say what a view without
  // anything says. Thread-safe.
  virtual Result<StepView*> View() const = 0;
};

class WrappedView : public ForwardingView {
 public:
  explicit WrappedView(std::unique_ptr<StepView> view) : view_(std::move(view)) {}

 protected:
  const StepView& view() const { return *view_; }

 private:
  Result<StepView*> View() const final { return view_.get(); }

  const std::unique_ptr<StepView> view_;
};

}  // namespace tdump::compare
