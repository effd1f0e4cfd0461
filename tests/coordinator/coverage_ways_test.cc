#include "coordinator/coverage_ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/coverage.h"
#include "coordinator/merge.h"
#include "tests/coordinator/run_image.h"

namespace tdump::coordinator {
namespace {

using test::ProcessImage;
using test::TensorImage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TensorImage Called(const std::string& path, Way way = Way::kEager) {
  TensorImage tensor{.path = path};
  tensor.compiled = way == Way::kCompiled;
  tensor.graphed = way == Way::kGraphed;
  return tensor;
}

io::NoteSection NotCaptured(const std::string& text) { return {3, 1, text}; }

class CoverageWaysTest : public ::testing::Test {
 protected:
  CoverageWaysTest() : env_(NewMemoryEnv()) {}

  std::vector<OperatorWays> Find() {
    const auto store = io::PassStore::Open(env_.get(), "run");
    EXPECT_TRUE(store.ok());
    return FindWays(**store, BuildRunIndex(**store, 0));
  }
  std::string Text() { return WaysText(Find(), 10); }
  // Of the last one.
  std::string Why() { return Find().back().why; }

  std::unique_ptr<Env> env_;
};

TEST_F(CoverageWaysTest, EachOperatorHasTheWaysItWasSeenIn) {
  for (const int rank : {0, 1}) {
    ProcessImage(env_.get(), "run", {.rank = rank, .world = 2})
        .Expect("eager")
        .Expect("both")
        .Expect("graphed")
        .Expect("blocks", "torch.nn.modules.container.ModuleList")
        .Expect("blocks.0")
        .Expect("blocks.1")
        .Tensors(0, {Called("eager"), Called("both"), Called("graphed", Way::kGraphed)})
        .Tensors(1, {Called("eager"), Called("both", Way::kCompiled)})
        .Tensors(2, {Called("eager"), Called("both", Way::kCompiled), Called("by its calls")})
        .Exit(3);
  }
  const auto found = Find();
  EXPECT_THAT(CountWays(found), ElementsAre(Pair("eager", 2), Pair("eager and compiled", 1),
                                            Pair("graphed", 1), Pair("never", 2)));
  const OperatorWays& both = found[1];
  EXPECT_EQ(both.name, "both");
  EXPECT_EQ(both.seen.at(Way::kEager).calls, 2u);
  EXPECT_THAT(both.seen.at(Way::kEager).steps.ranges(), ElementsAre(Pair(0, 0)));
  EXPECT_EQ(both.seen.at(Way::kCompiled).calls, 4u);
  EXPECT_THAT(both.seen.at(Way::kCompiled).steps.ranges(), ElementsAre(Pair(1, 2)));
  EXPECT_EQ(WaysText(found, 10),
            "  seen       6 operators: 2 eager, 1 eager and compiled, 1 graphed, 2 never\n"
            "  eager      eager, by its calls\n"
            "  eager in step 0, compiled in steps 1-2  both\n"
            "  graphed    graphed\n"
            "  never      blocks.{0-1}\n"
            "             - not known: no module around it is selected or was called\n");
}

TEST_F(CoverageWaysTest, WhatIsInsideACompiledModuleIsSaidToBe) {
  ProcessImage(env_.get(), "run", {})
      .Expect(".", "__main__.Net")
      .Expect("inner", "__main__.Inner")
      .Expect("inner.fc")
      .Add(NotCaptured("torch.compile: modules in this region are traced; not captured (...)"))
      .Add(NotCaptured("torch.compile: Net is compiled; not captured inside"))
      .Pass(0, {"."})
      .Exit(1);
  EXPECT_EQ(Why(), "perhaps inside .: a Net is compiled, and not captured inside");
}

TEST_F(CoverageWaysTest, TheClassOfARootIsThatOfItsRecords) {
  TensorImage root{.path = "."};
  root.cls = "__main__.Net";
  ProcessImage process(env_.get(), "run", {});
  process.Expect("fc").Add(NotCaptured("torch.compile: Net is compiled; not captured inside"));
  process.Tensors(0, {root}).Exit(1);
  EXPECT_EQ(Why(), "perhaps inside .: a Net is compiled, and not captured inside");
}

TEST_F(CoverageWaysTest, WhereTheModulesAroundAreNotKnownACompiledOneMayBeOfThem) {
  ProcessImage(env_.get(), "run", {})
      .Expect("a.b.fc")
      .Add(NotCaptured("torch.compile: Net is compiled; not captured inside"))
      .Add(NotCaptured("torch.compile: Block is compiled; not captured inside"))
      .Pass(0, {"other"})
      .Exit(1);
  EXPECT_EQ(Find()[0].why,
            "perhaps inside Block or Net, which is compiled, and not captured inside");
}

TEST_F(CoverageWaysTest, StepsFromWhichOnAModuleIsCompiledAreTold) {
  ProcessImage process(env_.get(), "run", {});
  process.Expect("net", "__main__.Net").Expect("net.fc").Expect("net.drop").Expect("else.fc");
  process.Add(NotCaptured("torch.compile: Net is compiled; not captured inside"));
  process.Pass(0, {"net", "net.fc", "else.fc"}).Pass(1, {"net"}).Pass(2, {"net"}).Exit(3);
  EXPECT_EQ(Text(),
            "  seen       4 operators: 2 eager, 1 eager in part, 1 never\n"
            "  eager      net, else.fc\n"
            "  eager in step 0, not seen in steps 1-2  net.fc\n"
            "             - perhaps inside net: a Net is compiled, and not captured inside\n"
            "  never      net.drop\n"
            "             - perhaps inside net: a Net is compiled, and not captured inside\n");
}

TEST_F(CoverageWaysTest, OfAFusedPathTheModuleThatHasItIsNamed) {
  ProcessImage(env_.get(), "run", {})
      .Expect("attention", "torch.nn.modules.activation.MultiheadAttention")
      .Expect("attention.out_proj")
      .Pass(0, {"attention"})
      .Exit(1);
  EXPECT_EQ(Why(),
            "attention was called and did not call it: a MultiheadAttention has a fused path that "
            "calls no part");
}

TEST_F(CoverageWaysTest, AModuleThatWasCalledMayPassByWhatIsInIt) {
  ProcessImage process(env_.get(), "run", {});
  process.Expect("net", "Net").Expect("net.mlp", "Mlp").Expect("net.mlp.fc");
  process.Pass(0, {"net"}).Exit(1);
  EXPECT_THAT(Why(), HasSubstr("net was called and did not call it: a branch that was not taken"));
}

TEST_F(CoverageWaysTest, WithoutACallAroundItTheClosestIsNamed) {
  ProcessImage process(env_.get(), "run", {});
  process.Expect("net", "Net").Expect("net.mlp", "Mlp").Expect("net.mlp.fc");
  process.Pass(0, {"other"}).Exit(1);
  EXPECT_EQ(Find()[2].why, "net.mlp, which it is part of, was not called either");
}

TEST_F(CoverageWaysTest, ANoteOfModulesThatAreNotCapturedMayBeWhy) {
  ProcessImage(env_.get(), "run", {})
      .Expect("net", "Net")
      .Expect("net.fc")
      .Add(NotCaptured("an argument list is too long: the rest of it is not captured"))
      .Add(NotCaptured(
          "TorchScript: modules inside a script module run without hooks; not captured"))
      .Pass(0, {"net"})
      .Exit(1);
  EXPECT_EQ(Why(),
            "perhaps TorchScript: modules inside a script module run without hooks; not captured");
}

TEST_F(CoverageWaysTest, WhatTheRingOverwroteIsNotSaidToHaveBeenNeverCalled) {
  ProcessImage process(env_.get(), "run", {});
  process.Expect("a").Pass(0).Exit(1);
  ASSERT_TRUE(env_->Remove(process.directory() + "/pass00000.tdp").ok());
  const auto found = Find();
  EXPECT_THAT(CountWays(found), ElementsAre(Pair("passes not there", 1)));
  EXPECT_EQ(found[0].why, "its passes are not there any more, or cannot be read");
}

TEST_F(CoverageWaysTest, APassThatAKillCutIsReadToTheCut) {
  ProcessImage(env_.get(), "run", {}).Expect("a").TornPass(0, {"a"}, 8);
  EXPECT_THAT(CountWays(Find()), ElementsAre(Pair("eager", 1)));
}

TEST_F(CoverageWaysTest, NothingFromANoteSteersTheTerminal) {
  ProcessImage(env_.get(), "run", {})
      .Expect("fc")
      .Add(NotCaptured("torch.compile: \033[2J is compiled; not captured inside"))
      .Pass(0, {"other"})
      .Exit(1);
  EXPECT_EQ(Text().find('\033'), std::string::npos);
}

TEST(StepRanges, WhatOneHasAndOthersHaveNot) {
  StepRanges all, some;
  for (const uint64_t step : {0ul, 1ul, 2ul, 3ul, 7ul, ~0ul}) all.Add(step);
  for (const uint64_t step : {1ul, 3ul, 5ul, 7ul}) some.Add(step);
  EXPECT_THAT(all.Without(some).ranges(), ElementsAre(Pair(0, 0), Pair(2, 2), Pair(~0ul, ~0ul)));
  EXPECT_TRUE(some.Without(some).empty());
}

TEST(StepRanges, SayWhereTheyEnd) {
  StepRanges few, many;
  for (const uint64_t step : {3, 3, 4, 9}) few.Add(step);
  EXPECT_EQ(few.Text(), "steps 3-4,9");
  for (uint64_t step = 0; step < 100; step += 10) many.Add(step);
  EXPECT_EQ(many.Text(), "steps 0,10,20,30,40,50,60,70 and more up to 90");
}

}  // namespace
}  // namespace tdump::coordinator
