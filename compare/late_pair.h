// LatePair: the two views of a pair of passes, opened when the first of them is asked for.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "compare/pairing.h"
#include "compare/run_side.h"

namespace tdump::compare {

// Thread-safe. The sides outlive it.
class LatePair {
 public:
  LatePair(const RunSide& a, const RunSide& b, const PassPair& pair) : a_(a), b_(b), pair_(pair) {}

  // Each once.
  Result<std::unique_ptr<StepView>> TakeA() { return Take(&PassViews::a); }
  Result<std::unique_ptr<StepView>> TakeB() { return Take(&PassViews::b); }

 private:
  Result<std::unique_ptr<StepView>> Take(std::unique_ptr<StepView> PassViews::*view) {
    std::call_once(opened_, [this] { views_ = OpenViews(a_, b_, pair_); });
    if (!views_.ok()) return views_.status();
    return std::move((*views_).*view);
  }

  const RunSide& a_;
  const RunSide& b_;
  const PassPair pair_;
  std::once_flag opened_;
  Result<PassViews> views_ = PassViews{};
};

}  // namespace tdump::compare
