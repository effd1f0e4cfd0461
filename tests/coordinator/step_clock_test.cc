#include "coordinator/step_clock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "io/manifest_reader.h"

namespace tdump::coordinator {
namespace {

// Notes what the clock does to the passes.
class FakePasses : public io::PassControl {
 public:
  void open_pass(const io::PassInfo& info) noexcept override {
    opened.push_back(info);
    backward = false;
  }
  void close_pass() noexcept override { ++closed; }
  bool has_backward() noexcept override { return backward; }
  std::vector<io::PassInfo> opened;
  int closed = 0;
  bool backward = false;  // of the open pass
};

class FakeActivator : public Activator {
 public:
  Activation Activate(const Boundary& boundary, ClockSession* session) override {
    asked.push_back(boundary.kind);
    *session = this->session;
    return answer;
  }
  void Joined(const Boundary& boundary) override { joined.push_back(boundary.rank); }
  void FirstStep(const std::string& rule) override { rules.push_back(rule); }
  bool RanInForkedChild(const Boundary& boundary) override {
    forked.push_back(boundary.kind);
    return boundary.kind != BoundaryKind::kFirstOperator;
  }
  std::vector<BoundaryKind> asked, forked;
  std::vector<int> joined;
  std::vector<std::string> rules;
  ClockSession session;
  Activation answer = Activation::kActive;
};

class StepClockTest : public testing::Test {
 protected:
  StepClockTest() {
    activator.session.identity.rank = 3;
    activator.session.identity.world = 4;
    activator.session.passes = &passes;
    options.rule = *ParseStepRule("auto");
    options.report = [this](const std::string& text) { lines.push_back(text); };
  }
  StepClock& clock() {
    if (!clock_) clock_ = std::make_unique<StepClock>(&gate, &activator, options);
    return *clock_;
  }
  void Root(bool grad = false) {
    clock().boundary(
        {.kind = BoundaryKind::kRootBegin, .instance = 1, .grad_enabled = grad, .cls = "Net"});
    armed.push_back(gate.armed());
    clock().boundary({.kind = BoundaryKind::kRootEnd, .instance = 1});
  }
  void Tell(BoundaryKind kind, int64_t number = -1) {
    clock().boundary({.kind = kind, .name = "AdamW", .number = number});
  }

  Gate gate;
  FakePasses passes;
  FakeActivator activator;
  StepClockOptions options;
  std::vector<std::string> lines;
  std::vector<bool> armed;  // the gate during each root call

 private:
  std::unique_ptr<StepClock> clock_;
};

struct Numbers {
  uint64_t ordinal, local, of_mode;
  StepMode mode;
  bool operator==(const Numbers&) const = default;
};
void PrintTo(const Numbers& n, std::ostream* out) {
  *out << n.ordinal << " local " << n.local << " " << ToString(n.mode) << " " << n.of_mode;
}
std::vector<Numbers> NumbersOf(const FakePasses& passes) {
  std::vector<Numbers> result;
  for (const io::PassInfo& info : passes.opened) {
    result.push_back({info.ordinal, info.local_step, info.mode_step, info.mode});
  }
  return result;
}

// 1 evaluation, 2 train steps of 2
// micro-batches, 2 evaluations, 1 train step.
TEST_F(StepClockTest, ModesHaveTheirOwnCounters) {
  Root();
  Tell(BoundaryKind::kOptimizerCreated);
  for (int step = 0; step < 2; ++step) {
    Root(true);
    EXPECT_EQ(gate.micro, 0u);
    Root(true);
    EXPECT_EQ(gate.micro, 1u);
    Tell(BoundaryKind::kOptimizerStep);
  }
  Root();
  Root();
  Root(true);
  Root(true);
  Tell(BoundaryKind::kOptimizerStep);
  Tell(BoundaryKind::kExit);
  const std::vector<Numbers> expected = {{0, 0, 0, StepMode::kEval},  {1, 1, 0, StepMode::kTrain},
                                         {2, 2, 1, StepMode::kTrain}, {3, 3, 1, StepMode::kEval},
                                         {4, 4, 2, StepMode::kEval},  {5, 5, 2, StepMode::kTrain}};
  EXPECT_EQ(NumbersOf(passes), expected);
  EXPECT_EQ(passes.closed, 1);
  EXPECT_EQ(clock().counts().steps, 6u);
}

// 3 train, 2 eval, 1 train: steps 0..5, of their mode 0..2, 0..1, 3.
TEST_F(StepClockTest, TrainEvalTrain) {
  Tell(BoundaryKind::kOptimizerCreated);
  const auto train = [&] {
    Root(true);
    Tell(BoundaryKind::kOptimizerStep);
  };
  for (int i = 0; i < 3; ++i) train();
  Root();
  Root();
  train();
  const std::vector<Numbers> expected = {{0, 0, 0, StepMode::kTrain}, {1, 1, 1, StepMode::kTrain},
                                         {2, 2, 2, StepMode::kTrain}, {3, 3, 0, StepMode::kEval},
                                         {4, 4, 1, StepMode::kEval},  {5, 5, 3, StepMode::kTrain}};
  EXPECT_EQ(NumbersOf(passes), expected);
}

TEST_F(StepClockTest, OnlySelectedStepsOpenAPass) {
  options.select = *Spec::Parse("2-3,5");
  for (int i = 0; i < 7; ++i) Root();
  EXPECT_EQ(armed, (std::vector<bool>{0, 0, 1, 1, 0, 1, 0}));
  const std::vector<Numbers> expected = {
      {0, 2, 2, StepMode::kEval}, {1, 3, 3, StepMode::kEval}, {2, 5, 5, StepMode::kEval}};
  EXPECT_EQ(NumbersOf(passes), expected);
  EXPECT_EQ(passes.closed, 2);  // after 3 and after 5; 3 closes 2 by opening
}

TEST_F(StepClockTest, GateStepIsRelativeToTheFirstSelected) {
  options.select = *Spec::Parse("2-3");
  std::vector<uint64_t> relative;
  for (int i = 0; i < 4; ++i) {
    Root();
    if (gate.armed()) relative.push_back(gate.step);
  }
  EXPECT_EQ(relative, (std::vector<uint64_t>{0, 1}));
}

TEST_F(StepClockTest, SkippedStepsHaveNoNumber) {
  options.skip = 2;
  for (int i = 0; i < 4; ++i) Root();
  EXPECT_EQ(armed, (std::vector<bool>{0, 0, 1, 1}));
  EXPECT_EQ(passes.opened[0].local_step, 0u);
  EXPECT_EQ(clock().counts().steps, 2u);
}

TEST_F(StepClockTest, FirstMovesTheNumbers) {
  options.first = 41200;
  options.select = *Spec::Parse("41201-41202");
  for (int i = 0; i < 4; ++i) Root();
  ASSERT_EQ(passes.opened.size(), 2u);
  EXPECT_EQ(passes.opened[0].local_step, 1u);
  EXPECT_EQ(passes.opened[0].job_step, 41201);
  EXPECT_EQ(passes.opened[1].job_step, 41202);
}

TEST_F(StepClockTest, TheJobsOwnNumberIsSelectedBy) {
  options.rule = *ParseStepRule("explicit");
  options.select = *Spec::Parse("71-72");
  for (int step = 70; step < 74; ++step) {
    Tell(BoundaryKind::kExplicit, step);
    Root();
  }
  ASSERT_EQ(passes.opened.size(), 2u);
  EXPECT_EQ(passes.opened[0].job_step, 71);
  EXPECT_EQ(passes.opened[0].local_step, 1u);
  EXPECT_EQ(passes.opened[1].job_step, 72);
}

TEST_F(StepClockTest, AnExplicitStepBeforeTheFirstOperatorCounts) {
  Tell(BoundaryKind::kExplicit, 5);
  EXPECT_TRUE(activator.asked.empty());  // nothing exists before the first operator
  Tell(BoundaryKind::kFirstOperator);
  ASSERT_EQ(passes.opened.size(), 1u);
  EXPECT_EQ(passes.opened[0].job_step, 5);
  EXPECT_TRUE(gate.armed());
}

TEST_F(StepClockTest, OnlySelectedMicroBatchesAreArmed) {
  options.micro = *Spec::Parse("1");
  Tell(BoundaryKind::kOptimizerCreated);
  for (int i = 0; i < 3; ++i) Root(true);
  EXPECT_EQ(armed, (std::vector<bool>{0, 1, 0}));
  EXPECT_EQ(passes.opened.size(), 1u);
}

TEST_F(StepClockTest, ARankThatIsNotSelectedCountsButOpensNothing) {
  activator.session.selected = false;
  for (int i = 0; i < 3; ++i) Root();
  EXPECT_TRUE(passes.opened.empty());
  EXPECT_EQ(clock().counts().steps, 3u);
  EXPECT_EQ(gate.state, GateState::kIdle);
}

TEST_F(StepClockTest, ActivatesOnceAtTheFirstBoundary) {
  Tell(BoundaryKind::kOptimizerCreated);  // says nothing about operators
  EXPECT_EQ(gate.state, GateState::kDormant);
  Root();
  Root();
  EXPECT_EQ(activator.asked, std::vector<BoundaryKind>{BoundaryKind::kRootBegin});
}

TEST_F(StepClockTest, AnInertProcessIsAskedAgainWhenItJoinsAGroup) {
  activator.answer = Activation::kLater;
  Root();
  Root();
  EXPECT_EQ(activator.asked.size(), 1u);
  EXPECT_EQ(gate.state, GateState::kIdle);
  activator.answer = Activation::kActive;
  clock().boundary({.kind = BoundaryKind::kProcessGroup, .rank = 3, .world = 4});
  Root();
  EXPECT_EQ(activator.asked.size(), 2u);
  EXPECT_EQ(passes.opened.size(), 1u);
  EXPECT_EQ(passes.opened[0].rank, 3);
}

TEST_F(StepClockTest, NeverMeansOff) {
  activator.answer = Activation::kNever;
  Root();
  EXPECT_TRUE(gate.off());
  Root();
  EXPECT_EQ(activator.asked.size(), 1u);
}

TEST_F(StepClockTest, AGroupThatAnActiveProcessJoinsIsTold) {
  Root();
  EXPECT_TRUE(activator.joined.empty());
  clock().boundary({.kind = BoundaryKind::kProcessGroup, .rank = 1, .world = 2});
  EXPECT_EQ(activator.joined, std::vector<int>{1});
}

TEST_F(StepClockTest, TheRuleIsToldOnceWhenTheFirstStepBegins) {
  Tell(BoundaryKind::kMpiInit);
  EXPECT_TRUE(activator.rules.empty());
  Root();
  Root();
  EXPECT_EQ(activator.rules, std::vector<std::string>{"forward (Net), gradients off"});
}

TEST_F(StepClockTest, TheOptimizerIsTheRuleWhereTheJobHasOne) {
  Tell(BoundaryKind::kOptimizerCreated);
  Root(true);
  EXPECT_EQ(activator.rules, std::vector<std::string>{"optimizer (AdamW)"});
}

TEST_F(StepClockTest, AJobWithoutABoundaryIsTold) {
  options.rule = *ParseStepRule("explicit");
  Root();
  Tell(BoundaryKind::kExit);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("no step boundary was seen"), std::string::npos);
  EXPECT_TRUE(passes.opened.empty());
}

// The status with which the process ended in its last pass, 0 where that was over.
TEST_F(StepClockTest, AProcessThatFailsBeforeTheOptimizerSteppedLeavesAStepOpen) {
  Tell(BoundaryKind::kOptimizerCreated);
  Root(true);
  Tell(BoundaryKind::kOptimizerStep);
  Root(true);
  Tell(BoundaryKind::kExit, 1);
  EXPECT_EQ(clock().counts().failed, 1);
}

TEST_F(StepClockTest, AProcessThatFailsAfterTheOptimizerSteppedLeavesNone) {
  Tell(BoundaryKind::kOptimizerCreated);
  Root(true);
  Tell(BoundaryKind::kOptimizerStep);
  Tell(BoundaryKind::kExit, 1);
  EXPECT_EQ(clock().counts().failed, 0);
}

TEST_F(StepClockTest, AProcessThatFailsWhereOnlyCallsMarkStepsMayLeaveOneOpen) {
  Root();
  Tell(BoundaryKind::kExit, 7);
  EXPECT_EQ(clock().counts().failed, 7);
}

TEST_F(StepClockTest, AProcessThatFailsInAStepThatIsNotSelectedLeavesNone) {
  options.select = *Spec::Parse("0");
  Root();
  Root();
  Tell(BoundaryKind::kExit, 1);
  EXPECT_EQ(clock().counts().failed, 0);
}

TEST_F(StepClockTest, AProcessThatSucceedsLeavesNone) {
  Root();
  Tell(BoundaryKind::kExit, 0);
  EXPECT_EQ(clock().counts().failed, 0);
  EXPECT_FALSE(clock().counts().undone);
}

// An exception that the job catches: the step ends as any other, and the manifest says what is
// missing in it. Behind three of them one note stands for the rest.
TEST_F(StepClockTest, CallsThatAnExceptionLeftAreNoted) {
  const auto env = NewMemoryEnv();
  auto manifest = io::ManifestWriter::Create(env.get(), "manifest.tdm", {});
  ASSERT_TRUE(manifest.ok());
  activator.session.manifest = manifest->get();
  options.select = *Spec::Parse("1-9");
  const auto root = [&](uint32_t left) {
    clock().boundary({.kind = BoundaryKind::kRootBegin, .instance = 1, .cls = "Net"});
    clock().boundary({.kind = BoundaryKind::kRootEnd, .instance = 1, .left = left});
  };
  for (const uint32_t left : {5u, 2u, 0u, 1u, 1u, 3u, 3u, 0u}) root(left);
  Tell(BoundaryKind::kExit, 0);
  EXPECT_FALSE(clock().counts().undone);
  io::ProcessEntry process;
  io::ReadManifest(env.get(), "manifest.tdm", &process);
  std::vector<std::string> notes;
  for (const io::NoteSection& note : process.notes) {
    EXPECT_EQ(note.level, 1);
    notes.push_back(note.text);
  }
  const std::string behind = " and the job went on; what they had not done is missing";
  EXPECT_EQ(notes, (std::vector<std::string>{
                       "step 1: an exception left 2 module calls" + behind,
                       "step 3: an exception left 1 module call" + behind,
                       "step 4: an exception left 1 module call" + behind,
                       "an exception left module calls in 2 further steps, the last one 6"}));
}

// Nothing tells whether the job had more to do in it: sys.exit(0) in forward leaves the same.
TEST_F(StepClockTest, CallsThatAnExceptionLeftInTheLastStepMakeItUndone) {
  const auto env = NewMemoryEnv();
  auto manifest = io::ManifestWriter::Create(env.get(), "manifest.tdm", {});
  ASSERT_TRUE(manifest.ok());
  activator.session.manifest = manifest->get();
  Root();
  clock().boundary({.kind = BoundaryKind::kRootBegin, .instance = 1, .cls = "Net"});
  clock().boundary({.kind = BoundaryKind::kRootEnd, .instance = 1, .left = 2});
  Tell(BoundaryKind::kExit, 0);
  EXPECT_TRUE(clock().counts().undone);
  io::ProcessEntry process;
  io::ReadManifest(env.get(), "manifest.tdm", &process);
  ASSERT_EQ(process.notes.size(), 1u);
  EXPECT_EQ(process.notes[0].text,
            "step 1: an exception left 2 module calls; what they had not done is missing");
}

TEST_F(StepClockTest, CallsThatAnExceptionLeftBeforeTheOptimizerSteppedAreNotUndone) {
  Tell(BoundaryKind::kOptimizerCreated);
  clock().boundary(
      {.kind = BoundaryKind::kRootBegin, .instance = 1, .grad_enabled = true, .cls = "Net"});
  clock().boundary({.kind = BoundaryKind::kRootEnd, .instance = 1, .left = 2});
  Tell(BoundaryKind::kOptimizerStep);
  Tell(BoundaryKind::kExit, 0);
  EXPECT_FALSE(clock().counts().undone);
}

TEST_F(StepClockTest, CallsThatTheEndOfAThreadLeftAreNotPutDownToAnException) {
  const auto env = NewMemoryEnv();
  auto manifest = io::ManifestWriter::Create(env.get(), "manifest.tdm", {});
  ASSERT_TRUE(manifest.ok());
  activator.session.manifest = manifest->get();
  const auto root = [&](int64_t thread_ended) {
    clock().boundary({.kind = BoundaryKind::kRootBegin, .instance = 1, .cls = "Net"});
    clock().boundary(
        {.kind = BoundaryKind::kRootEnd, .instance = 1, .number = thread_ended, .left = 2});
  };
  root(1);
  root(-1);
  Root();
  io::ProcessEntry process;
  io::ReadManifest(env.get(), "manifest.tdm", &process);
  ASSERT_EQ(process.notes.size(), 2u);
  EXPECT_TRUE(process.notes[0].text.starts_with("step 0: the end of a thread left 2 module calls"));
  EXPECT_TRUE(process.notes[1].text.starts_with("step 1: an exception left 2 module calls"));
}

TEST_F(StepClockTest, ABackwardThatAnExceptionLeftIsNotedAndUndoneInTheLastStep) {
  const auto env = NewMemoryEnv();
  auto manifest = io::ManifestWriter::Create(env.get(), "manifest.tdm", {});
  ASSERT_TRUE(manifest.ok());
  activator.session.manifest = manifest->get();
  options.select = *Spec::Parse("1-9");
  const auto step = [&](uint32_t left) {
    clock().boundary({.kind = BoundaryKind::kRootBegin, .instance = 1, .cls = "Net"});
    clock().boundary({.kind = BoundaryKind::kRootEnd, .instance = 1, .left = left});
    Tell(BoundaryKind::kBackwardLeft);
    Tell(BoundaryKind::kBackwardLeft);  // of one within the other
  };
  for (const uint32_t left : {0u, 0u, 1u, 0u, 0u, 0u}) step(left);
  Tell(BoundaryKind::kExit, 0);
  EXPECT_TRUE(clock().counts().undone);
  io::ProcessEntry process;
  io::ReadManifest(env.get(), "manifest.tdm", &process);
  std::vector<std::string> notes;
  for (const io::NoteSection& note : process.notes) notes.push_back(note.text);
  const std::string went_on = " and the job went on; what ";
  EXPECT_EQ(notes,
            (std::vector<std::string>{
                "step 1: an exception left a backward" + went_on + "it had not done is missing",
                "step 2: an exception left 1 module call and a backward" + went_on +
                    "they had not done is missing",
                "step 3: an exception left a backward" + went_on + "it had not done is missing",
                "an exception left a backward in 2 further steps, the last one 5"}));
}

// An exception ended the other thread within its call, in step 0.
TEST_F(StepClockTest, ACallOfAnEarlierStepThatDidNotReturnLeavesTheLastOneWhole) {
  options.rule = *ParseStepRule("explicit");
  Tell(BoundaryKind::kExplicit);
  std::thread([this] {
    clock().boundary({.kind = BoundaryKind::kRootBegin, .instance = 1, .cls = "Net"});
  }).join();
  Tell(BoundaryKind::kExplicit);
  Root();
  Tell(BoundaryKind::kExit, 0);
  EXPECT_FALSE(clock().counts().undone);
}

TEST_F(StepClockTest, AnOutermostCallThatDidNotReturnIsUndoneThoughTheProcessSucceeds) {
  Root();
  clock().boundary({.kind = BoundaryKind::kRootBegin, .instance = 1, .cls = "Net"});
  Tell(BoundaryKind::kExit, 0);
  EXPECT_TRUE(clock().counts().undone);
}

// What a job leaves that catches an exception in backward.
TEST_F(StepClockTest, ABackwardWithoutAnOptimizersStepIsUndoneThoughTheProcessSucceeds) {
  Tell(BoundaryKind::kOptimizerCreated);
  Root(true);
  passes.backward = true;
  Tell(BoundaryKind::kOptimizerStep);
  Root(true);
  passes.backward = true;
  Tell(BoundaryKind::kExit, 0);
  EXPECT_TRUE(clock().counts().undone);
  EXPECT_EQ(clock().counts().failed, 0);
}

TEST_F(StepClockTest, AStepOfTrainingWithoutABackwardIsNotUndone) {
  Tell(BoundaryKind::kOptimizerCreated);
  Root(true);
  passes.backward = true;
  Tell(BoundaryKind::kOptimizerStep);
  Root(true);  // a forward for a look at the loss
  Tell(BoundaryKind::kExit, 0);
  EXPECT_FALSE(clock().counts().undone);
}

TEST_F(StepClockTest, ABackwardThatAnOptimizerFollowedIsNotUndone) {
  clock().boundary({.kind = BoundaryKind::kOptimizerCreated, .instance = 0});
  Root(true);
  passes.backward = true;
  clock().boundary({.kind = BoundaryKind::kOptimizerStep, .instance = 1});  // not the first one
  Tell(BoundaryKind::kExit, 0);
  EXPECT_FALSE(clock().counts().undone);
}

TEST_F(StepClockTest, ABackwardWhereOnlyCallsMarkStepsIsNotUndone) {
  Root(true);
  passes.backward = true;
  Tell(BoundaryKind::kExit, 0);
  EXPECT_FALSE(clock().counts().undone);
}

TEST_F(StepClockTest, AForkedChildRecordsNothing) {
  Root();
  clock().AfterFork();
  EXPECT_EQ(gate.state, GateState::kIdle);
  Root();
  EXPECT_EQ(passes.opened.size(), 1u);
  EXPECT_EQ(activator.asked.size(), 1u);
  Root();
  EXPECT_EQ(activator.forked, std::vector{BoundaryKind::kRootBegin});  // told once
}

TEST_F(StepClockTest, AForkedChildOfADormantProcessIsHeardUntilItIsUnderstood) {
  clock().AfterFork();
  EXPECT_EQ(gate.state, GateState::kDormant);
  Tell(BoundaryKind::kFirstOperator);
  EXPECT_EQ(gate.state, GateState::kIdle);
  Tell(BoundaryKind::kOptimizerStep);
  Root();
  Root();
  EXPECT_EQ(activator.forked,
            (std::vector{BoundaryKind::kFirstOperator, BoundaryKind::kRootBegin}));
  EXPECT_TRUE(activator.asked.empty());
}

// What the agreement hears: equal shapes for equal steps, other shapes where a
// call more or another mode was seen.
class FakeAgreement : public StepAgreement {
 public:
  void Ended(const EndedStep& step) noexcept override { steps.push_back(step); }
  uint64_t NumberOf(uint64_t local) noexcept override {
    return local < shift ? local : local - shift;
  }
  void Began(uint64_t number) noexcept override { began.push_back(number); }
  void Close() noexcept override { ++closed; }
  std::vector<EndedStep> steps;
  std::vector<uint64_t> began;
  uint64_t shift = 0;
  int closed = 0;
};

TEST_F(StepClockTest, TheAgreementHearsEveryStep) {
  FakeAgreement agreement;
  activator.session.agreement = &agreement;
  options.select = *Spec::Parse("1");
  Root();
  Root();
  Tell(BoundaryKind::kOptimizerCreated);
  Root(true);
  Tell(BoundaryKind::kOptimizerStep);
  Root(true);
  Root(true);
  Tell(BoundaryKind::kExit);
  ASSERT_EQ(agreement.steps.size(), 4u);
  EXPECT_EQ(agreement.steps[0].shape, agreement.steps[1].shape);
  EXPECT_NE(agreement.steps[1].shape, agreement.steps[2].shape);  // eval, train
  EXPECT_NE(agreement.steps[2].shape, agreement.steps[3].shape);  // 1 micro-batch, 2
  EXPECT_FALSE(agreement.steps[0].recorded);
  EXPECT_TRUE(agreement.steps[1].recorded);
  EXPECT_EQ(agreement.closed, 1);
}

TEST_F(StepClockTest, AgreedNumbersSelect) {
  FakeAgreement agreement;
  agreement.shift = 1;
  activator.session.agreement = &agreement;
  options.select = *Spec::Parse("1-2");
  for (int i = 0; i < 5; ++i) Root();
  ASSERT_EQ(passes.opened.size(), 2u);
  EXPECT_EQ(passes.opened[0].local_step, 2u);
  EXPECT_EQ(passes.opened[1].local_step, 3u);
}

TEST_F(StepClockTest, TheAgreementHearsTheNumbersOfTheJob) {
  FakeAgreement agreement;
  agreement.shift = 1;
  activator.session.agreement = &agreement;
  for (const int64_t number : {100, 107, -1}) {
    Tell(BoundaryKind::kExplicit, number);
    Tell(BoundaryKind::kFirstOperator);
  }
  EXPECT_EQ(agreement.began, (std::vector<uint64_t>{100, 107, 1}));
}

TEST_F(StepClockTest, BoundariesFromManyThreads) {
  clock();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i)
        Tell(BoundaryKind::kExplicit), Tell(BoundaryKind::kFirstOperator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(activator.asked.size(), 1u);
  const uint64_t steps = clock().counts().steps;
  EXPECT_EQ(passes.opened.size(), steps);
  EXPECT_GE(steps, 1600u - 8u);  // those before the first operator are one
}

}  // namespace
}  // namespace tdump::coordinator
