// Open module calls of each thread, from whichever language: the Python hooks and
// tdump::scope push here, the ATen collector and taps read here where they are. Also
// tells the clock about outermost calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace tdump::collectors {

// One open module call. `scope.call.begin == 0`: the call is followed but nothing of it is kept.
struct ModuleFrame {
  const void* module = nullptr;  // identity only
  OperatorId op = kNoOperator;
  int64_t depth = 0;  // of the interpreter's stack, deeper is larger; 0 where there is none
  // Where the call began on the thread's stack, if nothing tells that an exception ended it.
  const void* stack = nullptr;
  uint64_t serial = 0;  // of the thread, never used again
  bool recompute = false;
  bool announced = false;  // the clock was told of its begin
  bool is_root = false;
  bool waiting = false;  // pushed before the hook of its module, which goes on with it
  bool silent = false;   // followed, never recorded
  Recorder::CallScope scope;
};

// The module as the clock sees it.
struct ModuleIdentity {
  const void* module = nullptr;
  OperatorId op = kNoOperator;
  bool is_root = false;
  std::string_view told_as;  // the root's prefix ("" for the first), or the path of a part
  std::string_view cls;
  uint64_t root_number = 0;
};

// What an outermost call of a module is told as.
inline std::string ToldAs(const OperatorInfo& info, bool is_root) {
  if (is_root || info.root.empty()) return is_root ? info.root : info.path;
  return info.root + "." + info.path;
}

// What other threads may know of a stack: whether it has calls that nobody is in any more.
struct OpenCalls {
  std::atomic<uint32_t> open{0};
  // Serial of the outermost call, if the clock was told of it and not yet that it is over: whoever
  // makes it 0 tells the clock.
  std::atomic<uint64_t> call{0};
  std::atomic<bool> is_root{false};
  int64_t thread = 0;  // a thread id of the system
  // Frames of the interpreter that the thread may go deeper, for the hooks of its open calls.
  std::atomic<int> given{0};
};

// Stack of one thread. Frames are reused, so a call allocates nothing
// once the stack has been that deep. A thread that ends within a call leaves it, as if by an
// exception: the clock would wait for its end for good.
class TDUMP_TORCH_EXPORT ModuleCalls {
 public:
  static ModuleCalls& OfThread();
  ModuleCalls() = default;
  ~ModuleCalls();

  bool empty() const { return depth_ == 0; }
  // Null before the first Push().
  const std::shared_ptr<OpenCalls>& shared() const { return shared_; }
  // Tells the clock, if nobody has, that an exception or the end of its thread left this outermost
  // call of another thread, which comes back to its stack later or never.
  static void TellLeft(Runtime* runtime, OpenCalls* calls, uint64_t serial,
                       bool thread_ended) noexcept;
  size_t size() const { return depth_; }
  ModuleFrame* top() { return depth_ == 0 ? nullptr : frames_[depth_ - 1].get(); }
  // Closes frames that an exception left behind: those not shallower than `depth`.
  void DropStale(Runtime* runtime, int64_t depth) noexcept;
  // The same by place on the stack: `here` is a frame address of the
  // caller's; what encloses it lies above it.
  void DropUnwound(Runtime* runtime, const void* here) noexcept;
  // Pushes a frame; for an outermost call that is not a recomputed forward tells the clock first,
  // unless `silent`: a call that is followed but never recorded. Null: out of memory.
  ModuleFrame* Push(Runtime* runtime, const ModuleIdentity& identity, int64_t depth,
                    bool silent = false) noexcept;
  // The innermost frame of `module`, or null; frames above it are closed as thrown.
  ModuleFrame* Find(Runtime* runtime, const void* module) noexcept;
  // The frame with this serial number, or null when it is closed already. Frames above it stay.
  ModuleFrame* WithSerial(uint64_t serial) noexcept;
  // Closes the frames above `frame` as thrown.
  void UnwindTo(Runtime* runtime, const ModuleFrame* frame) noexcept;
  // Ends the call of the innermost frame, pops it, and tells the clock when it was the outermost.
  void Pop(Runtime* runtime, bool threw) noexcept;

 private:
  // Ends the call of the innermost frame and pops it. True: the clock is to be told of `end`.
  bool Close(Runtime* runtime, bool threw, Boundary* end) noexcept;

  void SetDepth(size_t depth);

  Runtime* runtime_ = nullptr;  // of the last Push()
  std::shared_ptr<OpenCalls> shared_;
  std::vector<std::unique_ptr<ModuleFrame>> frames_;
  size_t depth_ = 0;
  uint64_t serial_ = 0;
  uint32_t left_ = 0;  // by an exception, within the outermost call
};

// Tells the clock that an operator is about to run, when nothing has been told yet.
TDUMP_TORCH_EXPORT void Activate(Runtime* runtime) noexcept;
// Every boundary goes through here: the ATen callbacks follow the gate afterwards.
TDUMP_TORCH_EXPORT void TellClock(Runtime* runtime, const Boundary& boundary) noexcept;

}  // namespace tdump::collectors
