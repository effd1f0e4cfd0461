#include "core/recorder.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

namespace tdump {
namespace {

// Operator n is known by rule n + 1. Keeps outputs of operators at kept_from and above; of the
// others parameters only.
class FakePlan final : public Plan {
 public:
  RuleId op(OperatorId op, const OperatorInfo&, const void*) noexcept override {
    return op == unknown ? kNoRule : op + 1;
  }
  Decision observe(RuleId, const ObservationKey& key) const noexcept override {
    last = key;
    if (key.role == Role::kInput) return {};
    return {{kPartMeta}, 1, {}, max};
  }
  bool wants(RuleId rule, Role role, Phase) const noexcept override {
    if (rule == kNoRule) return false;
    return role == Role::kParam || (role == Role::kOutput && rule - 1 != params_only);
  }
  bool wants_kind(OperatorKind) const noexcept override { return true; }

  OperatorId unknown = kNoOperator;
  OperatorId params_only = kNoOperator;
  uint64_t max = 0;
  mutable ObservationKey last;
};

class FakeSink final : public Sink {
 public:
  Slot reserve(const Call&, const Observation&, const Keep&, uint64_t) noexcept override {
    return {};
  }
  void commit(const Slot&) noexcept override {}
  void abandon(const Slot&, SkipReason) noexcept override {}
  uint64_t max_slot() const noexcept override { return ~uint64_t{0}; }
  void stream(const Call&, const Observation&, const Keep&, uint64_t,
              PieceSource*) noexcept override {}
  void when_ready(const Call&, const Observation&, const Keep&, uint64_t,
                  DeviceCopy* copy) noexcept override {
    copy->Release();
  }
  void refer(const Call&, const Observation&, const Keep&, uint64_t) noexcept override {}
  void skip(const Call&, const Observation&, const Keep&, SkipReason reason,
            std::string_view) noexcept override {
    skipped.push_back(reason);
  }
  void end_call(const Call& call, std::span<const std::byte> arguments,
                std::span<const std::byte>) noexcept override {
    std::lock_guard lock(mutex);
    calls.push_back(call);
    argument_counts.push_back(ArgumentList::Decode(arguments).size());
  }
  void expect(OperatorId) noexcept override {}
  void note(std::string_view) noexcept override {}

  std::mutex mutex;
  std::vector<Call> calls;
  std::vector<size_t> argument_counts;
  std::vector<SkipReason> skipped;
};

class FakeClock final : public Clock {
 public:
  void boundary(const Boundary&) noexcept override {}
};

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() {
    for (const char* path : {".", "a", "b", "c"}) operators.Intern({.path = path});
    gate.state = GateState::kArmed;
  }
  Recorder::CallScope Begin(OperatorId op, Phase phase = Phase::kForward, bool recompute = false) {
    Recorder::CallScope scope;
    EXPECT_TRUE(recorder.Begin(op, nullptr, phase, recompute, &scope));
    return scope;
  }
  uint64_t CallIndex(OperatorId op, Phase phase = Phase::kForward, bool recompute = false) {
    Recorder::CallScope scope = Begin(op, phase, recompute);
    const uint64_t index = scope.call.index;
    recorder.End(&scope, false);
    return index;
  }

  Gate gate;
  OperatorTable operators;
  FakePlan plan;
  FakeSink sink;
  FakeClock clock;
  Recorder recorder{&gate, &operators, &plan, &sink, &clock};
};

TEST_F(RecorderTest, NothingWhileNotArmedOrNotSelected) {
  Recorder::CallScope scope;
  gate.state = GateState::kIdle;
  EXPECT_FALSE(recorder.Begin(1, nullptr, Phase::kForward, false, &scope));
  gate.state = GateState::kArmed;
  plan.unknown = 1;
  EXPECT_FALSE(recorder.Begin(1, nullptr, Phase::kForward, false, &scope));
  EXPECT_FALSE(recorder.Begin(kNoOperator, nullptr, Phase::kForward, false, &scope));
  EXPECT_EQ(gate.sequence.load(), 1u);
  recorder.End(&scope, false);
  EXPECT_TRUE(sink.calls.empty());
}

TEST_F(RecorderTest, OperatorsWantedForParametersOnlyOpenNoCall) {
  plan.params_only = 1;
  Recorder::CallScope scope;
  EXPECT_FALSE(recorder.Begin(1, nullptr, Phase::kForward, false, &scope));
  EXPECT_TRUE(recorder.BeginState(1, nullptr, &scope));
  EXPECT_EQ(scope.call.op, 1u);
  EXPECT_TRUE(scope.first_state);
  EXPECT_TRUE(recorder.BeginState(1, nullptr, &scope));
  EXPECT_FALSE(scope.first_state);
  EXPECT_EQ(CallIndex(2), 0u);
  EXPECT_EQ(sink.calls[0].parent, 0u);  // state encloses nothing
}

TEST_F(RecorderTest, CallsEncloseByTheirIntervals) {
  Recorder::CallScope root = Begin(0);
  Recorder::CallScope first = Begin(1);
  EXPECT_EQ(recorder.Innermost(), first.call.begin);
  recorder.End(&first, false);
  Recorder::CallScope second = Begin(2);
  recorder.End(&second, false);
  recorder.End(&root, false);
  EXPECT_EQ(recorder.Innermost(), 0u);
  ASSERT_EQ(sink.calls.size(), 3u);
  const Call &a = sink.calls[0], &b = sink.calls[1], &r = sink.calls[2];
  EXPECT_EQ(a.parent, r.begin);
  EXPECT_EQ(b.parent, r.begin);
  EXPECT_EQ(r.parent, 0u);
  EXPECT_TRUE(r.begin < a.begin && a.begin < a.end && a.end < b.begin && b.begin < b.end &&
              b.end < r.end);
}

TEST_F(RecorderTest, IndexCountsWithinMicroAndPhase) {
  EXPECT_EQ(CallIndex(1), 0u);
  EXPECT_EQ(CallIndex(1), 1u);
  EXPECT_EQ(CallIndex(2), 0u);
  EXPECT_EQ(CallIndex(1, Phase::kBackward), 0u);
  EXPECT_EQ(CallIndex(1), 2u);
  gate.micro = 1;
  EXPECT_EQ(CallIndex(1), 0u);
  EXPECT_EQ(CallIndex(1, Phase::kBackward), 0u);
  gate.pass = 1;
  gate.micro = 0;
  EXPECT_EQ(CallIndex(1), 0u);
}

TEST_F(RecorderTest, BackwardCallsCountByTheLaneOfTheirForward) {
  const auto in_backward = [&](std::optional<uint32_t> lane) {
    Recorder::CallScope scope;
    EXPECT_TRUE(recorder.Begin(1, nullptr, Phase::kBackward, false, &scope, lane));
    recorder.End(&scope, false);
    return std::pair(scope.call.lane, scope.call.index);
  };
  EXPECT_EQ(recorder.Lane(), 0u);
  EXPECT_EQ(in_backward(std::nullopt), std::pair(0u, uint64_t{0}));
  std::thread([&] {
    EXPECT_EQ(recorder.Lane(), 1u);
    EXPECT_EQ(in_backward(0), std::pair(0u, uint64_t{1}));  // the main thread's forward
    EXPECT_EQ(in_backward(std::nullopt), std::pair(1u, uint64_t{0}));
  }).join();
  EXPECT_EQ(in_backward(0), std::pair(0u, uint64_t{2}));
  EXPECT_EQ(in_backward(1), std::pair(1u, uint64_t{1}));
  gate.pass = 1;
  EXPECT_EQ(in_backward(0), std::pair(0u, uint64_t{0}));
}

TEST_F(RecorderTest, RecomputedForwardsCountForThemselves) {
  EXPECT_EQ(CallIndex(1), 0u);
  EXPECT_EQ(CallIndex(1), 1u);
  EXPECT_EQ(CallIndex(1, Phase::kForward, true), 0u);
  EXPECT_EQ(CallIndex(1, Phase::kForward, true), 1u);
  EXPECT_EQ(CallIndex(1), 2u);
}

TEST_F(RecorderTest, AskingAboutAnOlderMicroDoesNotDisturbTheCount) {
  plan.max = 100;
  Recorder::CallScope outer = Begin(1);
  gate.micro = 1;
  EXPECT_EQ(CallIndex(1), 0u);
  recorder.Ask(&outer, {});
  EXPECT_EQ(CallIndex(1), 1u);
  recorder.End(&outer, false);
}

TEST_F(RecorderTest, AskTellsThePlanTheKey) {
  gate.step = 7;
  Recorder::CallScope scope = Begin(1);
  const std::vector<int64_t> sizes = {2, 3, 4};
  Observation observation{.role = Role::kOutput, .arg = "1.x"};
  observation.meta.dtype = MakeDType("float16", 16);
  observation.meta.sizes = sizes;
  EXPECT_EQ(recorder.Ask(&scope, observation).parts, kPartMeta);
  EXPECT_EQ(plan.last.numel, 24u);
  EXPECT_EQ(plan.last.arg, "1.x");
  EXPECT_EQ(plan.last.dtype, "float16");
  EXPECT_EQ(plan.last.step, 7u);
  observation.role = Role::kInput;
  EXPECT_EQ(recorder.Ask(&scope, observation).parts, kPartNone);
  recorder.End(&scope, false);
  ASSERT_EQ(sink.argument_counts, std::vector<size_t>{2});  // also the one that is not kept
}

TEST_F(RecorderTest, MaxCountsRecordsOfAnOperatorInAPass) {
  plan.max = 2;
  for (int pass = 0; pass < 2; ++pass) {
    gate.pass = pass;
    sink.skipped.clear();
    for (int i = 0; i < 5; ++i) {
      Recorder::CallScope scope = Begin(1);
      EXPECT_EQ(recorder.Ask(&scope, {}).parts, i < 2 ? kPartMeta : kPartNone);
      recorder.End(&scope, false);
    }
    EXPECT_EQ(sink.skipped, std::vector<SkipReason>(3, SkipReason::kMaxRecords));
  }
}

TEST_F(RecorderTest, MaxCountsRecordsOfAllThreads) {
  plan.max = 3;
  size_t kept = 0;
  for (int i = 0; i < 5; ++i) {
    std::thread([&] {
      Recorder::CallScope scope = Begin(1);
      kept += recorder.Ask(&scope, {}).parts == kPartMeta ? 1 : 0;
      recorder.End(&scope, false);
    }).join();
  }
  EXPECT_EQ(kept, 3u);
}

TEST_F(RecorderTest, AnExceptionClosesWhatItUnwound) {
  Recorder::CallScope root = Begin(0);
  Recorder::CallScope inner = Begin(1);
  Recorder::CallScope innermost = Begin(2);
  recorder.End(&root, true);
  ASSERT_EQ(sink.calls.size(), 3u);
  for (const Call& call : sink.calls) {
    EXPECT_TRUE(call.threw);
    EXPECT_EQ(call.end, 0u);
  }
  EXPECT_EQ(sink.calls[0].op, 2u);
  EXPECT_EQ(sink.calls[1].op, 1u);
  EXPECT_EQ(sink.calls[2].op, 0u);
  recorder.End(&inner, true);  // told late: already written
  recorder.End(&innermost, true);
  EXPECT_EQ(sink.calls.size(), 3u);
  EXPECT_EQ(recorder.Innermost(), 0u);
}

TEST_F(RecorderTest, AnExceptionCaughtInsideIsNoneOfTheOuterCalls) {
  Recorder::CallScope root = Begin(0);
  Begin(1);
  recorder.End(&root, false);
  ASSERT_EQ(sink.calls.size(), 2u);
  EXPECT_TRUE(sink.calls[0].threw);
  EXPECT_FALSE(sink.calls[1].threw);
  EXPECT_NE(sink.calls[1].end, 0u);
}

TEST_F(RecorderTest, AnEndOnAnotherThreadTouchesOnlyItsCall) {
  Recorder::CallScope mine = Begin(0);
  Recorder::CallScope theirs;
  std::thread([&] {
    EXPECT_TRUE(recorder.Begin(1, nullptr, Phase::kForward, false, &theirs));
    EXPECT_EQ(theirs.call.parent, 0u);  // another thread's calls do not enclose
    EXPECT_EQ(theirs.call.lane, 1u);
    Recorder::CallScope inner = Begin(2);
    recorder.End(&mine, false);  // began before `theirs`, on the main thread
    EXPECT_EQ(recorder.Innermost(), inner.call.begin);
    recorder.End(&inner, false);
    recorder.End(&theirs, false);
  }).join();
  EXPECT_EQ(sink.calls.size(), 3u);
  EXPECT_EQ(recorder.Innermost(), 0u);  // the main thread has noticed
  EXPECT_EQ(Begin(3).call.parent, 0u);
}

TEST_F(RecorderTest, ANewPassLeavesOldCallsBehind) {
  Recorder::CallScope old = Begin(0);
  gate.pass = 1;
  EXPECT_EQ(recorder.Innermost(), 0u);
  Recorder::CallScope fresh = Begin(1);
  EXPECT_EQ(fresh.call.parent, 0u);
  EXPECT_EQ(fresh.call.pass, 1u);
  recorder.End(&old, false);
  EXPECT_EQ(recorder.Innermost(), fresh.call.begin);
  recorder.End(&fresh, false);
  ASSERT_EQ(sink.calls.size(), 2u);
  EXPECT_EQ(sink.calls[0].pass, 0u);
  EXPECT_FALSE(sink.calls[0].threw);
}

TEST_F(RecorderTest, LanesCountThreadsPerPass) {
  const auto lane_of_new_thread = [&] {
    uint32_t lane = 99;
    std::thread([&] { lane = recorder.Lane(); }).join();
    return lane;
  };
  EXPECT_EQ(lane_of_new_thread(), 0u);
  EXPECT_EQ(recorder.Lane(), 1u);
  EXPECT_EQ(recorder.Lane(), 1u);
  EXPECT_EQ(lane_of_new_thread(), 2u);
  gate.pass = 1;
  EXPECT_EQ(recorder.Lane(), 0u);
}

TEST_F(RecorderTest, ARecorderAtTheSameAddressStartsAfresh) {
  alignas(Recorder) std::byte room[sizeof(Recorder)];
  for (int i = 0; i < 2; ++i) {
    auto* other = new (room) Recorder(&gate, &operators, &plan, &sink, &clock);
    Recorder::CallScope scope;
    ASSERT_TRUE(other->Begin(1, nullptr, Phase::kForward, false, &scope));
    EXPECT_EQ(scope.call.index, 0u);
    EXPECT_EQ(scope.call.parent, 0u);
    other->~Recorder();
  }
}

}  // namespace
}  // namespace tdump
