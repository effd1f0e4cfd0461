// The keys of a rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parse.h"

namespace tdump::filters {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Rule RuleOf(const std::string& flow) { return OnlyRule(Parsed("capture: [" + flow + "]\n")); }
std::string BadRule(const std::string& flow) { return Mistaken("capture: [" + flow + "]\n"); }

TEST(RuleSchema, LeftOutKeysDoNotRestrict) {
  const Rule rule = RuleOf("{}");
  EXPECT_FALSE(rule.has_leaf);
  EXPECT_TRUE(rule.name.empty() && rule.cls.empty() && rule.op.empty() && rule.dtype.empty());
  EXPECT_TRUE(rule.numel.is_all() && rule.call.is_all() && rule.steps.is_all() &&
              rule.ranks.is_all());
  EXPECT_EQ(rule.max, 0u);
  EXPECT_THAT(rule.role, ElementsAre(Role::kOutput));
  EXPECT_EQ(rule.level, kLevelFull);
}

TEST(RuleSchema, EveryKey) {
  const Rule rule = RuleOf(
      "{leaf: false, name: ['a', 'b'], arg: x, class: Linear, role: [input, before], phase: "
      "[backward, forward, "
      "backward], dtype: [bfloat16], numel: 1-9, call: 0, max: 3, where: 'pkg.mod:fn', steps: 0-1, "
      "ranks: [-1], "
      "level: [meta, hash], dims: 'b s h[tp]'}");
  EXPECT_TRUE(rule.has_leaf);
  EXPECT_FALSE(rule.leaf);
  EXPECT_THAT(rule.name, ElementsAre("a", "b"));
  EXPECT_THAT(rule.arg, ElementsAre("x"));
  EXPECT_THAT(rule.cls, ElementsAre("Linear"));
  EXPECT_THAT(rule.role, ElementsAre(Role::kInput, Role::kBefore));
  EXPECT_THAT(rule.phase, ElementsAre(Phase::kBackward, Phase::kForward));
  EXPECT_THAT(rule.dtype, ElementsAre("bfloat16"));
  EXPECT_EQ(rule.numel.ToString(), "1-9");
  EXPECT_EQ(rule.call.ToString(), "0");
  EXPECT_EQ(rule.max, 3u);
  EXPECT_EQ(rule.where, "pkg.mod:fn");
  EXPECT_EQ(rule.steps.ToString(), "0-1");
  EXPECT_EQ(rule.ranks.ToString(), "-1");
  EXPECT_EQ(rule.level, kPartMeta | kPartHash);
  EXPECT_EQ(rule.dims, "b s h[tp]");
}

TEST(RuleSchema, Levels) {
  EXPECT_EQ(RuleOf("{level: off}").level, kPartNone);
  EXPECT_EQ(RuleOf("{level: meta}").level, kPartMeta);
  EXPECT_EQ(RuleOf("{level: hash}").level, kPartMeta | kPartHash);
  EXPECT_EQ(RuleOf("{level: full}").level, kPartMeta | kPartHash | kPartPayload);
  EXPECT_EQ(RuleOf("{level: [hash, full]}").level, kLevelFull);
  EXPECT_EQ(RuleOf("{level: [full, stats]}").level, kLevelFull | kPartStats);
  EXPECT_EQ(RuleOf("{level: [off]}").level, kPartNone);
  EXPECT_THAT(BadRule("{level: [full, off]}"), HasSubstr("'off' beside other levels"));
  EXPECT_EQ(RuleOf("{level: sample:16}").sample, 16u);
  const Rule slice = RuleOf("{level: 'slice[0:8, :]'}");
  EXPECT_EQ(slice.level, kPartMeta | kPartSlice);
  EXPECT_THAT(slice.slice, ElementsAre(SliceRange{0, 8, 1}, SliceRange{}));
  EXPECT_EQ(RuleOf("{compress: zstd}").compress, Compression::kZstd);
  EXPECT_EQ(RuleOf("{}").compress, std::nullopt);
}

TEST(RuleSchema, ExclusionsCoverEveryRoleAndPhaseUnlessTold) {
  EXPECT_EQ(RuleOf("{level: off}").role.size(), static_cast<size_t>(kRoleCount));
  EXPECT_EQ(RuleOf("{level: off}").phase.size(), 2u);
  EXPECT_THAT(RuleOf("{level: off, role: [input]}").role, ElementsAre(Role::kInput));
  EXPECT_THAT(RuleOf("{level: off, phase: [forward]}").phase, ElementsAre(Phase::kForward));
}

TEST(RuleSchema, NamesAreTextWhateverTheyLookLike) {  // K02
  EXPECT_THAT(RuleOf("{name: [y, no, on, null, ~, 1e3, 0x1F, 012, 2024-01-01]}").name,
              ElementsAre("y", "no", "on", "null", "~", "1e3", "0x1F", "012", "2024-01-01"));
}

TEST(RuleSchema, Mistakes) {
  EXPECT_EQ(BadRule("{role: [outptu]}"),
            "c.yaml:1:19: capture[0].role: 'outptu'; expected input output before after grad_input "
            "grad_output param param_grad state; did you mean 'output'?");
  EXPECT_EQ(BadRule("{role: [output, grad_output], phase: forward}"),
            "c.yaml:1:11: capture[0]: role grad_output with 'phase: forward'; expected 'phase: "
            "[forward, backward]', or no 'phase': gradients are of the backward phase");
  EXPECT_THAT(BadRule("{role: []}"), HasSubstr("an empty list selects nothing"));
  EXPECT_THAT(BadRule("{phase: [foward]}"), HasSubstr("did you mean 'forward'?"));
  EXPECT_THAT(BadRule("{dtype: [fp16]}"), HasSubstr("did you mean 'float16'?"));
  EXPECT_THAT(BadRule("{dtype: torch.float32}"), HasSubstr("did you mean 'float32'?"));
  EXPECT_THAT(BadRule("{max: 0}"), HasSubstr("expected all, or a number above 0"));
  EXPECT_THAT(BadRule("{layers: 0-3}"), HasSubstr("is not in this version"));
  EXPECT_THAT(BadRule("{comm: x}"), HasSubstr("is not in this version"));
  EXPECT_THAT(BadRule("{where: nonsense}"),
              HasSubstr("pkg.mod:fn, /path/f.py:fn or /path/l.so:fn"));
  EXPECT_THAT(BadRule("{leaf: maybe}"), HasSubstr("expected true | false"));
  EXPECT_THAT(BadRule("{use: f, leaf: true}"), HasSubstr("no other key beside it"));
  EXPECT_THAT(BadRule("{name: {a: 1}}"), HasSubstr("a map; expected text or a list of texts"));
  EXPECT_THAT(BadRule("{ranks: {dp: 0}}"), HasSubstr("is not in this version"));
  EXPECT_THAT(BadRule("leaf"), HasSubstr("'leaf'; expected a rule such as {leaf: true"));
  EXPECT_THAT(BadRule("{dims: '" + std::string(201, 'x') + "'}"),
              HasSubstr("longer than 200 bytes"));
  EXPECT_EQ(BadRule("{dims: 'b s h[tp'}"),
            "c.yaml:1:18: capture[0].dims: dims 'b s h[tp', column 9: it ends where ',' or ']' was "
            "expected; "
            "expected dims such as 'b s h[tp]'");
}

TEST(RuleSchema, AtMost63Sets) {
  std::string yaml = "capture:\n";
  for (int i = 0; i < 64; ++i) yaml += "  s" + std::to_string(i) + ": [{}]\n";
  EXPECT_THAT(Mistaken(yaml), HasSubstr("64 filter sets; expected at most 63"));
}

}  // namespace
}  // namespace tdump::filters
