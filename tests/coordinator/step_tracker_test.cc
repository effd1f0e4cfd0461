// Jobs written as strings of events, and the steps that must come out. Events, separated by blanks:
//   r     call of the first root, gradients off        R  gradients on       (r2, R2: of root 2)
//   p:x   call of part x by hand, gradients off        P:x  gradients on
//   C     an optimizer is constructed (C1: the second) S  its step
//   B     backward begins
//   x     tdump.step()
//   o     an operator of op:REGEX begins, named "o"
//   f     first operator
// Expected: a letter for each event: the mode (e, t, f, x) where a
// step begins, '.' where none does.
#include "coordinator/step_tracker.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tdump::coordinator {
namespace {

void Fire(StepTracker* tracker, const std::string& event, uint64_t thread, std::string* out,
          std::string* micros) {
  Boundary boundary;
  BoundaryKind end = BoundaryKind::kExit;
  std::string name;
  switch (event[0]) {
    case 'r':
    case 'R':
      boundary.kind = BoundaryKind::kRootBegin;
      boundary.instance = event.size() > 1 ? event[1] - '0' : 1;
      boundary.grad_enabled = event[0] == 'R';
      boundary.cls = "Net";
      end = BoundaryKind::kRootEnd;
      break;
    case 'p':
    case 'P':
      boundary.kind = BoundaryKind::kOutermostBegin;
      name = event.substr(2);
      boundary.grad_enabled = event[0] == 'P';
      end = BoundaryKind::kOutermostEnd;
      break;
    case 'C':
    case 'S':
      boundary.kind =
          event[0] == 'C' ? BoundaryKind::kOptimizerCreated : BoundaryKind::kOptimizerStep;
      boundary.instance = event.size() > 1 ? event[1] - '0' : 0;
      name = boundary.instance == 0 ? "AdamW" : "SGD";
      break;
    case 'B':
      boundary.kind = BoundaryKind::kBackwardBegin;
      break;
    case 'x':
      boundary.kind = BoundaryKind::kExplicit;
      break;
    case 'o':
      boundary.kind = BoundaryKind::kOp;
      name = event;
      break;
    case 'f':
      boundary.kind = BoundaryKind::kFirstOperator;
      break;
  }
  boundary.name = name;
  const StepTracker::Verdict verdict = tracker->Observe(boundary, thread);
  *out += verdict.begins ? std::string(ToString(verdict.mode)).substr(0, 1) : ".";
  *micros += verdict.micro ? "m" : ".";
  if (end != BoundaryKind::kExit) {
    boundary.kind = end;
    tracker->Observe(boundary, thread);
  }
}

struct Job {
  const char* rule;
  const char* events;
  const char* steps;
  const char* why;
};

// "eval" and "explicit" both begin with e.
const Job kJobs[] = {
    {"auto", "r C R R S R R S r r R R S", "e.t..t..eet..",
     "evaluation, 2 train steps of 2, 2 evaluations, 1 train step"},
    {"auto", "C R S R S R S r r R S", ".t.t.t.eet.", "3 train, 2 evaluations, 1 train"},
    {"auto", "r r r", "eee", "inference"},
    {"auto", "R R", "ff", "gradients left on, no optimizer"},
    {"auto", "r r2 r2 r r2", "e..e.", "other roots belong to the step of the first"},
    {"auto", "r2 r r2 r", "e.e.", "which root is first is decided by the calls"},
    {"auto", "r p:head r p:head", "e.e.",
     "a part called after the root belongs to the root's step"},
    {"auto", "p:embed r p:embed r p:embed r", "e..e.e", "a part called before the root, once"},
    {"auto", "p:encoder p:head p:encoder p:head", "e.e.", "only parts are called"},
    {"auto", "C P:encoder P:head S P:encoder P:head S", ".t..t..", "only parts are trained"},
    {"auto", "C R r S", ".t..", "an evaluation inside an open train step belongs to it"},
    {"auto", "C R P:loss S p:metric r", ".t...e", "a metric after the step does not begin another"},
    {"auto", "C r P:loss r R P:loss S", ".e.et..",
     "a loss with gradients on after an evaluation trains nothing"},
    {"auto", "C C1 R S1 S R R2 S1 S", "..t..t...", "the first-constructed optimizer decides"},
    {"auto", "C1 C R S1 R S R", "..t...t", "in whatever order they are told"},
    {"auto", "R S R S", "f.t.", "an optimizer that shows only when it steps"},
    {"auto", "S S", "tt", "operators only: steps begin after the optimizer's"},
    {"auto", "r x r x r", "ee.e.", "tdump.step() makes the rule explicit"},
    {"optimizer", "r R R S r R S R", "t...t..t", "everything between two optimizer steps"},
    {"optimizer", "f S S", "ttt", "operators only"},
    {"backward", "R B R R B R", "t.t..t", "the call after a backward pass"},
    {"forward", "r R C R S r2 r", "ff.f..f",
     "each call of the first root, whatever the optimizer does"},
    {"forward:Critic", "r r2 p:Critic p:Critic", "..ff", "by name"},
    {"forward:Net", "r r2", "ff", "or class"},
    {"op:^o1$", "o1 o2 r o1", "f..f", "matching operators"},
    {"explicit", "r x r r x r", ".e..e.", "tdump.step() only"},
};

TEST(StepTracker, Jobs) {
  for (const Job& job : kJobs) {
    StepTracker tracker(*ParseStepRule(job.rule));
    std::istringstream events(job.events);
    std::string event, steps, micros;
    while (events >> event) Fire(&tracker, event, 1, &steps, &micros);
    EXPECT_EQ(steps, job.steps) << job.rule << ": " << job.events << "  (" << job.why << ")";
  }
}

TEST(StepTracker, MicroBatchesAreCallsOfTheStepsRoot) {
  StepTracker tracker(*ParseStepRule("auto"));
  std::string steps, micros;
  for (const char* event : {"C", "R", "P:loss", "R", "R2", "S", "R"})
    Fire(&tracker, event, 1, &steps, &micros);
  EXPECT_EQ(steps, ".t....t");
  EXPECT_EQ(micros, ".m.m..m");
}

TEST(StepTracker, CallsOfOtherThreadsMeanwhileBelongToTheStep) {
  StepTracker tracker(*ParseStepRule("auto"));
  Boundary call{.kind = BoundaryKind::kRootBegin, .instance = 1};
  EXPECT_TRUE(tracker.Observe(call, 1).begins);
  EXPECT_FALSE(tracker.Observe(call, 2).begins);  // thread 1 is inside
  Boundary end{.kind = BoundaryKind::kRootEnd, .instance = 1};
  tracker.Observe(end, 1);
  EXPECT_FALSE(tracker.Observe(call, 1).begins);  // thread 2 still is
  tracker.Observe(end, 2);
  tracker.Observe(end, 1);
  EXPECT_TRUE(tracker.Observe(call, 2).begins);
}

TEST(StepTracker, AnExceptionThatSwallowsTheEndDoesNotStopTheSteps) {
  StepTracker tracker(*ParseStepRule("auto"));
  Boundary call{.kind = BoundaryKind::kRootBegin, .instance = 1};
  EXPECT_TRUE(tracker.Observe(call, 1).begins);
  EXPECT_TRUE(tracker.Observe(call, 1).begins);
}

TEST(StepTracker, RuleInForce) {
  StepTracker tracker(*ParseStepRule("auto"));
  EXPECT_EQ(tracker.RuleInForce(), "auto");
  std::string steps, micros;
  Fire(&tracker, "r", 1, &steps, &micros);
  EXPECT_EQ(tracker.RuleInForce(), "forward (Net)");
  Fire(&tracker, "C", 1, &steps, &micros);
  EXPECT_EQ(tracker.RuleInForce(), "optimizer (AdamW)");
  StepTracker named(*ParseStepRule("forward:Critic"));
  EXPECT_EQ(named.RuleInForce(), "forward:Critic");
  EXPECT_EQ(StepTracker(*ParseStepRule("explicit")).RuleInForce(), "explicit (tdump.step)");
}

TEST(StepTracker, TheJobsOwnNumberGoesToTheStepThatBegins) {
  StepTracker tracker(*ParseStepRule("optimizer"));
  tracker.Observe({.kind = BoundaryKind::kExplicit, .number = 41230}, 1);
  EXPECT_EQ(tracker.Observe({.kind = BoundaryKind::kRootBegin, .instance = 1}, 1).number, 41230);
  tracker.Observe({.kind = BoundaryKind::kOptimizerStep}, 1);
  EXPECT_EQ(tracker.Observe({.kind = BoundaryKind::kRootBegin, .instance = 1}, 1).number, -1);
}

}  // namespace
}  // namespace tdump::coordinator
