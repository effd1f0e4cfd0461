// A pass pair whose views count the records that are read.
#pragma once

#include <cstddef>
#include <memory>

#include "compare/forwarding_view.h"
#include "compare/pass_diff.h"

namespace tdump::compare {

class CountingView : public ForwardingView {
 public:
  CountingView(StepView* view, size_t* reads) : view_(view), reads_(reads) {}

  Result<io::Record> Get(uint64_t id) const override {
    ++*reads_;
    return ForwardingView::Get(id);
  }

 private:
  Result<StepView*> View() const override { return view_; }

  StepView* const view_;
  size_t* const reads_;
};

// Of what judges see; `pass` outlives it.
inline PassDiff Counted(const PassDiff& pass, size_t* reads) {
  PassDiff counted;
  counted.a = std::make_unique<CountingView>(pass.a.get(), reads);
  counted.b = std::make_unique<CountingView>(pass.b.get(), reads);
  counted.outcomes = pass.outcomes;
  counted.only_a = pass.only_a;
  counted.only_b = pass.only_b;
  return counted;
}

}  // namespace tdump::compare
