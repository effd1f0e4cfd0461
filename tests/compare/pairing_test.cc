#include "compare/pairing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/fake_run.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Tensor kOne = Vector<float>("float32", {1});

// "step/rank" of A and B, in order.
std::vector<std::string> Pairs(const PassPairing& pairing) {
  std::vector<std::string> text;
  const auto add = [](const PassRef& pass) {
    return std::to_string(pass.step) + "/" + std::to_string(pass.rank);
  };
  for (const PassPair& pair : pairing.pairs) text.push_back(add(pair.a) + " " + add(pair.b));
  return text;
}

FakeRun RunOf(int32_t world, const std::vector<uint64_t>& steps) {
  FakeRun run(world);
  for (const uint64_t step : steps) {
    for (int32_t rank = 0; rank < world; ++rank) run.Pass(rank, step);
  }
  return run;
}

PairOptions Steps(const char* steps, int64_t shift = 0) {
  return {.steps = *Spec::Parse(steps), .step_shift = shift};
}

TEST(PairPasses, ByStepAndRankWhatHasNoPartnerIsListed) {
  FakeRun a = RunOf(2, {0, 1}), b(2);
  b.Pass(1, 1);
  b.Pass(0, 0);
  b.Pass(0, 5);
  const auto pairing = PairPasses(a.side(), b.side(), {});
  ASSERT_TRUE(pairing.ok());
  EXPECT_THAT(Pairs(*pairing), ElementsAre("0/0 0/0", "1/1 1/1"));
  ASSERT_EQ(pairing->only_a.size(), 2u);
  EXPECT_EQ(pairing->only_a[0].rank, 1);
  EXPECT_EQ(pairing->only_a[1].step, 1u);
  ASSERT_EQ(pairing->only_b.size(), 1u);
  EXPECT_EQ(pairing->only_b[0].step, 5u);
}

TEST(PairPasses, StepsAndRanksSelectOnBothSides) {
  const FakeRun a = RunOf(3, {0, 1, 2}), b = RunOf(3, {0, 1, 2});
  PairOptions options = Steps("1-2");
  options.ranks = *Spec::Parse("0,-1");
  const auto pairing = PairPasses(a.side(), b.side(), options);
  ASSERT_TRUE(pairing.ok());
  EXPECT_THAT(Pairs(*pairing), ElementsAre("1/0 1/0", "1/2 1/2", "2/0 2/0", "2/2 2/2"));
  EXPECT_THAT(pairing->only_a, IsEmpty());
  EXPECT_THAT(pairing->only_b, IsEmpty());
}

TEST(PairPasses, StepsOfBMayBeShifted) {
  const FakeRun a = RunOf(1, {0, 1, 2}), b = RunOf(1, {3, 4, 5});
  const auto pairing = PairPasses(a.side(), b.side(), Steps("0-1", 3));
  ASSERT_TRUE(pairing.ok());
  EXPECT_THAT(Pairs(*pairing), ElementsAre("0/0 3/0", "1/0 4/0"));
  EXPECT_THAT(pairing->only_b, IsEmpty());  // step 5 was not asked for
}

TEST(PairPasses, StepsMayBeAnyNumbers) {
  constexpr uint64_t kMost = ~uint64_t{0}, kHalf = uint64_t{1} << 63;
  const FakeRun far = RunOf(1, {kHalf, kMost}), near = RunOf(1, {0});
  const auto same = PairPasses(far.side(), far.side(), {});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->pairs.size(), 2u);
  const auto none = PairPasses(far.side(), near.side(), {});
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(WhyNoPass(far.side(), near.side(), *none),
              HasSubstr("try --steps 9223372036854775808-9223372036854775808=0-0"));
  const auto shifted = PairPasses(near.side(), far.side(), Steps("0", INT64_MAX));
  ASSERT_TRUE(shifted.ok());
  EXPECT_THAT(Pairs(*shifted), IsEmpty());  // one beyond
}

TEST(PairPasses, TwoNamedRanks) {
  const FakeRun run = RunOf(3, {0, 1});
  const auto pairing = PairPasses(run.side(0), run.side(2), {});
  ASSERT_TRUE(pairing.ok());
  EXPECT_THAT(Pairs(*pairing), ElementsAre("0/0 0/2", "1/0 1/2"));
}

TEST(PairPasses, AnExtraPassIsNoPartnerOfAnAgreedOne) {
  FakeRun a(1), b(1);
  a.Pass(0, 1);
  a.Pass(0, 1, true);
  b.Pass(0, 1);
  const auto pairing = PairPasses(a.side(), b.side(), {});
  ASSERT_TRUE(pairing.ok());
  EXPECT_THAT(Pairs(*pairing), ElementsAre("1/0 1/0"));
  ASSERT_EQ(pairing->only_a.size(), 1u);
  EXPECT_TRUE(pairing->only_a[0].extra);
}

TEST(PairPasses, RefusesUnknownRanks) {
  const FakeRun two = RunOf(2, {0}), four = RunOf(4, {0});
  EXPECT_THAT(PairPasses(two.side(0), four.side(7), {}).status().message(),
              HasSubstr("there is no rank 7; the run has ranks 0-3"));
  EXPECT_THAT(PairPasses(two.side(0), four.side(), {}).status().message(),
              HasSubstr("name a rank on both sides"));
  PairOptions options;
  options.ranks = *Spec::Parse("0,9");
  EXPECT_THAT(PairPasses(two.side(), two.side(), options).status().message(),
              HasSubstr("--ranks 9"));
}

TEST(WhyNoPass, SaysWhatEachSideHasAndWhatToTry) {
  const FakeRun a = RunOf(2, {0, 1}), b = RunOf(2, {3, 4, 5});
  const auto pairing = PairPasses(a.side(), b.side(), {});
  ASSERT_TRUE(pairing.ok());
  EXPECT_EQ(WhyNoPass(a.side(), b.side(), *pairing),
            "no step in common: A has steps 0-1 on ranks 0-1, B has steps 3-5 on ranks 0-1; if "
            "they are the same work, try --steps 0-1=3-4");
  const auto none = PairPasses(a.side(), b.side(), Steps("9"));
  EXPECT_EQ(WhyNoPass(a.side(), b.side(), *none),
            "nothing was selected on either side: A has steps 0-1 on ranks 0-1, B has steps 3-5 "
            "on ranks 0-1");
}

RecordPairing PairAll(const PassContent& a, const PassContent& b) {
  return PairRecords(OnePass(std::make_unique<FakePassReader>(&a)),
                     OnePass(std::make_unique<FakePassReader>(&b)),
                     [](const io::Record&) { return true; });
}

TEST(PairRecords, ByTheWholeKeyInAnyOrder) {
  PassContent a, b;
  PassBuilder left(&a), right(&b);
  left.Module("x", kOne, kOne).Module("y", kOne, kOne).Module("x", kOne, kOne);
  right.Module("y", kOne, kOne).Module("x", kOne, kOne).Module("z", kOne, kOne);
  const RecordPairing pairing = PairAll(a, b);
  ASSERT_EQ(pairing.pairs.size(), 4u);  // x and y, input and output; the second call of x is alone
  for (size_t i = 0; i < pairing.pairs.size(); ++i) {
    const io::Record& in_a = a.records[pairing.pairs[i].a - 1];
    const io::Record& in_b = b.records[pairing.pairs[i].b - 1];
    EXPECT_EQ(in_a.key, in_b.key);
    EXPECT_EQ(pairing.key_hashes[i], std::hash<std::string>{}(ToText(in_a.key)));
  }
  EXPECT_THAT(pairing.only_a, ElementsAre(5u, 6u));
  EXPECT_THAT(pairing.only_b, ElementsAre(5u, 6u));
}

TEST(PairRecords, EveryFieldOfTheKeyCounts) {
  PassContent a, b;
  PassBuilder(&a).Module("x", kOne, kOne);
  PassBuilder(&b).Module("x", kOne, kOne);
  io::Record& output = b.records[1];
  const Key original = output.key;
  const auto unpaired = [&](const std::function<void(Key*)>& change) {
    output.key = original;
    change(&output.key);
    return PairAll(a, b).only_b.size();
  };
  EXPECT_EQ(unpaired([](Key*) {}), 0u);
  EXPECT_EQ(unpaired([](Key* k) { k->root = "Critic#1"; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->path = "x.y"; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->op = "aten::mm"; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->role = Role::kState; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->arg = "1"; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->call = (uint64_t{1} << 53) + 1; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->micro = 1; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->chunk = 1; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->phase = Phase::kBackward; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->recompute = true; }), 1u);
  EXPECT_EQ(unpaired([](Key* k) { k->lane = 1; }), 1u);
}

TEST(PairRecords, EqualKeysPairInFileOrder) {
  PassContent a, b;
  PassBuilder(&a).Tap("t", "v", kOne).Tap("t", "v", kOne);
  PassBuilder(&b).Tap("t", "v", kOne);
  a.records[1].key.call = 0;  // a writer's mistake, or two processes under one lane
  const RecordPairing pairing = PairAll(a, b);
  ASSERT_EQ(pairing.pairs.size(), 1u);
  EXPECT_EQ(pairing.pairs[0].a, 1u);
  EXPECT_THAT(pairing.only_a, ElementsAre(2u));
}

}  // namespace
}  // namespace tdump::compare
