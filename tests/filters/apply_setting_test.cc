// Single settings over a configuration: the environment and the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parse.h"

namespace tdump::filters {
namespace {

using ::testing::HasSubstr;

std::string Apply(const OneSetting& setting, Config* config) {
  return ApplySetting(setting, "--set", config).message();
}

TEST(ApplySetting, ReplacesOneKeyAndNoOther) {
  Config config = Parsed("steps: {select: 0-9, skip: 3}\nmemory: {host: 1GiB, thread: false}\n");
  EXPECT_EQ(Apply({"memory.host", "2GiB"}, &config), "");
  EXPECT_EQ(Apply({"steps.select", "5"}, &config), "");
  EXPECT_EQ(config, Parsed("steps: {select: 5, skip: 3}\nmemory: {host: 2GiB, thread: false}\n"));
}

TEST(ApplySetting, ASectionIsMergedAListReplaced) {
  Config config = Parsed("memory: {host: 1GiB, thread: false}\ncapture: [{leaf: true}]\n");
  EXPECT_EQ(Apply({"memory", "{host: 2GiB}"}, &config), "");
  EXPECT_EQ(Apply({"steps", "3,7"}, &config), "");
  EXPECT_EQ(Apply({"capture", "[{name: mlp, level: hash}]"}, &config), "");
  EXPECT_EQ(config, Parsed("memory: {host: 2GiB, thread: false}\nsteps: [3, 7]\n"
                           "capture: [{name: mlp, level: hash}]\n"));
  EXPECT_EQ(OnlyRule(config).line, 0);
}

TEST(ApplySetting, TextIsTakenAsItStands) {
  Config config = DefaultConfig();
  EXPECT_EQ(Apply({"output.dir", "/a b: #[c]'\\", false}, &config), "");
  EXPECT_EQ(config.dir, "/a b: #[c]'\\");
}

TEST(ApplySetting, AMistakeChangesNothing) {
  Config config = DefaultConfig();
  EXPECT_EQ(Apply({"memory.hots", "1"}, &config),
            "--set: unknown key 'memory.hots'; expected one of host, device, at_limit, thread, "
            "max_block; did you "
            "mean 'memory.host'?");
  EXPECT_EQ(Apply({"memory.host", ""}, &config),
            "--set: memory.host: no value; expected auto | bytes, or no such key");
  EXPECT_THAT(Apply({"capture", "[{leaf: true"}, &config), HasSubstr("--set: not YAML: "));
  EXPECT_THAT(Apply({"capture", "[{leaf: true}, {nmae: x}]"}, &config),
              HasSubstr("did you mean 'name'?"));
  EXPECT_THAT(Apply({"", "1"}, &config), HasSubstr("unknown key ''"));
  EXPECT_THAT(Apply({"a..b.", "1"}, &config), HasSubstr("unknown key 'a'"));
  EXPECT_EQ(Apply({"output.dir", "\xff", false}, &config),
            "--set: output.dir: bytes that are not UTF-8; expected UTF-8 text");
  EXPECT_EQ(config, DefaultConfig());
}

TEST(ApplyLevel, GoesToEveryRuleThatKeepsSomething) {
  Config config = Parsed(
      "filters: {f: [{numel: 0, level: off}, {name: a}]}\n"
      "capture: {x: [{use: f}, {leaf: true}], y: [{level: off}, {level: meta}]}\n");
  EXPECT_TRUE(ApplyLevel("hash", "--level", &config).ok());
  EXPECT_EQ(config, Parsed("filters: {f: [{numel: 0, level: off}, {name: a, level: hash}]}\n"
                           "capture: {x: [{use: f}, {leaf: true, level: hash}], y: [{level: off}, "
                           "{level: hash}]}\n"));
}

TEST(ApplyLevel, TakesPartsWithArguments) {
  Config config = DefaultConfig();
  EXPECT_TRUE(ApplyLevel("[stats, 'slice[0:8, :]']", "--level", &config).ok());
  EXPECT_EQ(config.capture[0].rules[0].level, kPartMeta | kPartStats | kPartSlice);
  EXPECT_EQ(config.capture[0].rules[0].slice.size(), 2u);
  EXPECT_TRUE(ApplyLevel("slice[0:8, :]", "--level", &config).ok());
  EXPECT_EQ(config.capture[0].rules[0].level, kPartMeta | kPartSlice);
}

TEST(ApplyLevel, Mistakes) {
  Config config = DefaultConfig();
  EXPECT_EQ(ApplyLevel("ful", "--level", &config).message(),
            "--level: level: 'ful'; expected off | meta | hash | stats | sample[:N] | "
            "slice[0:8, :] | full; did you mean 'full'?");
  EXPECT_EQ(ApplyLevel("sample:0", "--level", &config).message(),
            "--level: level: 'sample:0': expected sample:N, N from 1 to 4096");
  EXPECT_FALSE(ApplyLevel("hash}, {name: x", "--level", &config).ok());
  EXPECT_EQ(config, DefaultConfig());
}

}  // namespace
}  // namespace tdump::filters
