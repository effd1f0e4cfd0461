#include "collectors/torch/module_calls.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

#include "tests/collectors/collector_rig.h"

namespace tdump::collectors {
namespace {

using Names = std::vector<std::string>;

class ModuleCallsTest : public ::testing::Test {
 protected:
  // Modules are told apart by address only.
  ModuleFrame* Push(const char* path, const int* module, int64_t depth = 0) {
    const OperatorId op = rig.operators.Intern({.path = path});
    ModuleFrame* frame =
        calls.Push(&rig.runtime,
                   {.module = module, .op = op, .is_root = *path == '.', .told_as = path}, depth);
    EXPECT_TRUE(rig.recorder.Begin(op, nullptr, Phase::kForward, false, &frame->scope));
    return frame;
  }

  CollectorRig rig;
  ModuleCalls calls;
  const int a = 0, b = 0, c = 0;
};

TEST_F(ModuleCallsTest, TheClockHearsOfOutermostCallsOnly) {
  Push(".", &a);
  Push("x", &b);
  calls.Pop(&rig.runtime, false);
  calls.Pop(&rig.runtime, false);
  Push("x", &b);
  calls.Pop(&rig.runtime, false);
  EXPECT_EQ(rig.clock.kinds,
            (std::vector{BoundaryKind::kRootBegin, BoundaryKind::kRootEnd,
                         BoundaryKind::kOutermostBegin, BoundaryKind::kOutermostEnd}));
  EXPECT_EQ(rig.Calls(), (Names{"x", ".", "x"}));
}

TEST_F(ModuleCallsTest, FindClosesWhatAnExceptionLeftInside) {
  ModuleFrame* root = Push(".", &a);
  Push("x", &b);
  Push("x.y", &c);
  EXPECT_EQ(calls.Find(&rig.runtime, &a), root);
  EXPECT_EQ(rig.Calls(), (Names{"x.y!", "x!"}));
  EXPECT_EQ(calls.Find(&rig.runtime, &c), nullptr);
  calls.Pop(&rig.runtime, false);
  EXPECT_TRUE(calls.empty());
}

TEST_F(ModuleCallsTest, StaleFramesOfTheInterpreterGoByDepth) {
  Push(".", &a, 10);
  Push("x", &b, 20);
  Push("x.y", &c, 30);
  calls.DropStale(&rig.runtime, 20);  // a call at depth 20: "x" and what it called are over
  EXPECT_EQ(rig.Calls(), (Names{"x.y!", "x!"}));
  calls.DropStale(&rig.runtime, 11);
  EXPECT_EQ(calls.top()->module, &a);
  calls.DropStale(&rig.runtime, 10);
  EXPECT_TRUE(calls.empty());
  EXPECT_EQ(rig.clock.kinds.back(), BoundaryKind::kRootEnd);
}

TEST_F(ModuleCallsTest, UnwoundFramesGoByTheirPlaceOnTheStack) {
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  Push(".", &a)->stack = at(0x9000);
  Push("x", &b)->stack = at(0x8000);  // deeper: the stack grows down
  calls.DropUnwound(&rig.runtime, at(0x7000));
  EXPECT_TRUE(rig.Calls().empty());  // both enclose a call that begins at 0x7000
  calls.DropUnwound(&rig.runtime, at(0x8000));
  EXPECT_EQ(rig.Calls(), Names{"x!"});
  Push("x", &b, 5);  // of the interpreter: its place on the stack tells nothing
  calls.DropUnwound(&rig.runtime, at(0xf000));
  EXPECT_EQ(calls.top()->module, &b);
}

TEST_F(ModuleCallsTest, SerialsAreNeverUsedAgain) {
  const uint64_t first = Push(".", &a)->serial;
  calls.Pop(&rig.runtime, false);
  ModuleFrame* second = Push(".", &a);
  EXPECT_EQ(calls.WithSerial(first), nullptr);
  EXPECT_EQ(calls.WithSerial(second->serial), second);
  calls.Pop(&rig.runtime, false);
}

TEST_F(ModuleCallsTest, EachThreadHasItsStack) {
  ModuleCalls* mine = &ModuleCalls::OfThread();
  std::thread([&] { EXPECT_NE(&ModuleCalls::OfThread(), mine); }).join();
  EXPECT_EQ(&ModuleCalls::OfThread(), mine);
}

// By an exception that no hook is told of (SystemExit, pthread_exit): nobody comes back for it.
TEST_F(ModuleCallsTest, AThreadThatEndsWithinACallLeavesIt) {
  std::thread([&] {
    const OperatorId ops[] = {rig.operators.Intern({.path = "."}),
                              rig.operators.Intern({.path = "x"})};
    for (const OperatorId op : ops) {
      ModuleFrame* frame = ModuleCalls::OfThread().Push(
          &rig.runtime, {.module = &a, .op = op, .is_root = op == ops[0]}, 0);
      EXPECT_TRUE(rig.recorder.Begin(op, nullptr, Phase::kForward, false, &frame->scope));
    }
  }).join();
  EXPECT_EQ(rig.clock.kinds, (std::vector{BoundaryKind::kRootBegin, BoundaryKind::kRootEnd}));
  EXPECT_EQ(rig.clock.left, 2u);
  EXPECT_EQ(rig.Calls(), (Names{"x!", ".!"}));
}

// Python lets others go on before the variables of an ended thread are destroyed; a pool's thread
// lives on.
TEST_F(ModuleCallsTest, AnotherThreadTellsOfCallsThatWereLeft) {
  std::shared_ptr<OpenCalls> open;
  uint64_t first = 0;
  std::binary_semaphore pushed(0), goes_on(0);
  std::thread thread([&] {
    ModuleCalls& own = ModuleCalls::OfThread();
    first = own.Push(&rig.runtime, {.module = &a, .is_root = true}, 0)->serial;
    own.Push(&rig.runtime, {.module = &b}, 1);
    open = own.shared();
    pushed.release();
    goes_on.acquire();
    own.DropStale(&rig.runtime, 0);  // the pool's next call: the clock has heard of the end
    own.Push(&rig.runtime, {.module = &a, .is_root = true}, 0);
    own.Pop(&rig.runtime, false);
  });
  pushed.acquire();
  EXPECT_EQ(open->call, first);
  ModuleCalls::TellLeft(&rig.runtime, open.get(), first + 1, /*thread_ended=*/false);
  EXPECT_EQ(rig.clock.kinds, std::vector{BoundaryKind::kRootBegin});  // another call
  ModuleCalls::TellLeft(&rig.runtime, open.get(), first, false);
  ModuleCalls::TellLeft(&rig.runtime, open.get(), first, false);
  EXPECT_EQ(rig.clock.kinds, (std::vector{BoundaryKind::kRootBegin, BoundaryKind::kRootEnd}));
  EXPECT_EQ(rig.clock.left, 2u);
  goes_on.release();
  thread.join();
  EXPECT_EQ(rig.clock.kinds, (std::vector{BoundaryKind::kRootBegin, BoundaryKind::kRootEnd,
                                          BoundaryKind::kRootBegin, BoundaryKind::kRootEnd}));
  EXPECT_EQ(rig.clock.left, 2u);
}

TEST_F(ModuleCallsTest, ASilentCallIsFollowedAndNotTold) {
  calls.Push(&rig.runtime, {.module = &a, .is_root = true}, 0, /*silent=*/true);
  calls.Pop(&rig.runtime, false);
  EXPECT_TRUE(rig.clock.kinds.empty());
  EXPECT_TRUE(rig.sink.calls.empty());
}

TEST(Activate, OnceAndOnlyWhileDormant) {
  CollectorRig rig;
  Activate(&rig.runtime);
  EXPECT_TRUE(rig.clock.kinds.empty());
  rig.gate.state = GateState::kDormant;
  Activate(&rig.runtime);
  EXPECT_EQ(rig.clock.kinds, std::vector{BoundaryKind::kFirstOperator});
  rig.gate.state = GateState::kOff;
  TellClock(&rig.runtime, {});
  EXPECT_EQ(rig.clock.kinds.size(), 1u);
}

}  // namespace
}  // namespace tdump::collectors
