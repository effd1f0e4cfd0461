// LateView: a StepView that is opened when something is first asked of it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "compare/forwarding_view.h"

namespace tdump::compare {

// Thread-safe. What cannot be opened is the error of every call.
class LateView final : public ForwardingView {
 public:
  using Opener = std::function<Result<std::unique_ptr<StepView>>()>;
  explicit LateView(Opener open) : open_(std::move(open)) {}

  // Known to who compared it.
  const std::vector<io::Damage>& damage() const override { return none_; }

 private:
  Result<StepView*> View() const override {
    std::call_once(opened_, [this] { view_ = open_(); });
    if (!view_->ok()) return view_->status();
    return (**view_).get();
  }

  const Opener open_;  // called once
  mutable std::once_flag opened_;
  mutable std::optional<Result<std::unique_ptr<StepView>>> view_;
  const std::vector<io::Damage> none_;
};

}  // namespace tdump::compare
