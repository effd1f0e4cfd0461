#include "collectors/torch/module_calls.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "collectors/torch/aten_collector.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {

ModuleCalls& ModuleCalls::OfThread() {
  static thread_local ModuleCalls calls;
  return calls;
}

// The main thread comes here when the process exits, maybe from within a call: the clock hears of
// that by kExit. LibTorch's variables of the thread may be gone, so FollowGate() is left out; an
// end never changes the gate.
ModuleCalls::~ModuleCalls() {
  if (depth_ == 0 || ::syscall(SYS_gettid) == ::getpid()) return;
  while (depth_ > 0) {
    Boundary end;
    if (!Close(runtime_, /*threw=*/true, &end) || runtime_->gate->off()) continue;
    end.number = 1;
    runtime_->clock->boundary(end);
  }
}

void ModuleCalls::DropStale(Runtime* runtime, int64_t depth) noexcept {
  DropUnwound(runtime, __builtin_frame_address(0));
  while (depth_ > 0 && top()->stack == nullptr && top()->depth >= depth) {
    Pop(runtime, /*threw=*/true);
    DropUnwound(runtime, __builtin_frame_address(0));
  }
}

void ModuleCalls::DropUnwound(Runtime* runtime, const void* here) noexcept {
  while (depth_ > 0 && top()->stack != nullptr && !std::less<>()(here, top()->stack))
    Pop(runtime, /*threw=*/true);
}

ModuleFrame* ModuleCalls::Push(Runtime* runtime, const ModuleIdentity& identity, int64_t depth,
                               bool silent) noexcept {
  try {
    if (shared_ == nullptr) {
      shared_ = std::make_shared<OpenCalls>();
      shared_->thread = ::syscall(SYS_gettid);
    }
    if (depth_ == frames_.size()) frames_.push_back(std::make_unique<ModuleFrame>());
  } catch (...) {
    return nullptr;
  }
  runtime_ = runtime;
  ModuleFrame* frame = frames_[depth_].get();
  frame->module = identity.module;
  frame->op = identity.op;
  frame->depth = depth;
  frame->stack = nullptr;
  frame->serial = ++serial_;
  frame->is_root = identity.is_root;
  frame->waiting = false;
  frame->silent = silent;
  frame->recompute = InBackward();
  frame->announced = depth_ == 0 && !frame->recompute && !silent;
  frame->scope.call.begin = 0;
  if (frame->announced) {
    Activate(runtime);
    Boundary boundary;
    boundary.kind = identity.is_root ? BoundaryKind::kRootBegin : BoundaryKind::kOutermostBegin;
    boundary.name = identity.told_as;
    boundary.instance = identity.root_number;
    boundary.grad_enabled = GradEnabled();
    boundary.cls = identity.cls;
    TellClock(runtime, boundary);
  }
  if (depth_ == 0) {
    shared_->is_root.store(identity.is_root, std::memory_order_relaxed);
    shared_->call.store(frame->announced ? frame->serial : 0);
  }
  SetDepth(depth_ + 1);
  return frame;
}

ModuleFrame* ModuleCalls::Find(Runtime* runtime, const void* module) noexcept {
  size_t found = depth_;
  while (found > 0 && frames_[found - 1]->module != module) --found;
  if (found == 0) return nullptr;
  while (depth_ > found) Pop(runtime, /*threw=*/true);
  return frames_[depth_ - 1].get();
}

ModuleFrame* ModuleCalls::WithSerial(uint64_t serial) noexcept {
  for (size_t i = depth_; i > 0; --i) {
    if (frames_[i - 1]->serial == serial) return frames_[i - 1].get();
  }
  return nullptr;
}

void ModuleCalls::UnwindTo(Runtime* runtime, const ModuleFrame* frame) noexcept {
  while (depth_ > 0 && top() != frame) Pop(runtime, /*threw=*/true);
}

void ModuleCalls::SetDepth(size_t depth) {
  depth_ = depth;
  shared_->open.store(static_cast<uint32_t>(depth), std::memory_order_relaxed);
}

void ModuleCalls::TellLeft(Runtime* runtime, OpenCalls* calls, uint64_t serial,
                           bool thread_ended) noexcept {
  Boundary end;
  end.left = calls->open.load(std::memory_order_relaxed);
  if (end.left == 0 || !calls->call.compare_exchange_strong(serial, 0)) return;
  end.kind = calls->is_root.load(std::memory_order_relaxed) ? BoundaryKind::kRootEnd
                                                            : BoundaryKind::kOutermostEnd;
  if (thread_ended) end.number = 1;
  end.thread = calls->thread;
  TellClock(runtime, end);
}

void ModuleCalls::Pop(Runtime* runtime, bool threw) noexcept {
  Boundary end;
  if (Close(runtime, threw, &end)) TellClock(runtime, end);
}

bool ModuleCalls::Close(Runtime* runtime, bool threw, Boundary* end) noexcept {
  ModuleFrame* frame = frames_[depth_ - 1].get();
  runtime->recorder->End(&frame->scope, threw);
  frame->scope.call.begin = 0;
  SetDepth(depth_ - 1);
  // A recomputed forward ends by an exception as soon as it has made what backward waits for.
  if (threw && !frame->recompute && !frame->silent) ++left_;
  const uint32_t left = depth_ == 0 ? std::exchange(left_, 0) : 0;
  if (!frame->announced || shared_->call.exchange(0) == 0) return false;
  end->kind = frame->is_root ? BoundaryKind::kRootEnd : BoundaryKind::kOutermostEnd;
  end->grad_enabled = GradEnabled();
  end->left = left;
  return true;
}

void Activate(Runtime* runtime) noexcept {
  if (runtime->gate->state.load(std::memory_order_acquire) != GateState::kDormant) return;
  Boundary boundary;
  boundary.kind = BoundaryKind::kFirstOperator;
  boundary.grad_enabled = GradEnabled();
  runtime->clock->boundary(boundary);
}

void TellClock(Runtime* runtime, const Boundary& boundary) noexcept {
  if (runtime->gate->off()) return;
  runtime->clock->boundary(boundary);
  FollowGate(runtime);
}

}  // namespace tdump::collectors
