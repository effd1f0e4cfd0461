#include "tools/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/merge.h"
#include "tests/coordinator/run_image.h"

namespace tdump::tools {
namespace {

using coordinator::test::ProcessImage;
using ::testing::ElementsAre;

// A pass with one record each of "a" and "b". As the manifest says, three more found no room, one
// of "b" and two of "c", and as many were more than a rule's `max`.
TEST(Signature, NamesOperatorsWhoseRecordsLeftNoTrace) {
  const auto env = NewMemoryEnv();
  ProcessImage process(env.get(), "run", {});
  process.TornPass(0, {"a", "b"}, 0);
  io::PassDoneSection done;
  done.file = "pass00000.tdp.part";
  done.records = 2;
  done.not_kept = {{static_cast<uint8_t>(SkipReason::kMemoryLimit), 3},
                   {static_cast<uint8_t>(SkipReason::kMaxRecords), 3}};
  process.Add(done);
  process.Add(io::OperatorCountSection{"", "a", "", 1, 1, 0});
  process.Add(io::OperatorCountSection{"", "b", "", 1, 1, 1});
  process.Add(io::OperatorCountSection{"", "c", "", 1, 0, 2});
  process.Exit(1);

  LoadedRun run;
  auto store = io::PassStore::Open(env.get(), "run");
  ASSERT_TRUE(store.ok()) << store.status().message();
  run.store = std::move(*store);
  run.index = coordinator::BuildRunIndex(*run.store, 0);
  const SignatureFacts facts = ReadSignature(run);
  EXPECT_EQ(facts.lost, 3u);
  EXPECT_THAT(facts.lost_of, ElementsAre("b", "c"));
  EXPECT_EQ(SignatureText(facts),
            "3 records of b, c left no trace, parameters may be among them (rank 0, step 0)");
}

TEST(Signature, SaysWhatIsThere) {
  SignatureFacts facts;
  EXPECT_EQ(SignatureText(facts), "");
  facts.rank = 2;
  facts.step = 7;
  facts.inputs = {{"0", "int64", "[8, 128]", ""}};
  facts.parameters = 13;
  facts.states = 1;
  facts.lost = 6;
  facts.lost_of = {"l.0", "l.1", "l.2", "l.3", "l.4", "l.5"};
  EXPECT_EQ(SignatureText(facts),
            "input 0 [8, 128] int64, hashed each step; 13 parameters and 1 buffer hashed once; 6 "
            "records of l.0, l.1, l.2, l.3 and 2 more left no trace, parameters may be among them "
            "(rank 2, step 7)");
}

}  // namespace
}  // namespace tdump::tools
