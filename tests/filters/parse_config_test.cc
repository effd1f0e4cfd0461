// Whole files: defaults, every key of the configuration, and what is told about mistakes.
#include "filters/parse_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "parse.h"

namespace tdump::filters {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParseConfig, NothingIsTheDefaults) {
  EXPECT_EQ(Parsed(""), DefaultConfig());
  EXPECT_EQ(Parsed("version: 1\n"), DefaultConfig());
  const Config config = Parsed("");
  EXPECT_EQ(config.source, "c.yaml");
  EXPECT_EQ(config.steps.ToString(), "0-9");
  EXPECT_TRUE(config.ranks.is_all());
  ASSERT_EQ(config.capture.size(), 1u);
  const Rule& rule = OnlyRule(config);
  EXPECT_TRUE(rule.has_leaf && rule.leaf);
  EXPECT_THAT(rule.role, ElementsAre(Role::kOutput));
  EXPECT_THAT(rule.phase, ElementsAre(Phase::kForward));
  EXPECT_EQ(rule.level, kLevelFull);
}

TEST(ParseConfig, EveryKeyOfThisVersion) {
  const Config config = Parsed(R"(
version: 1
output: {dir: runs/a, if_exists: error, limit: 2GiB, at_limit: ring, layout: packed, durability: step, direct: off, mode: '0750'}
steps: {select: '3,7', boundary: 'forward:Decoder$', first: 41200, skip: 2, micro: 0}
ranks: [1, 3, -1]
collect: {modules: on, taps: off, aten: on}
names: {profile: none, roots: {EagleModel: draft}}
filters: {small: [{numel: 0-15, level: off}]}
capture: {a: [{use: small}, {leaf: true}], b: [{class: Linear, level: hash}]}
memory: {host: 512MiB, at_limit: drop, thread: false, max_block: 5%}
signature: false
recompute: drop
exit: {drain: 500ms}
strict: true
log: error
)");
  EXPECT_EQ(config.dir, "runs/a");
  EXPECT_TRUE(config.error_if_exists);
  EXPECT_EQ(config.limit_bytes, 2147483648u);
  EXPECT_TRUE(config.ring);
  EXPECT_TRUE(config.drop_recomputed);
  EXPECT_EQ(config.layout, OutputLayout::kPacked);
  EXPECT_EQ(config.durability, SyncLevel::kStep);
  EXPECT_FALSE(config.direct);
  EXPECT_EQ(config.mode, 0750);
  EXPECT_EQ(config.steps.ToString(), "3,7");
  EXPECT_EQ(config.boundary, "forward:Decoder$");
  EXPECT_EQ(config.first_step, 41200);
  EXPECT_EQ(config.skip_steps, 2u);
  EXPECT_EQ(config.micro.ToString(), "0");
  EXPECT_EQ(config.ranks.ToString(), "1,3,-1");
  EXPECT_EQ(config.modules, Tri::kOn);
  EXPECT_EQ(config.taps, Tri::kOff);
  EXPECT_TRUE(config.aten);
  EXPECT_THAT(config.roots,
              ElementsAre(std::pair<const std::string, std::string>("EagleModel", "draft")));
  EXPECT_EQ(config.filters.at("small").size(), 1u);
  ASSERT_EQ(config.capture.size(), 2u);
  EXPECT_EQ(config.capture[0].name, "a");
  EXPECT_EQ(config.capture[0].rules[0].use, "small");
  EXPECT_EQ(config.capture[1].rules[0].level, kPartMeta | kPartHash);
  EXPECT_EQ(config.host_bytes, 536870912u);
  EXPECT_EQ(config.full_arena, FullArena::kDrop);
  EXPECT_EQ(config.max_block_percent, 5u);
  EXPECT_FALSE(config.thread);
  EXPECT_FALSE(config.signature);
  EXPECT_EQ(config.drain_seconds, 0.5);
  EXPECT_TRUE(config.strict);
  EXPECT_EQ(config.log, "error");
}

TEST(ParseConfig, StepsHaveAShortForm) {
  EXPECT_EQ(Parsed("steps: 0-1").steps.ToString(), "0-1");
  EXPECT_EQ(Parsed("steps: [3, 7]").steps.ToString(), "3,7");
  EXPECT_EQ(Parsed("steps: all").steps, Spec::All());
  EXPECT_EQ(Parsed("steps: none").steps, Spec::None());
}

TEST(ParseConfig, OrdersOfKeysDoNotMatter) {
  EXPECT_EQ(Parsed("ranks: 1\nsteps: 0\n"), Parsed("steps: 0\nranks: 1\n"));
}

struct Mistake {
  const char* yaml;
  const char* told;  // all of it
};
class ParseConfigMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(ParseConfigMistake, IsTold) { EXPECT_EQ(Mistaken(GetParam().yaml), GetParam().told); }

INSTANTIATE_TEST_SUITE_P(
    All, ParseConfigMistake,
    ::testing::Values(
        Mistake{"steps: 0-1\nmemory: {hots: 1}\n",
                "c.yaml:2:10: unknown key 'memory.hots'; expected one of host, device, at_limit, "
                "thread, "
                "max_block; did you mean 'memory.host'?"},
        Mistake{"steps: 0-1\nsteps: 0-2\n",
                "c.yaml:2:1: 'steps' is given twice, first in line 1, again in line 2; expected "
                "each key once"},
        Mistake{"output: outputs\n", "c.yaml:1:9: output: 'outputs'; expected a map of keys"},
        Mistake{"steps: 9-0\n",
                "c.yaml:1:8: steps.select: '9-0', position 3: expected an end not below the start "
                "(like 0-9, 3,7, "
                "0-511:8, all, none)"},
        Mistake{"steps: -1\n", "c.yaml:1:8: steps.select: '-1'; expected no negative numbers"},
        Mistake{"steps: {select: {a: 1}}\n",
                "c.yaml:1:17: steps.select: a map; expected numbers such as 0-9, [3, 7], 0-511:8, "
                "all or none"},
        Mistake{"ranks: {dp: 0}\n",
                "c.yaml:1:8: ranks: a map is not in this version; expected rank numbers such as "
                "0-7,16, 0-511:8, "
                "[-1] or all"},
        Mistake{"ranks: one-per-node\n",
                "c.yaml:1:8: ranks: 'one-per-node' is not in this version; expected rank numbers "
                "such as 0-7,16, "
                "0-511:8, [-1] or all"},
        Mistake{"strict: yes\n", "c.yaml:1:9: strict: 'yes'; expected true | false"},
        Mistake{"strict: ture\n",
                "c.yaml:1:9: strict: 'ture'; expected true | false; did you mean 'true'?"},
        Mistake{"signature: ~\n", "c.yaml:1:12: signature: '~'; expected true | false"},
        Mistake{"collect: {aten: auto}\n", "c.yaml:1:17: collect.aten: 'auto'; expected on | off"},
        Mistake{"collect: {kernels: saves}\n",
                "c.yaml:1:20: collect.kernels: 'saves'; expected off | save | print | names; did "
                "you mean 'save'?"},
        Mistake{"breadcrumbs: {dir: here}\n",
                "c.yaml:1:20: breadcrumbs.dir: 'here'; expected auto, or the absolute path of a "
                "node-local directory"},
        Mistake{
            "breadcrumbs: {ranks: most}\n",
            "c.yaml:1:22: breadcrumbs.ranks: 'most', position 0: expected a number (like 0-9, 3,7, "
            "0-511:8, all, none)"},
        Mistake{
            "output: {layout: nodes}\n",
            "c.yaml:1:18: output.layout: 'nodes'; expected auto | pass | packed | node; did you "
            "mean 'node'?"},
        Mistake{"output: {limit: 0}\n",
                "c.yaml:1:17: output.limit: a limit of 0 bytes keeps nothing; expected auto, or "
                "bytes above 0"},
        Mistake{
            "output: {limit: 10 gigs}\n",
            "c.yaml:1:17: output.limit: '10 gigs'; expected bytes such as 512MiB, 10GB or 4096"},
        Mistake{"output: {mode: 444}\n",
                "c.yaml:1:16: output.mode: '444'; expected an octal mode in quotes that lets the "
                "owner in, such as "
                "'0700' or '0750'"},
        Mistake{
            "output: {mode: '07500000000000000'}\n",
            "c.yaml:1:16: output.mode: '07500000000000000'; expected an octal mode in quotes that "
            "lets the owner in, such as '0700' or '0750'"},
        Mistake{"output: {dir: ''}\n",
                "c.yaml:1:15: output.dir: ''; expected the path of a directory"},
        Mistake{"output: {dir: \"a\\0b\"}\n",
                "c.yaml:1:15: output.dir: 'a\\x00b'; expected the path of a directory"},
        Mistake{"capture: [{where: \"/a\\0/f.py:fn\"}]\n",
                "c.yaml:1:19: capture[0].where: predicate '/a\\x00/f.py:fn': a zero byte "
                "(pkg.mod:fn, /path/f.py:fn or /path/l.so:fn)"},
        Mistake{"output: {dir: [a]}\n", "c.yaml:1:15: output.dir: a list; expected text"},
        Mistake{"memory: {host: 0}\n",
                "c.yaml:1:16: memory.host: an arena of 0 bytes holds nothing; expected auto, or "
                "bytes above 0"},
        Mistake{
            "memory: {max_block: 120%}\n",
            "c.yaml:1:21: memory.max_block: '120%'; expected a share of the step's time from 0% to "
            "100% (no limit)"},
        Mistake{"triggers: [{if: nan}]\n",
                "c.yaml:1:11: triggers: a list is not in this version; expected [], which is the "
                "default"},
        Mistake{"history: {steps: 8}\n",
                "c.yaml:1:18: history.steps: '8' is not in this version; expected 0, which is the "
                "default"},
        Mistake{"steps: {boundary: op}\n",
                "c.yaml:1:19: steps.boundary: 'op' names no operator; expected op:REGEX"},
        Mistake{
            "steps: {boundary: 'forward:a(b'}\n",
            "c.yaml:1:19: steps.boundary: regex 'a(b': missing closing parenthesis at position 3"},
        Mistake{"steps: {boundary: optimiser}\n",
                "c.yaml:1:19: steps.boundary: 'optimiser'; expected auto | optimizer | backward | "
                "forward | "
                "explicit; did you mean 'optimizer'?"},
        Mistake{"steps: {first: -5}\n",
                "c.yaml:1:16: steps.first: '-5'; expected a whole number, 0 or more"},
        Mistake{"version: 2\n", "c.yaml:1:10: version: '2'; expected 1"},
        Mistake{"log: verbose\n",
                "c.yaml:1:6: log: 'verbose'; expected debug | info | warning | error"},
        Mistake{"exit: {drain: soon}\n",
                "c.yaml:1:15: exit.drain: 'soon'; expected a time such as 30s, 500ms or 2m"},
        Mistake{"- steps: 0\n",
                "c.yaml:1:1: a list; expected keys such as 'steps: 0-9' and 'capture:'"},
        Mistake{"just words\n",
                "c.yaml:1:1: 'just words'; expected keys such as 'steps: 0-9' and 'capture:'"},
        Mistake{"capture: leaf\n",
                "c.yaml:1:10: capture: 'leaf'; expected a list of rules, or a map of such lists"},
        Mistake{"filters: [a]\n",
                "c.yaml:1:10: filters: a list; expected a map from a name to a list of rules"},
        Mistake{"strict:\n",
                "c.yaml:1:1: strict: no value; expected true | false, or no such key"}));

TEST(ParseConfig, AKeyInTheWrongPlaceIsSentToTheRightOne) {
  EXPECT_THAT(Mistaken("level: full\n"),
              StartsWith("c.yaml:1:1: unknown key 'level', a key of the rules in 'capture'; "));
  EXPECT_THAT(Mistaken("leaf: true\n"), HasSubstr("'leaf', a key of the rules in 'capture'; "));
  EXPECT_THAT(Mistaken("output: {directory: x}\n"), EndsWith("did you mean 'output.dir'?"));
  EXPECT_THAT(Mistaken("compress: zstd\n"), EndsWith("did you mean 'output.compress'?"));
  EXPECT_THAT(Mistaken("topology: {dp: 2}\n"), EndsWith("did you mean 'topology.size'?"));
}

TEST(ParseConfig, ASliceInBracesIsQuoted) {
  EXPECT_THAT(Mistaken("capture: [{leaf: true, level: slice[0:8]}]\n"),
              EndsWith("inside braces a slice is put in quotes: level: 'slice[0:8]'"));
  EXPECT_EQ(Mistaken("capture: [{leaf: true, level: 'slice[0:8]'}]\n"), "");
}

TEST(ParseConfig, AllMistakesOfAFileAtOnce) {
  EXPECT_EQ(
      Mistaken("stpes: 0\nstrict: maybe\ncapture:\n  - {nmae: x}\n  - {name: 'a(b', level: ful}\n"),
      "c.yaml:1:1: unknown key 'stpes'; expected one of version, output, steps, ranks, topology, "
      "collect, "
      "names, filters, capture, memory, triggers, signature, history, breadcrumbs, signal, "
      "control, compile, "
      "cuda_graphs, recompute, exit, strict, log; did you mean 'steps'?\n"
      "c.yaml:2:9: strict: 'maybe'; expected true | false\n"
      "c.yaml:4:6: unknown key 'capture[0].nmae'; expected one of use, leaf, name, arg, layers, "
      "class, op, "
      "kernel, comm, role, phase, dtype, numel, call, max, where, steps, ranks, level, compress, "
      "dims; did "
      "you mean "
      "'name'?\n"
      "c.yaml:5:12: capture[1].name: regex 'a(b': missing closing parenthesis at position 3\n"
      "c.yaml:5:26: capture[1].level: 'ful'; expected off | meta | hash | stats | sample[:N] | "
      "slice[0:8, :] | full; did you mean "
      "'full'?");
}

TEST(ParseConfig, WhatIsGivenTwiceNamesBothLines) {  // K01
  // A key of a rule, a name in `filters`, a filter set of `capture`, and a whole section.
  EXPECT_EQ(Mistaken("filters:\n"
                     "  norms:\n"
                     "    - {name: a}\n"
                     "  norms:\n"
                     "    - {name: b}\n"
                     "capture:\n"
                     "  all:\n"
                     "    - use: norms\n"
                     "      level: hash\n"
                     "      use: norms\n"
                     "  'all':\n"
                     "    - {name: c}\n"
                     "filters: {}\n"),
            "c.yaml:4:3: 'norms' is given twice, first in line 2, again in line 4; expected each "
            "key once\n"
            "c.yaml:10:7: 'use' is given twice, first in line 8, again in line 10; expected each "
            "key once\n"
            "c.yaml:11:3: 'all' is given twice, first in line 7, again in line 11; expected each "
            "key once\n"
            "c.yaml:13:1: 'filters' is given twice, first in line 1, again in line 13; expected "
            "each key once");
  // Three times is told twice; the same key of two rules is none.
  EXPECT_EQ(Mistaken("log: info\nlog: info\nlog: info\n"),
            "c.yaml:2:1: 'log' is given twice, first in line 1, again in line 2; expected each key "
            "once\n"
            "c.yaml:3:1: 'log' is given twice, first in line 1, again in line 3; expected each key "
            "once");
  EXPECT_EQ(Mistaken("capture:\n  - {name: a}\n  - {name: a}\n"), "");
}

TEST(ParseConfig, ADirectoryTooLongForTheSystemIsRefused) {  // I03
  const std::string dir(4000, 'd');
  EXPECT_EQ(Mistaken("output: {dir: " + dir + "}\n"), "");
  EXPECT_EQ(Mistaken("output: {dir: " + dir + "d}\n"),
            "c.yaml:1:15: output.dir: a path of 4001 bytes; expected the path of a directory, at "
            "most 4000 bytes");
}

TEST(ParseConfig, KeysOfLaterVersionsPassWithTheirDefault) {
  EXPECT_EQ(
      Parsed(
          "triggers: []\nhistory: {steps: 0, level: stats}\ncollect: {kernels: off}\nsignal: none\n"
          "cuda_graphs: {slots: 256MiB}\ncapture: [{layers: all, kernel: [], leaf: true}]\n"),
      DefaultConfig());
}

TEST(ParseConfig, AMergeKeyIsUnknown) {
  EXPECT_THAT(Mistaken("capture:\n  - &a {leaf: true}\n  - {<<: *a, level: hash}\n"),
              StartsWith("c.yaml:3:6: unknown key 'capture[1].<<'"));
}

TEST(ParseConfig, AnAliasedRuleIsARule) {
  const Config config = Parsed("capture:\n  a: [&r {leaf: true, level: hash}]\n  b: [*r]\n");
  EXPECT_EQ(config.capture[0].rules, config.capture[1].rules);
}

TEST(LoadConfig, NamesTheFile) {
  EXPECT_THAT(LoadConfig("/no/such.yaml", "such.yaml").status().message(),
              HasSubstr("/no/such.yaml"));
  EXPECT_FALSE(LoadConfig(::testing::TempDir(), "dir").ok());
  const std::string path =
      ::testing::TempDir() + "load_config_test_" + std::to_string(::getpid()) + ".yaml";
  std::ofstream(path) << "stpes: 0\n";
  EXPECT_THAT(LoadConfig(path, "my.yaml").status().message(),
              StartsWith("my.yaml:1:1: unknown key"));
  std::filesystem::resize_file(path, (1 << 20) + 1);
  EXPECT_THAT(LoadConfig(path, "my.yaml").status().message(),
              HasSubstr("expected at most 1048576 bytes"));
}

}  // namespace
}  // namespace tdump::filters
