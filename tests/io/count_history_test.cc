// What the manifest tells of counts pass by pass, and how much of the disk that takes.
#include "io/count_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/archive.h"
#include "io/pass_store.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

OperatorCountSection Word(const char* path, uint64_t calls, uint64_t records, uint64_t not_kept) {
  return {"", path, "", calls, records, not_kept};
}

TEST(CountHistory, PassesThatGrewAsAnEarlierOneAreAddedUp) {
  CountHistory history;
  history.EndPass(3);
  history.Add(Word("b", 1, 2, 0));
  history.Add(Word("a", 2, 3, 1));
  for (const uint64_t same : {4, 5}) {
    history.EndPass(same);
    EXPECT_TRUE(history.Repeat({same, 3}).ok());
  }
  EXPECT_THAT(history.LastWords(), ElementsAre(Word("a", 6, 9, 3), Word("b", 3, 6, 0)));
  history.EndPass(6);
  history.Add(Word("a", 7, 14, 3));
  history.EndPass(7);
  EXPECT_TRUE(history.Repeat({7, 6}).ok());
  EXPECT_THAT(history.LastWords(), ElementsAre(Word("a", 8, 19, 3), Word("b", 3, 6, 0)));
  EXPECT_THAT(history.RecordsOf({4}), ElementsAre(3, 2));
  EXPECT_THAT(history.RecordsOf({3, 5, 6, 7}), ElementsAre(16, 4));
  // In full, once more, as at the end: nothing is added.
  history.Add(Word("a", 8, 19, 3));
  EXPECT_THAT(history.LastWords(), ElementsAre(Word("a", 8, 19, 3), Word("b", 3, 6, 0)));
  EXPECT_THAT(history.RecordsOf({7}), ElementsAre(5, 0));
}

TEST(CountHistory, APassWithoutCountsOfItsOwnIsNoneToRepeat) {
  CountHistory history;
  EXPECT_EQ(history.Repeat({0, 0}).code(), StatusCode::kCorrupt);
  history.Add(Word("a", 1, 1, 0));  // before any pass
  EXPECT_EQ(history.Repeat({0, 0}).code(), StatusCode::kCorrupt);
  history.EndPass(0);
  history.Add(Word("a", 2, 2, 0));
  history.EndPass(1);
  EXPECT_EQ(history.Repeat({2, 1}).message(), "as: 1 is not the last pass before it with counts");
  EXPECT_THAT(history.LastWords(), ElementsAre(Word("a", 2, 2, 0)));
}

// Each step has a call and a record of every operator.
void RunSteps(SinkRig* rig, uint64_t steps, size_t operators) {
  for (size_t i = 0; i < operators; ++i) rig->sink->expect(rig->Op("layer." + std::to_string(i)));
  for (uint64_t pass = 0; pass < steps; ++pass) {
    rig->Open(pass);
    for (size_t i = 0; i < operators; ++i) {
      const Call call = rig->NewCall(rig->Op("layer." + std::to_string(i)));
      rig->Keep(call, "0", Bytes(16, static_cast<uint8_t>(pass)), kPartHash | kPartMeta);
      rig->sink->end_call(call, {}, {});
    }
    rig->sink->close_pass();
  }
}

// Bytes of the manifest that a step more takes.
uint64_t BytesPerStep(size_t operators) {
  uint64_t bytes[2];
  for (const uint64_t steps : {10, 110}) {
    SinkRig rig({.arena_bytes = 1 << 20, .thread = false});
    RunSteps(&rig, steps, operators);
    EXPECT_TRUE(rig.sink->Drain(1000));
    bytes[steps == 110] = rig.manifest->bytes();
    EXPECT_THAT(rig.Manifest().counts, SizeIs(operators));
    for (const OperatorCountSection& count : rig.Manifest().counts) {
      EXPECT_EQ(count.calls, steps);
      EXPECT_EQ(count.records, steps);
    }
  }
  return (bytes[1] - bytes[0]) / 100;
}

TEST(ManifestSize, AStepLikeTheOneBeforeTakesAsMuchWithManyOperatorsAsWithOne) {
  const uint64_t one = BytesPerStep(1);
  EXPECT_EQ(BytesPerStep(100), one);
  EXPECT_LT(one, 300u);
}

TEST(ManifestSize, CountsOfAProcessThatWasKilledAreRight) {
  SinkRig rig({.arena_bytes = 1 << 20, .thread = false});
  RunSteps(&rig, 5, 2);  // and no Drain()
  rig.Open(5);
  const auto counts = rig.Manifest().counts;
  EXPECT_THAT(std::vector(counts.begin(), counts.end()),
              ElementsAre(Word("layer.0", 5, 5, 0), Word("layer.1", 5, 5, 0)));
}

// A step that is not like the others ends what may be said in short, and the end has all in full.
TEST(ManifestSize, TheEndHasCountsThatGrewAlikeInFull) {
  SinkRig rig({.arena_bytes = 1 << 20, .thread = false});
  RunSteps(&rig, 5, 2);
  rig.Open(5);
  rig.Keep(rig.NewCall(rig.Op("other")), "0", Bytes(16, 1));
  rig.sink->close_pass();
  const uint64_t before = rig.manifest->bytes();
  ASSERT_TRUE(rig.sink->Drain(1000));
  const std::string bytes = ReadFile(rig.env, rig.directory + "/manifest.tdm", 1 << 20).value();
  const std::string word = EncodeSection(Word("layer.0", 5, 5, 0));
  ASSERT_NE(bytes.find(word), std::string::npos);
  EXPECT_EQ(bytes.find(word), bytes.rfind(word));
  EXPECT_GT(bytes.find(word), before);
  const auto counts = rig.Manifest().counts;
  EXPECT_THAT(
      std::vector(counts.begin(), counts.end()),
      ElementsAre(Word("layer.0", 5, 5, 0), Word("layer.1", 5, 5, 0), Word("other", 0, 1, 0)));
}

// A ring's passes make room for the manifest, and capture ends when it takes half of the limit.
TEST(ManifestSize, CountsAgainstTheLimit) {
  constexpr uint64_t kLimit = 300 << 10;
  for (const bool ring : {true, false}) {
    SinkRig rig({.arena_bytes = 1 << 20,
                 .thread = false,
                 .disk_limit_bytes = kLimit,
                 .files = {.ring = ring, .ring_bytes = kLimit}});
    RunSteps(&rig, 3000, 2);
    ASSERT_TRUE(rig.sink->Drain(1000));
    EXPECT_TRUE(rig.sink->stopped());
    uint64_t bytes = 0;
    const std::vector<std::string> names = rig.env->List(rig.directory).value();
    for (const std::string& name : names)
      bytes += rig.env->Stat(JoinPath(rig.directory, name)).value().bytes;
    EXPECT_LE(bytes, kLimit + 4096);  // the end of the last pass, and the notes that say so
    ASSERT_THAT(rig.told, SizeIs(1));
    EXPECT_THAT(rig.told[0], HasSubstr(ring ? "half of the limit" : "limit of 307200 bytes"));
    EXPECT_THAT(rig.Manifest().notes.back().text,
                HasSubstr("are not written. At least 2 operators"));
    const auto store = PassStore::Open(rig.env, "run");
    ASSERT_TRUE(store.ok());
    const ProcessEntry& process = (*store)->processes().front();
    EXPECT_EQ(process.overwritten.empty(), !ring);
    EXPECT_THAT(process.overwritten_records, Each(process.overwritten.size()));
    EXPECT_THAT(process.damage, IsEmpty());
  }
}

}  // namespace
}  // namespace tdump::io
