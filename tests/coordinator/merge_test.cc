#include "coordinator/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/coverage.h"
#include "coordinator/coverage_text.h"
#include "io/node_env.h"
#include "tests/coordinator/run_image.h"

namespace tdump::coordinator {
namespace {

using test::ProcessImage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint8_t kAgreed = 1, kExtra = 2;

class MergeTest : public ::testing::Test {
 protected:
  // A rank that wrote steps 0 and 1 and ended.
  void WholeRank(int32_t rank, int32_t world) { WholeRank(env_.get(), rank, world); }
  static void WholeRank(Env* env, int32_t rank, int32_t world) {
    ProcessImage process(env, "run", {.rank = rank, .world = world});
    process.Expect("a").Pass(0).Pass(1).Map(0, 0, kAgreed).Map(1, 1, kAgreed).Exit(2);
  }

  io::RunIndex Merge(uint32_t generation = 0, const MergeOptions& options = {}) {
    auto store = io::PassStore::Open(env_.get(), "run");
    EXPECT_TRUE(store.ok()) << store.status().message();
    store_ = std::move(*store);
    return BuildRunIndex(*store_, generation, options);
  }
  const io::PassEntry& EntryOf(const io::IndexedPass& pass) {
    return store_->processes()[pass.process].passes[pass.pass];
  }
  // (rank, global step) of the passes, in the order of the index.
  std::vector<std::pair<int32_t, uint64_t>> Places(const io::RunIndex& index) {
    std::vector<std::pair<int32_t, uint64_t>> places;
    for (const io::IndexedPass& pass : index.passes)
      places.emplace_back(store_->processes()[pass.process].identity.rank, pass.global_step);
    return places;
  }

  std::unique_ptr<Env> memory_ = NewMemoryEnv();
  std::unique_ptr<Env> env_ = io::NewNodeEnv(memory_.get());
  std::unique_ptr<io::PassStore> store_;
};

using P = std::pair<int32_t, uint64_t>;

// A section no reader of this version knows.
struct LaterSection {
  static constexpr uint32_t kId = 0x7001;
  uint64_t what = 42;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(what);
  }
};

TEST_F(MergeTest, AWholeRunIsComplete) {
  WholeRank(1, 2);
  WholeRank(0, 2);
  const io::RunIndex index = Merge();
  EXPECT_THAT(index.holes, IsEmpty());
  EXPECT_EQ(index.world, 2);
  EXPECT_EQ(index.job_key, "job");
  EXPECT_EQ(index.boundary, "forward");
  EXPECT_EQ(index.rank_source, "PMIx");
  EXPECT_EQ(index.steps_seen, 2u);
  EXPECT_EQ(index.files, 4u);
  EXPECT_THAT(Places(index), ElementsAre(P{0, 0}, P{1, 0}, P{0, 1}, P{1, 1}));
  ASSERT_EQ(index.ranks.size(), 2u);
  EXPECT_TRUE(index.ranks[0].closed && index.ranks[0].selected && !index.ranks[0].lost);
  EXPECT_EQ(index.ranks[1].last_step, 1u);
  EXPECT_EQ(index.ranks[1].how, "exit");
  ASSERT_EQ(index.operators.size(), 1u);
  EXPECT_EQ(index.operators[0].name, "a");
  EXPECT_EQ(index.operators[0].ranks_expected, 2u);
  EXPECT_EQ(index.operators[0].ranks_called, 2u);
  EXPECT_EQ(index.operators[0].calls, 4u);
  EXPECT_EQ(index.operators[0].records, 4u);
}

TEST_F(MergeTest, ARankThatNeverStartedIsAHole) {
  WholeRank(0, 4);
  WholeRank(2, 4);
  const io::RunIndex index = Merge();
  EXPECT_THAT(index.holes, ElementsAre("ranks 1,3 never started under tdump"));
  EXPECT_THAT(index.ranks[1].processes, IsEmpty());
  EXPECT_EQ(index.ranks[3].how, "never started");
  EXPECT_FALSE(index.ranks[3].selected);
}

TEST_F(MergeTest, AKillWithinAPassKeepsWhatStands) {
  WholeRank(0, 2);
  ProcessImage killed(env_.get(), "run", {.rank = 1, .world = 2});
  killed.Pass(0).Map(0, 0, kAgreed).TornPass(1, {"a", "b"}, 150);
  const io::RunIndex index = Merge();
  EXPECT_THAT(Places(index), ElementsAre(P{0, 0}, P{1, 0}, P{0, 1}, P{1, 1}));
  EXPECT_TRUE(EntryOf(index.passes[3]).part);
  EXPECT_FALSE(index.passes[3].agreed);
  EXPECT_TRUE(index.ranks[1].lost);
  EXPECT_EQ(index.ranks[1].how, "killed or still running");
  EXPECT_THAT(
      index.holes,
      ElementsAre("rank 1 (node0, pid 101) wrote no closing record: killed or still "
                  "running, last step 1",
                  "rank 1, step 1: the pass is unfinished (rank1_pid101/pass00001.tdp.part)"));
  const auto reader = store_->OpenPass(store_->processes()[1], EntryOf(index.passes[3]));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_GE((*reader)->record_count(), 1u);
}

TEST_F(MergeTest, TellsAKilledProcessFromARunningOneWhereItCan) {
  ProcessImage process(env_.get(), "run", {.rank = 0, .world = 1});
  process.Pass(0).TornPass(1, {"a"}, 100);
  const auto state = [&](std::optional<bool> running) {
    return Merge(0, {.is_running = [=](const io::IdentitySection& identity) {
                   EXPECT_EQ(identity.start_time, 7u);
                   return running;
                 }});
  };
  EXPECT_EQ(state(false).ranks[0].how, "killed or left by _exit");
  EXPECT_TRUE(state(false).ranks[0].killed);
  EXPECT_EQ(VerdictOf(state(false)), Verdict::kIncomplete);
  EXPECT_EQ(state(std::nullopt).ranks[0].how, "killed or still running");
  EXPECT_TRUE(state(std::nullopt).ranks[0].killed);
  const io::RunIndex running = state(true);
  EXPECT_EQ(running.ranks[0].how, "still running");
  EXPECT_FALSE(running.ranks[0].lost);
  EXPECT_FALSE(running.ranks[0].killed);
  EXPECT_EQ(VerdictOf(running), Verdict::kRunning);
  EXPECT_EQ(running.holes.size(), 1u);  // its open pass is no hole
}

TEST_F(MergeTest, StepsGoUnderTheirAgreedNumbers) {
  WholeRank(0, 2);
  // Rank 1 ran one step (its local 1) more; its local 2 is the others' step 1.
  ProcessImage more(env_.get(), "run", {.rank = 1, .world = 2});
  more.Pass(0).Pass(1).Pass(2);
  more.Map(0, 0, kAgreed).Map(1, 1, kAgreed).Map(1, 0, kAgreed | kExtra).Map(2, 1, kAgreed);
  more.Exit(3);
  const io::RunIndex index = Merge();
  EXPECT_THAT(Places(index), ElementsAre(P{0, 0}, P{1, 0}, P{1, 0}, P{0, 1}, P{1, 1}));
  EXPECT_FALSE(index.passes[1].extra);
  EXPECT_TRUE(index.passes[2].extra);
  EXPECT_EQ(index.passes[2].local_step, 1u);
  EXPECT_EQ(index.passes[4].local_step, 2u);
  EXPECT_TRUE(index.passes[4].agreed);
  EXPECT_THAT(index.holes, IsEmpty());
}

TEST_F(MergeTest, BeyondTheMapTheLastOffsetHolds) {
  ProcessImage process(env_.get(), "run", {.rank = 0, .world = 2});
  process.Pass(0).Pass(1).Pass(2).Map(0, 0, kAgreed).Map(1, 0, kAgreed | kExtra);
  const io::RunIndex index = Merge();
  EXPECT_THAT(Places(index), ElementsAre(P{0, 0}, P{0, 0}, P{0, 1}));
  EXPECT_FALSE(index.passes[2].agreed);
  EXPECT_FALSE(index.passes[2].extra);
}

TEST_F(MergeTest, GenerationsAreSeenOneByOne) {
  WholeRank(0, 1);
  ProcessImage later(env_.get(), "run",
                     {.rank = 0, .world = 2, .generation = 1, .pid = 7, .job_key = "job2"});
  later.Pass(0);
  EXPECT_THAT(Merge().holes, IsEmpty());
  EXPECT_EQ(Merge().passes.size(), 2u);
  EXPECT_EQ(Merge(1).world, 2);
  EXPECT_EQ(Merge(1).passes.size(), 1u);
  EXPECT_THAT(Generations(*store_), ElementsAre(0u, 1u));
  EXPECT_THAT(Merge(5).holes, ElementsAre("no process wrote into generation 5 of this run"));
  EXPECT_EQ(BuildRunIndexes(*store_).size(), 2u);
}

TEST_F(MergeTest, RankDirectoriesOfOneJobAreOneGenerationWhateverTheyCounted) {
  WholeRank(0, 2);
  // On its node an earlier job had generation 0.
  ProcessImage other(env_.get(), "run", {.rank = 1, .world = 2, .generation = 1});
  other.Expect("a").Pass(0).Pass(1).Exit(2);
  EXPECT_EQ(Merge().passes.size(), 4u);
  EXPECT_THAT(Merge().holes, IsEmpty());
  EXPECT_THAT(Generations(*store_), ElementsAre(0u));
}

TEST_F(MergeTest, TwoProcessesOfOneRankCountOnce) {
  ProcessImage server(env_.get(), "run", {.rank = 0, .pid = 50, .started_ns = 5});
  ProcessImage engine(env_.get(), "run", {.rank = 0, .pid = 60, .started_ns = 4});
  engine.Expect("a").Pass(0).Exit(1);
  server.Expect("a").Pass(0).Exit(1);
  const io::RunIndex index = Merge();
  EXPECT_THAT(index.ranks[0].processes, ElementsAre(0u, 1u));
  EXPECT_EQ(store_->processes()[0].identity.pid, 60);  // by start
  EXPECT_EQ(store_->processes()[0].identity.process, 0u);
  EXPECT_EQ(store_->processes()[1].identity.process, 1u);
  EXPECT_EQ(index.operators[0].ranks_expected, 1u);
  EXPECT_EQ(index.operators[0].ranks_called, 1u);
  EXPECT_EQ(index.operators[0].calls, 2u);
  EXPECT_THAT(index.holes, IsEmpty());
}

TEST_F(MergeTest, AProcessThatIsThereTwiceIsAHole) {
  WholeRank(0, 2);
  WholeRank(1, 2);
  EXPECT_THAT(Merge().holes, IsEmpty());
  ASSERT_TRUE(env_->MakeDirs("run/rank1_pid9", 0700).ok());
  for (const char* file : {"manifest.tdm", "pass00000.tdp", "pass00001.tdp"}) {
    const auto bytes = ReadFile(env_.get(), std::string("run/rank1_pid101/") + file, 1 << 20);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    ASSERT_TRUE(
        WriteFileAtomically(env_.get(), std::string("run/rank1_pid9/") + file, *bytes, 0600).ok());
  }
  EXPECT_THAT(Merge().holes, ElementsAre("rank 1 (pid 101) is there 2 times, in rank1_pid101 and "
                                         "rank1_pid9: keep one of them"));
}

TEST_F(MergeTest, ARankIsClosedWhenAllItsProcessesAre) {
  for (const bool first_ends : {true, false}) {
    env_ = NewMemoryEnv();
    ProcessImage one(env_.get(), "run", {.rank = 0, .pid = 50, .started_ns = 4});
    ProcessImage two(env_.get(), "run", {.rank = 0, .pid = 60, .started_ns = 5});
    (first_ends ? one : two).Exit(0);
    const io::RunIndex index = Merge();
    EXPECT_FALSE(index.ranks[0].closed);
    EXPECT_EQ(index.ranks[0].how, "killed or still running");
    EXPECT_EQ(index.holes.size(), 1u);
  }
}

TEST_F(MergeTest, OperatorsNeverCalledAndNotEverywhereCalled) {
  for (int rank : {0, 1}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 2});
    process.Expect("a").Expect("drop").Expect("once");
    process.Pass(0, rank == 0 ? std::vector<std::string>{"a", "once", "."}
                              : std::vector<std::string>{"a", "."});
    process.Exit(1);
  }
  const io::RunIndex index = Merge();
  const OperatorSummary summary = SummariseOperators(*store_, index);
  EXPECT_EQ(summary.selected, 3u);  // the root was called for the signature only
  EXPECT_EQ(summary.seen, 2u);
  EXPECT_EQ(summary.complete, 1u);
  EXPECT_THAT(summary.never_called, ElementsAre("drop"));
}

TEST_F(MergeTest, NotesReasonsRulesAndAgreementsAreSummed) {
  for (int rank : {0, 1}) {
    ProcessImage process(env_.get(), "run", {.rank = rank, .world = 2});
    process.Expect("encoder.mlp.linear_fc2");
    process.Add(io::NoteSection{3, 1, "torch.compile: one region not captured"});
    process.Add(io::NoteSection{0, 1, "only a word"});
    process.Add(io::RuleSection{0, 1, "{leaf: true}", "", rank == 0 ? 0u : 480u});
    process.Add(io::RuleSection{0, 2, "{name: mlp.linear_fc1}", "mlp.linear_fc1", 0});
    process.Add(io::RuleSection{0, 3, "{name: x, level: off}", "x", 0});
    process.Add(io::AgreementSection{"file", 1 + static_cast<uint32_t>(rank), {}});
    io::PassDoneSection done;
    done.not_kept = {{static_cast<uint8_t>(SkipReason::kMemoryLimit), 3},
                     {static_cast<uint8_t>(SkipReason::kMaxRecords), 5}};
    done.file = "pass00000.tdp";
    done.error = rank == 1 ? "no space left" : "";
    if (rank == 1) process.Add(done);
    process.Exit(1);
  }
  const io::RunIndex index = Merge();
  EXPECT_THAT(index.notes, ElementsAre("ranks 0-1: torch.compile: one region not captured",
                                       "ranks 0-1: only a word"));
  ASSERT_EQ(index.rules.size(), 3u);
  EXPECT_EQ(index.rules[0].rule.matched, 480u);
  EXPECT_THAT(index.rules[1].near_names, ElementsAre("encoder.mlp.linear_fc2"));
  EXPECT_EQ(index.transport, "file");
  EXPECT_EQ(index.max_lag, 2u);
  EXPECT_THAT(index.not_kept, ElementsAre(std::make_pair("memory limit (rank 1)", 3u),
                                          std::make_pair("rule's max reached (rank 1)", 5u)));
  EXPECT_THAT(index.holes, ElementsAre(HasSubstr("pass00000.tdp"), "rank 1, step 0: no space left",
                                       "rank 1, step 0: 3 records not kept as asked: memory limit",
                                       "rule 2 'mlp.linear_fc1' matched nothing",
                                       "ranks 0-1: torch.compile: one region not captured"));
  // Of rank 0 alone: nothing that only rank 1 lacks.
  const io::RunIndex of_one = Merge(0, {.holes_of = [](int32_t rank) { return rank == 0; }});
  EXPECT_EQ(of_one.not_kept, index.not_kept);
  EXPECT_THAT(of_one.holes, ElementsAre("rule 2 'mlp.linear_fc1' matched nothing",
                                        "ranks 0-1: torch.compile: one region not captured"));
}

TEST_F(MergeTest, ADamagedManifestIsDamageOfThatRankOnly) {
  WholeRank(0, 2);
  WholeRank(1, 2);
  const std::string path = "run/rank1_pid101/manifest.tdm";
  std::string bytes = *ReadFile(env_.get(), path, 1 << 20);
  bytes[200] = static_cast<char>(bytes[200] ^ 0x40);  // in the identity, the first frame
  ASSERT_TRUE(WriteFileAtomically(env_.get(), path, bytes, 0600).ok());
  const io::RunIndex index = Merge();
  EXPECT_EQ(index.world, 2);
  EXPECT_EQ(index.passes.size(), 4u);
  ASSERT_GE(index.damage.size(), 1u);
  EXPECT_THAT(index.damage[0].file, HasSubstr(path));
  EXPECT_THAT(index.holes, ::testing::Contains(HasSubstr(path + " at byte ")));
  EXPECT_TRUE(index.ranks[0].closed);
}

TEST_F(MergeTest, ARankWithoutAManifestHasItsPasses) {
  WholeRank(0, 2);
  WholeRank(1, 2);
  ASSERT_TRUE(env_->Remove("run/rank1_pid101/manifest.tdm").ok());
  const io::RunIndex index = Merge();
  EXPECT_THAT(Places(index), ElementsAre(P{0, 0}, P{1, 0}, P{0, 1}, P{1, 1}));
  EXPECT_FALSE(index.ranks[1].closed);
  EXPECT_FALSE(index.complete());
}

TEST_F(MergeTest, OneRanksDirectoryAloneIsThatRank) {
  WholeRank(2, 4);
  auto store = io::PassStore::Open(env_.get(), "run/rank2_pid102");
  ASSERT_TRUE(store.ok());
  const io::RunIndex index = BuildRunIndex(**store, 0);
  EXPECT_EQ(index.passes.size(), 2u);
  EXPECT_THAT(index.holes, ElementsAre("this is one rank's directory; the run is above it"));
}

TEST_F(MergeTest, SilentRanksAreLostUnlessTheyClosed) {
  WholeRank(0, 3);
  WholeRank(1, 3);
  ProcessImage observer(env_.get(), "run", {.rank = 2, .world = 3});
  observer.Add(io::AgreementSection{"mpi", 4, {1, 2, 99, -1}});
  const io::RunIndex index = Merge();
  EXPECT_THAT(index.notes, ElementsAre("ranks 1-2 fell silent, the others went on"));
  EXPECT_FALSE(index.ranks[1].lost);
  EXPECT_TRUE(index.ranks[2].lost);
}

// What a later version writes is passed over.
TEST_F(MergeTest, UnknownFramesAndSectionsChangeNothing) {
  ProcessImage process(env_.get(), "run", {.rank = 0, .world = 1});
  process.Pass(0);
  LaterSection later;
  process.Raw(static_cast<io::FrameKind>(150), io::EncodeSection(later));
  process.Raw(io::FrameKind::kNote,
              io::EncodeSection(io::NoteSection{0, 1, "x"}) + io::EncodeSection(later));
  process.Exit(1);
  const io::RunIndex index = Merge();
  EXPECT_THAT(index.damage, IsEmpty());
  EXPECT_THAT(index.notes, ElementsAre("x"));
  EXPECT_TRUE(index.complete());
}

// Two node files, and two passes of a rank that has a directory.
TEST_F(MergeTest, FilesAreThoseOnTheDisk) {
  WholeRank(3, 4);
  for (const int32_t rank : {0, 1, 2}) {
    const char* const file = rank < 2 ? "node_a_0.tdn" : "node_b_0.tdn";
    WholeRank(io::NewNodeEnv(memory_.get(), "run", file).get(), rank, 4);
  }
  const io::RunIndex index = Merge();
  EXPECT_EQ(index.passes.size(), 8u);
  EXPECT_EQ(index.files, 4u);
}

// Numbers in a forged manifest size no table.
TEST_F(MergeTest, AForgedWorldIsNotAllocated) {
  for (const auto& [rank, world] : std::vector<std::pair<int32_t, int32_t>>{
           {0, INT32_MAX}, {INT32_MAX, 1}, {-5, 2}, {INT32_MIN, INT32_MIN}}) {
    env_ = NewMemoryEnv();
    ProcessImage process(env_.get(), "run", {.rank = 0, .world = 1});
    process.Pass(0);
    io::IdentitySection forged;
    forged.rank = rank;
    forged.world = world;
    forged.job_key = "job";
    process.Add(forged);
    const io::RunIndex index = Merge();
    EXPECT_LE(index.ranks.size(), 65536u);
    EXPECT_FALSE(index.complete()) << rank << " of " << world;
    EXPECT_FALSE(CoverageText(*store_, index, {}).empty());
  }
}

}  // namespace
}  // namespace tdump::coordinator
