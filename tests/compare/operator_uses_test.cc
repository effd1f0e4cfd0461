#include "compare/operator_uses.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compare/fake_run.h"

namespace tdump::compare {
namespace {

Key Of(const std::string& path, const std::string& op = "", const std::string& root = "") {
  Key key;
  key.root = root;
  key.path = path;
  key.op = op;
  return key;
}

TEST(OperatorUses, SaysWhatTheManifestHasOfTheOperator) {
  io::ProcessEntry process;
  process.expected.Edit() = {{.path = "c"}, {.path = "a"}, {.path = "b", .op = "aten::mm"}};
  process.counts.Edit() = {{.path = "b", .op = "aten::mm", .calls = 5},
                           {.path = "a", .calls = 3, .not_kept = 2},
                           {.root = "Critic#1", .path = "a", .calls = 4},
                           {.path = "a", .calls = 9}};  // the first one counts
  OperatorUses uses;
  const auto expect = [&](const Key& key, bool is_selected, uint64_t calls, uint64_t not_kept) {
    const OperatorUse use = uses.Of(process, key);
    EXPECT_TRUE(use.is_known);
    EXPECT_EQ(use.is_selected, is_selected) << key.path << key.op;
    EXPECT_EQ(use.calls, calls) << key.path << key.op;
    EXPECT_EQ(use.not_kept, not_kept) << key.path << key.op;
  };
  expect(Of("a"), true, 3, 2);
  expect(Of("a", "", "Critic#1"), false, 4, 0);
  expect(Of("b", "aten::mm"), true, 5, 0);
  expect(Of("b"), false, 0, 0);
  expect(Of("c"), true, 0, 0);
  expect(Of("d"), false, 0, 0);
  expect(Of(""), false, 0, 0);
}

TEST(OperatorUses, OfAProcessThatDidNotEndNothingIsKnown) {
  io::ProcessEntry process;
  process.expected.Edit() = {{.path = "a"}};
  OperatorUses uses;
  EXPECT_FALSE(uses.Of(process, Of("a")).is_known);
  EXPECT_FALSE(uses.Of(io::ProcessEntry(), Of("a")).is_known);
}

TEST(OperatorUses, AProcessThatExpectsNothingSelectsNothing) {
  io::ProcessEntry process;
  process.counts.Edit() = {{.path = "a", .calls = 3}};
  OperatorUses uses;
  const OperatorUse use = uses.Of(process, Of("a"));
  EXPECT_TRUE(use.is_known);
  EXPECT_FALSE(use.is_selected);
  EXPECT_EQ(use.calls, 3u);
}

TEST(OperatorUses, ProcessesAreToldApart) {
  FakeRun run(2);
  run.Pass(0, 0);
  run.Pass(1, 0);
  run.Count(0, "a", 1);
  run.Count(1, "a", 2);
  const CapturedRun side = run.side(), copy = side;
  for (const CapturedRun* of : {&side, &copy}) {
    EXPECT_EQ(of->UseOf(of->passes()[0], Of("a")).calls, 1u);
    EXPECT_EQ(of->UseOf(of->passes()[1], Of("a")).calls, 2u);
  }
}

}  // namespace
}  // namespace tdump::compare
