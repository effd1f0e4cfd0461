#include "coordinator/coverage_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/closing.h"
#include "coordinator/coverage.h"
#include "coordinator/merge_here.h"
#include "coordinator/slot_file.h"
#include "tests/coordinator/run_image.h"

namespace tdump::coordinator {
namespace {

using test::ProcessImage;
using ::testing::HasSubstr;
using ::testing::Not;

class CoverageTest : public ::testing::Test {
 protected:
  CoverageTest() : env_(NewMemoryEnv()) {}

  std::string Text(const CoverageOptions& options = {.shown = "latest"}) {
    const auto store = io::PassStore::Open(env_.get(), "run");
    EXPECT_TRUE(store.ok());
    return CoverageText(**store, BuildRunIndex(**store, Generations(**store).back()), options);
  }

  std::unique_ptr<Env> env_;
};

TEST_F(CoverageTest, ACleanRunIsFourLines) {
  for (int rank : {0, 1}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 2});
    process.Expect("l.0.drop").Expect("l.1.drop").Expect("a");
    process.Pass(0).Pass(1).Map(0, 0, 1).Map(1, 1, 1).Map(2, 2, 1);
    process.Add(io::AgreementSection{"file", 1, {}}).Exit(3);
  }
  const std::string text = Text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_THAT(text, HasSubstr("tdump: COMPLETE  latest = run  "));
  EXPECT_THAT(text, HasSubstr("  steps      0-1 written (2 of 3 seen); 0-2 agreed on all 2 ranks "
                              "(transport file, lag 1 step)\n"));
  EXPECT_THAT(text, HasSubstr("  ranks      2 of 2 wrote all 2 steps; operators: 3 selected, 1 "
                              "seen, 1 complete on every rank; never called: l.{0-1}.drop\n"));
  EXPECT_THAT(text, HasSubstr("  next       tdump-view latest --names    |    tdump-diff BASE "
                              "latest\n"));
}

TEST_F(CoverageTest, NamesWhatSomeRanksCalledAndOthersDidNot) {
  for (const int rank : {0, 1, 2, 3}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 4});
    process.Expect("a").Expect("b").Expect("l.0.up").Expect("l.1.up");
    if (rank == 1)
      process.Pass(0, {"a"});
    else
      process.Pass(0, {"a", "b", "l.0.up", "l.1.up"});
    process.Exit(1);
  }
  EXPECT_THAT(Text(), HasSubstr("4 selected, 4 seen, 1 complete on every rank; called on ranks "
                                "0,2-3 of 4 only: b, l.{0-1}.up\n"));
}

// A rank that was killed may not have come to it; and rules select on some ranks.
TEST_F(CoverageTest, WhatAKilledRankDidNotCallIsNotNamed) {
  ProcessImage on(env_.get(), "run", {.rank = 0, .world = 3});
  on.Expect("a").Expect("b").Expect("c").Pass(0, {"a", "b", "c"}).Exit(1);
  ProcessImage killed(env_.get(), "run", {.rank = 1, .world = 3});
  killed.Expect("a").Expect("b").Pass(0, {"a"});
  ProcessImage less(env_.get(), "run", {.rank = 2, .world = 3});
  less.Expect("a").Pass(0, {"a"}).Exit(1);
  EXPECT_THAT(Text(), Not(HasSubstr("only: ")));
}

TEST_F(CoverageTest, SaysWhatBecameOfEachRank) {
  ProcessImage whole(env_.get(), "run", {.rank = 0, .world = 6});
  whole.Pass(0).Pass(1).Exit(2);
  ProcessImage early(env_.get(), "run", {.rank = 1, .world = 6});
  early.Pass(0).Exit(1);
  ProcessImage killed(env_.get(), "run", {.rank = 2, .world = 6, .host = "node7"});
  killed.Pass(0).TornPass(1, {"a"}, 100);
  ProcessImage idle(env_.get(), "run", {.rank = 3, .world = 6, .selected = false});
  idle.Exit(2);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("tdump: INCOMPLETE  latest"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "  ranks      1 of 3 selected (ranks 0-2 of 6 in the job) wrote all 2 steps; rank 1 "
          "ended after step 0 (exit); rank 2 killed or still running on node7 in "
          "step 1; ranks 4-5 never started\n"));
  EXPECT_THAT(text, HasSubstr("next       tdump-view latest --coverage"));
}

// Rank 1 was killed in step 2, after its first operator; rank 0 went on.
TEST_F(CoverageTest, AStepThatOneRankWroteInPartIsNotWrittenAndItsOperatorsAreNotComplete) {
  ProcessImage on(env_.get(), "run", {.rank = 0, .world = 2});
  ProcessImage killed(env_.get(), "run", {.rank = 1, .world = 2});
  for (ProcessImage* process : {&on, &killed})
    process->Expect("a").Expect("b").Expect("drop").Pass(0, {"a", "b"}).Pass(1, {"a", "b"});
  on.Expect("head").Pass(2, {"a", "b", "head"}).Pass(3, {"a", "b", "head"}).Exit(4);
  killed.TornPass(2, {"a", "b"}, 100);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("  steps      0-1 written (2 of 4 seen); 2-3 whole on 1 of 2 ranks; "
                              "not agreed"));
  EXPECT_THAT(text,
              HasSubstr("  operators  4 selected, 3 seen, 1 complete on every rank, 2 more in "
                        "steps 0-1; never called: drop\n"));
}

// The disk was full from step 1 on, and steps 2 and 3 were not tried any more.
TEST_F(CoverageTest, StepsThatWereToBeRecordedAndHaveNoPassAreTold) {
  for (const int rank : {0, 1}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 2});
    process.Expect("a").Pass(0).Map(0, 0, 1 | 4);
    if (rank == 0) {
      io::PassDoneSection failed;
      failed.ordinal = failed.local_step = 1;
      failed.error = "no space";
      process.Add(failed);
      // Its file was made, and not a byte written to it.
      ASSERT_TRUE(
          WriteFileAtomically(env_.get(), process.directory() + "/pass00001.tdp.part", "", 0600)
              .ok());
    } else {
      process.Pass(1).Pass(2).Pass(3);
    }
    // Step 4 was not to be recorded.
    process.Map(1, 1, 1 | 4).Map(2, 2, 1 | 4).Map(3, 3, 4).Map(4, 4, 1).Exit(5);
  }
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("  steps      0 written (1 of 5 seen); 1-3 whole on 1 of 2 ranks; "
                              "nothing of 2-3 on 1 rank;"));
  EXPECT_THAT(text, HasSubstr("rank 0 could not write all in step 1, nothing of 2-3\n"));
  EXPECT_THAT(text, HasSubstr("0 complete on every rank, 1 more in step 0\n"));
  const auto store = io::PassStore::Open(env_.get(), "run");
  EXPECT_THAT(BuildRunIndex(**store, 0).holes,
              ::testing::ElementsAre("rank 0, step 1: no space",
                                     "rank 0, steps 2-3: to be recorded, and nothing was"));
}

// Its last step map entry says that step 1 was over, so that step 2 had begun.
TEST_F(CoverageTest, AKilledRankWasInTheStepBehindTheLastOneThatEnded) {
  ProcessImage killed(env_.get(), "run", {.rank = 0, .world = 1, .host = "node7"});
  killed.Pass(0).Map(0, 0, 1 | 4).TornPass(1, {"a"}, 100);
  EXPECT_THAT(Text(), HasSubstr("rank 0 killed or still running on node7 in step 1\n"));
  killed.Map(1, 1, 1 | 4);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("0 written (1 of 3 seen); 1 not whole\n"));
  EXPECT_THAT(text, HasSubstr("rank 0 killed or still running on node7 in step 2 with step 1 not "
                              "whole\n"));
  const auto store = io::PassStore::Open(env_.get(), "run");
  EXPECT_THAT(BuildRunIndex(**store, 0).holes.front(),
              HasSubstr("wrote no closing record: killed or still running, last step 2"));
}

TEST_F(CoverageTest, TheSlotFileTellsHowFarAKilledRankWas) {
  ProcessImage killed(env_.get(), "run", {.rank = 0, .world = 1});
  killed.Pass(0).TornPass(1, {"a"}, 100);
  ASSERT_TRUE(env_->MakeDirs("run/clock", 0700).ok());
  SlotWriter slot(env_.get(), *env_->CreateExclusive(SlotPath("run", killed.name()), 0600),
                  MakeSlotHeader({}, 0, 1));
  const auto last_step = [&] {
    const auto store = io::PassStore::Open(env_.get(), "run");
    return BuildRunIndex(**store, 0, MergeOptionsHere(env_.get())).ranks[0].last_step;
  };
  EXPECT_EQ(last_step(), 1u);
  ASSERT_TRUE(slot.Flush(7, 0).ok());
  EXPECT_EQ(last_step(), 7u);
  ASSERT_TRUE(slot.SetState(SlotState::kExiting).ok());
  EXPECT_EQ(last_step(), 1u);
}

// It has no configuration that says whether it was to record: what all the others do, it is taken
// to.
TEST_F(CoverageTest, ARankThatNeverStartedCounts) {
  ProcessImage(env_.get(), "run", {.rank = 0, .world = 2}).Pass(0).Exit(1);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("none written on every rank (0 of 1 seen); 0 whole on 1 of 2 ranks"));
  EXPECT_THAT(text, HasSubstr("  ranks      1 of 2 wrote all 1 step; rank 1 never started\n"));
}

TEST_F(CoverageTest, OfOneRankAStepIsWholeOrNot) {
  ProcessImage killed(env_.get(), "run", {.rank = 0, .world = 1});
  killed.TornPass(0, {"a"}, 100);
  EXPECT_THAT(Text(), HasSubstr("  steps      0 begun, none whole (1 seen)\n"));
  killed.Expect("a").Pass(1).TornPass(2, {"a"}, 100);
  EXPECT_THAT(Text(), HasSubstr("  steps      1 written (1 of 3 seen); 0,2 not whole\n"));
  EXPECT_THAT(Text(), HasSubstr("0 complete on every rank, 1 more in step 1\n"));
}

TEST_F(CoverageTest, AStepThatNoRankEndedIsOnNoRank) {
  for (int rank : {0, 1}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 2});
    process.Pass(0).TornPass(1, {"a"}, 100);
  }
  EXPECT_THAT(Text(), HasSubstr("0 written (1 of 2 seen); 1 whole on no rank;"));
}

TEST_F(CoverageTest, ARunWithoutAPassIsNotComplete) {
  ProcessImage others(env_.get(), "run", {.selected = false});
  others.Exit(2);
  EXPECT_THAT(Text(),
              HasSubstr("tdump: INCOMPLETE  latest = run\n  steps      none written (0 of 2 "));
  EXPECT_THAT(Text(), HasSubstr("  ranks      none of 1 rank is selected (ranks), so nothing was "
                                "written; operators: none selected was seen\n"));
  const auto holes = [&](const std::string& run) {
    const auto store = io::PassStore::Open(env_.get(), run);
    EXPECT_TRUE(store.ok());
    return BuildRunIndex(**store, 0).holes;
  };
  EXPECT_THAT(holes("run"), ::testing::ElementsAre("nothing was written: `ranks` selects none of "
                                                   "1 rank"));
  ProcessImage(env_.get(), "idle", {}).Exit(2);
  EXPECT_THAT(holes("idle"), ::testing::ElementsAre("nothing was written: no selected step began"));
}

TEST_F(CoverageTest, ARunThatWasToWriteNothingIsComplete) {
  ProcessImage rank0(env_.get(), "run", {.rank = 0, .world = 2});
  ProcessImage rank1(env_.get(), "run", {.rank = 1, .world = 2});
  rank0.Add(io::NoteSection{0, 1, std::string(kNoStepAsked)}).Exit(2);
  rank1.Exit(2);
  EXPECT_THAT(Text(), HasSubstr("tdump: INCOMPLETE"));  // rank 1 was to write something
  rank1.Add(io::NoteSection{0, 1, std::string(kNoStepAsked)});
  EXPECT_THAT(Text(),
              HasSubstr("tdump: COMPLETE  latest = run\n  steps      none written (0 of 2 "));
  EXPECT_THAT(Text(), HasSubstr("  notes      ranks 0-1: no step is selected (steps: none)\n"));
}

// It may be the one that is selected.
TEST_F(CoverageTest, OfARankThatNeverStartedItIsNotSaidThatItIsNotSelected) {
  ProcessImage(env_.get(), "run", {.rank = 0, .world = 2, .selected = false}).Exit(2);
  EXPECT_THAT(Text(), HasSubstr("  ranks      none of 2 ranks wrote a pass; rank 1 never started"));
}

TEST_F(CoverageTest, AProcessThatCouldOnlyNotSayThatItEndedWasNotKilled) {
  ProcessImage process(env_.get(), "run", {.rank = 0, .world = 1});
  process.Pass(0);
  ASSERT_TRUE(env_->MakeDirs("run/clock", 0700).ok());
  SlotWriter slot(env_.get(), *env_->CreateExclusive(SlotPath("run", process.name()), 0600),
                  MakeSlotHeader({}, 0, 1));
  const auto how = [&] {
    const auto store = io::PassStore::Open(env_.get(), "run");
    const io::RunIndex index = BuildRunIndex(**store, 0, MergeOptionsHere(env_.get()));
    EXPECT_EQ(index.holes.size(), 1u);
    EXPECT_EQ(index.ranks[0].killed, index.ranks[0].how == kGoneOrRunning);
    return index.ranks[0].how;
  };
  ASSERT_TRUE(slot.SetState(SlotState::kExiting).ok());
  EXPECT_EQ(how(), kGoneOrRunning);  // perhaps killed on its way out
  ASSERT_TRUE(slot.SetState(SlotState::kClosed).ok());
  EXPECT_EQ(how(), kEndedUnwritten);
  process.Exit(1);
  const auto store = io::PassStore::Open(env_.get(), "run");
  EXPECT_TRUE(BuildRunIndex(**store, 0, MergeOptionsHere(env_.get())).holes.empty());
}

// An exception in backward: the process closes what it has, and it is not all.
TEST_F(CoverageTest, TheLastPassOfARankThatFailedInItIsNotWhole) {
  for (int rank : {0, 1}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 2});
    process.Pass(0).Pass(1).Exit(2, rank == 1 ? OpenExit(1) : "exit");
  }
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("INCOMPLETE"));
  EXPECT_THAT(text, HasSubstr("0 written (1 of 2 seen); 1 whole on 1 of 2 ranks;"));
  EXPECT_THAT(text,
              HasSubstr("  ranks      1 of 2 wrote all 2 steps; rank 1 ended in step 1, which "
                        "may not be whole (exit with status 1)\n"));
  EXPECT_THAT(text, HasSubstr("1 selected, 1 seen, 0 complete on every rank, 1 more in step 0\n"));
}

TEST_F(CoverageTest, NamesExtraStepsAndModes) {
  for (int rank : {0, 1}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 2});
    process.Pass(0);
    if (rank == 1) process.Pass(1).Map(1, 1, 1 | 2);
    process.Map(0, 0, 1).Exit(2);
  }
  EXPECT_THAT(Text(), HasSubstr("extra: rank 1 ran step 1 more than the others"));
  EXPECT_THAT(Text(), HasSubstr("COMPLETE"));
}

// What the ring took was written: no hole, and said.
TEST_F(CoverageTest, NamesStepsThatTheRingOverwrote) {
  for (int rank : {0, 1}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 2});
    for (uint64_t step = 0; step < 4; ++step)
      process.Pass(step, step == 2 ? std::vector<std::string>{"a"}
                                   : std::vector<std::string>{"a", "layer.0", "layer.1"});
    if (rank == 1) {
      process.Add(io::RemovedSection{1, 2, 100, "pass00001.tdp"});
      for (const char* name : {"pass00001.tdp", "pass00002.tdp"})
        ASSERT_TRUE(env_->Remove("run/rank1_pid101/" + std::string(name)).ok());
    }
    process.Exit(4);
  }
  EXPECT_THAT(Text(), HasSubstr("COMPLETE"));
  EXPECT_THAT(Text(),
              HasSubstr("0-3 written (4 of 4 seen); 1-2 overwritten by the ring on 1 rank"));
  EXPECT_THAT(Text(),
              HasSubstr("  ring       4 records overwritten: 2 of a; 1 each of layer.{0-1}\n"));
  EXPECT_THAT(Text(), HasSubstr("2 of 2 wrote all 4 steps"));
}

// A file that is gone and that nothing says was removed is damage.
TEST_F(CoverageTest, AMissingFileIsDamageBesideTheRing) {
  ProcessImage process(env_.get(), "run", {.rank = 0, .world = 1});
  for (uint64_t step = 0; step < 4; ++step) process.Pass(step);
  process.Add(io::RemovedSection{1, 1, 100, "pass00001.tdp"}).Exit(4);
  for (const char* name : {"pass00001.tdp", "pass00002.tdp"})
    ASSERT_TRUE(env_->Remove("run/rank0_pid100/" + std::string(name)).ok());
  EXPECT_THAT(Text(), HasSubstr("INCOMPLETE"));
  EXPECT_THAT(Text(), HasSubstr("pass00002.tdp, byte 0: listed in the manifest"));
}

TEST_F(CoverageTest, NothingFromAFileSteersTheTerminal) {
  ProcessImage process(env_.get(), "run", {.rank = 0, .world = 1, .host = "evil\033[2Jhost"});
  process.Expect("\033]0;owned\007.never").Pass(0);
  process.Add(io::NoteSection{2, 1, "line\none\033[31m"});
  process.Add(io::RuleSection{0, 1, "x", "\033[5m", 0});
  const std::string text = Text({.shown = "latest\033[7m"});
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, Not(HasSubstr("\007")));
  EXPECT_THAT(text, HasSubstr("never called: \\x1b]0;owned\\x07.never"));
  EXPECT_THAT(text, HasSubstr("notes      line\\x0aone\\x1b[31m"));
}

TEST_F(CoverageTest, LongListsSayHowManyMore) {
  ProcessImage process(env_.get(), "run", {.rank = 0, .world = 1});
  for (const char* note : {"n1", "n2", "n3", "n4", "n5", "n6"})
    process.Add(io::NoteSection{0, 1, note});
  process.Pass(0).Exit(1);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("             n4\n             and 2 more: tdump-view latest "
                              "--coverage\n"));
  EXPECT_THAT(text, Not(HasSubstr("n5")));
}

TEST_F(CoverageTest, ColourIsOnTheVerdictOnly) {
  ProcessImage process(env_.get(), "run", {.rank = 0, .world = 1});
  process.Pass(0).Exit(1);
  EXPECT_THAT(Text({.shown = "r", .colour = true}), HasSubstr("tdump: \033[1;32mCOMPLETE\033[0m"));
}

}  // namespace
}  // namespace tdump::coordinator
