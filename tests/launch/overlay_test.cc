// Defaults < file < environment < command line.
#include "launch/config/overlay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "filters/parse_config.h"
#include "launch/config/effective_config.h"
#include "launch/tdump_run/world.h"

namespace tdump::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A file of this process: the tests of this file run beside each other.
std::string Written(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + std::to_string(::getpid()) + "_" + name;
  std::ofstream(path) << text;
  return path;
}

filters::Config Effective(const std::string& yaml, const std::vector<Overlay>& overlays) {
  auto effective = MakeEffectiveConfig(Written("overlay_test.yaml", yaml), "c.yaml", overlays, 0);
  EXPECT_TRUE(effective.ok()) << effective.status().message();
  return effective.ok() ? effective->config : filters::Config();
}

Overlay CommandLine(const std::string& key, const std::string& value) {
  Overlay overlay;
  overlay.settings.push_back({"command line", {key, value}});
  return overlay;
}

TEST(Overlay, EachLayerWinsOverTheOneBelow) {
  const std::string yaml = "steps: 1\n";
  const Overlay environment = OverlayOfEnvironment({{"TDUMP_STEPS", "2"}});
  EXPECT_EQ(Effective("", {}).steps.ToString(), "0-9");
  EXPECT_EQ(Effective(yaml, {}).steps.ToString(), "1");
  EXPECT_EQ(Effective(yaml, {environment}).steps.ToString(), "2");
  EXPECT_EQ(Effective(yaml, {environment, CommandLine("steps", "3")}).steps.ToString(), "3");
}

TEST(Overlay, EveryVariable) {
  const filters::Config config = Effective("capture: [{name: x, level: hash}]\n",
                                           {OverlayOfEnvironment({{"TDUMP_DIR", "/a: b"},
                                                                  {"TDUMP_STEPS", "3,7"},
                                                                  {"TDUMP_RANKS", "-1"},
                                                                  {"TDUMP_LOG", "debug"},
                                                                  {"TDUMP_LEVEL", "meta"},
                                                                  {"TDUMP_OTHER", "x"}})});
  EXPECT_EQ(config.dir, "/a: b");
  EXPECT_EQ(config.steps.ToString(), "3,7");
  EXPECT_EQ(config.ranks.ToString(), "-1");
  EXPECT_EQ(config.log, "debug");
  EXPECT_EQ(config.capture[0].rules[0].level, kPartMeta);
}

TEST(Overlay, EmptyVariablesCountAsNone) {
  const Overlay overlay =
      OverlayOfEnvironment({{"TDUMP_DIR", ""}, {"TDUMP_FILTER", ""}, {"TDUMP_LEVEL", ""}});
  EXPECT_EQ(Effective("", {overlay}), filters::DefaultConfig());
}

// With kernels the default rule goes; the same rule stays where somebody wrote it.
TEST(Overlay, KernelsTakeThePlaceOfTheDefaultRule) {
  const Overlay kernels = CommandLine("collect.kernels", "save");
  const auto rules = [](const std::string& yaml, const std::vector<Overlay>& overlays) {
    // As the job reads what tdump-run hands over.
    const auto made =
        MakeEffectiveConfig(Written("overlay_test.yaml", yaml), "c.yaml", overlays, 0);
    const auto read = filters::ParseConfig(made->yaml, "job");
    return read->capture.empty() ? size_t{0} : read->capture[0].rules.size();
  };
  EXPECT_EQ(rules("", {}), 1u);
  EXPECT_EQ(rules("", {kernels}), 0u);
  EXPECT_EQ(rules("capture: [{leaf: true}]\n", {kernels}), 1u);
  EXPECT_EQ(rules("", {kernels, CommandLine("capture", "[{leaf: true}]")}), 1u);
}

TEST(Overlay, AFilterIsOneRuleForLeafOutputs) {
  const filters::Config config = Effective(
      "capture: {a: [{level: hash}], b: [{}]}\n",
      {OverlayOfEnvironment({{"TDUMP_FILTER", "a,b: [c]"}, {"TDUMP_FILTER_FN", "pkg.mod:fn"}})});
  ASSERT_EQ(config.capture.size(), 1u);
  ASSERT_EQ(config.capture[0].rules.size(), 1u);
  filters::Rule expected = filters::DefaultRule();
  expected.name = {"a,b: [c]"};  // one regex, whatever is in it
  expected.where = "pkg.mod:fn";
  EXPECT_EQ(config.capture[0].rules[0], expected);
}

TEST(Overlay, ALevelGoesToTheFilterOfAHigherLayer) {
  Overlay command_line;
  command_line.names.push_back({"command line", "mlp"});
  const filters::Config config =
      Effective("", {OverlayOfEnvironment({{"TDUMP_LEVEL", "hash"}}), command_line});
  EXPECT_EQ(config.capture[0].rules[0].name, std::vector<std::string>{"mlp"});
  EXPECT_EQ(config.capture[0].rules[0].level, kPartMeta | kPartHash);
}

TEST(Overlay, MistakesOfAllLayersAtOnce) {
  Overlay command_line = CommandLine("memory.hots", "1");
  command_line.names.push_back({"command line", "a(b"});
  const auto effective = MakeEffectiveConfig(
      Written("overlay_test.yaml", "stpes: 1\n"), "c.yaml",
      {OverlayOfEnvironment(
           {{"TDUMP_STEPS", "x"}, {"TDUMP_FILTER_FN", "nonsense"}, {"TDUMP_LEVEL", "ful"}}),
       command_line},
      0);
  const std::string& told = effective.status().message();
  for (const char* part :
       {"c.yaml:1:1: unknown key 'stpes'", "\nTDUMP_STEPS: steps.select: 'x'",
        "\nTDUMP_FILTER_FN: predicate 'nonsense'", "\nTDUMP_LEVEL: level: 'ful'",
        "\ncommand line: unknown key 'memory.hots'", "\ncommand line: regex 'a(b'"})
    EXPECT_THAT(told, HasSubstr(part));
}

TEST(Overlay, ValuesThatNobodyMeant) {
  for (const char* variable : {"TDUMP_DIR", "TDUMP_STEPS", "TDUMP_RANKS", "TDUMP_LOG",
                               "TDUMP_LEVEL", "TDUMP_FILTER", "TDUMP_FILTER_FN"}) {
    for (const std::string& value : {std::string("\xff\xfe\x80"), std::string(65536, 'x')}) {
      const auto effective =
          MakeEffectiveConfig("", "defaults", {OverlayOfEnvironment({{variable, value}})}, 0);
      EXPECT_FALSE(effective.ok()) << variable;
      EXPECT_THAT(effective.status().message(), HasSubstr(variable));
      EXPECT_LT(effective.status().message().size(), 1000u) << variable;
    }
  }
}

TEST(EffectiveConfig, RanksOfTheCommandLineHaveNoPlaceInTheFile) {
  const auto effective = MakeEffectiveConfig(Written("overlay_test.yaml", "ranks: 0\n"), "c.yaml",
                                             {CommandLine("ranks", "9")}, 4);
  EXPECT_THAT(effective.status().message(),
              HasSubstr("c.yaml: ranks: 9 is out of range: the job has 4 ranks"));
}

TEST(EffectiveConfig, PredicateFilesBecomeAbsolute) {
  const std::string path = Written("overlay_predicate.py", "");
  const auto old = std::filesystem::current_path();
  std::filesystem::current_path(::testing::TempDir());
  const std::string name = std::filesystem::path(path).filename();
  const filters::Config config = Effective("capture: [{where: '" + name + ":fn'}]\n", {});
  EXPECT_EQ(config.capture[0].rules[0].where,
            (std::filesystem::current_path() / name).string() + ":fn");
  std::filesystem::current_path(old);
}

// The parts that are handed over, joined, are the text.
TEST(HandOver, LargeConfigurationsTravelInParts) {
  std::string yaml = "capture:\n";
  for (int i = 0; i < 4000; ++i)
    yaml += "  - {name: 'encoder\\.layer\\." + std::to_string(i) + "\\.attention', level: hash}\n";
  const auto effective = MakeEffectiveConfig(Written("overlay_large.yaml", yaml), "c.yaml", {}, 0);
  ASSERT_TRUE(effective.ok()) << effective.status().message();
  const auto changes =
      HandOver(*effective, {{"TDUMP_EFFECTIVE_4", "left over"}, {"TDUMP_EFFECTIVE_9", "x"}});
  ASSERT_TRUE(changes.ok());
  std::string joined;
  for (const auto& [name, value] : *changes) {
    EXPECT_LE(value.size(), 64u * 1024);
    if (name != "TDUMP_EFFECTIVE_FROM") joined += value;
  }
  EXPECT_EQ(joined, effective->yaml);
  EXPECT_GT(joined.size(), 3u * 64 * 1024);
  EXPECT_EQ(changes->back(), (std::pair<std::string, std::string>("TDUMP_EFFECTIVE_4", "")));
  EXPECT_EQ(filters::ParseConfig(joined, "again").value(), effective->config);
}

TEST(HandOver, TheJobReadsWhatWasHandedOver) {
  std::string yaml = "ranks: 1\ncapture:\n";
  for (int i = 0; i < 1500; ++i)
    yaml += "  - {name: 'a" + std::to_string(i) + "\\.attention\\.self\\.query$', level: hash}\n";
  const auto effective = MakeEffectiveConfig(Written("overlay_large.yaml", yaml), "my.yaml", {}, 0);
  ASSERT_TRUE(effective.ok()) << effective.status().message();
  ASSERT_GT(effective->yaml.size(), 64u * 1024);
  const auto changes = HandOver(*effective, {}).value();
  for (const auto& [name, value] : changes) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("TDUMP_STEPS", "77", 1);  // laid over already, or not meant for this job
  const auto received = EffectiveConfigOfProcess();
  for (const auto& [name, value] : changes) ::unsetenv(name.c_str());
  ::unsetenv("TDUMP_STEPS");
  ASSERT_TRUE(received.ok()) << received.status().message();
  EXPECT_EQ(received->config, effective->config);
  EXPECT_EQ(received->config.source, "my.yaml");
  EXPECT_EQ(received->yaml, effective->yaml);
}

TEST(EffectiveConfig, AProcessWithoutTdumpRunAsksItsEnvironment) {
  const std::string path = Written("overlay_process.yaml", "steps: 5\nranks: 2\n");
  ::setenv("TDUMP_CONFIG", path.c_str(), 1);
  ::setenv("TDUMP_RANKS", "3", 1);
  const auto found = EffectiveConfigOfProcess();
  ::unsetenv("TDUMP_CONFIG");
  ::unsetenv("TDUMP_RANKS");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->config.steps.ToString(), "5");
  EXPECT_EQ(found->config.ranks.ToString(), "3");
  EXPECT_EQ(found->config.source, path);
  EXPECT_EQ(EffectiveConfigOfProcess()->config.source, "defaults");
}

TEST(HandOver, WhatNoEnvironmentHoldsIsRefused) {
  std::string yaml = "capture:\n";
  for (int i = 0; i < 9000; ++i)
    yaml += "  - {name: 'encoder\\.layer\\." + std::to_string(i) +
            "\\.attention\\.self', level: hash}\n";
  const auto effective = MakeEffectiveConfig(Written("overlay_large.yaml", yaml), "c.yaml", {}, 0);
  ASSERT_TRUE(effective.ok()) << effective.status().message();
  EXPECT_THAT(HandOver(*effective, {}).status().message(), HasSubstr("expected at most 524288"));
}

TEST(KnownWorld, OnlyWhereProcessesOfTheLauncherBecomeRanks) {
  const Environment mpi = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  EXPECT_EQ(KnownWorld({"python", "app.py"}, {}), 0);
  EXPECT_EQ(KnownWorld({"python", "app.py"}, mpi), 4);
  EXPECT_EQ(KnownWorld({"torchrun", "app.py"}, mpi), 0);
  EXPECT_EQ(KnownWorld({"python", "-m", "torch.distributed.run", "app.py"}, mpi), 0);
  EXPECT_EQ(KnownWorld({"bash", "-c", "exec torchrun app.py"}, mpi), 0);
  const auto slurm = [](const char* tasks, const char* nodes) {
    return Environment{{"SLURM_PROCID", "0"},           {"SLURM_NTASKS", tasks},
                       {"SLURM_STEP_NUM_NODES", nodes}, {"SLURM_LOCALID", "0"},
                       {"SLURM_JOB_ID", "7"},           {"SLURM_STEP_ID", "0"}};
  };
  EXPECT_EQ(KnownWorld({"./train"}, slurm("8", "2")), 8);
  EXPECT_EQ(KnownWorld({"bash", "train.sh"}, slurm("2", "2")), 0);
}

int OfTorchrun(const std::vector<std::string>& options, const Environment& present = {}) {
  std::vector<std::string> command = {"torchrun"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"train.py", "--nproc-per-node", "99", "--nnodes=99"});
  return KnownWorld(command, present);
}

TEST(KnownWorld, AsManyAsTorchrunIsToldToMake) {
  EXPECT_EQ(OfTorchrun({"--nproc-per-node", "4"}), 4);
  EXPECT_EQ(OfTorchrun({"--nproc_per_node=4"}), 4);
  EXPECT_EQ(OfTorchrun({"--nnodes=2", "--nproc-per-node=4", "--node_rank", "1"}), 8);
  EXPECT_EQ(OfTorchrun({"--nnodes", "2:2", "--nproc_per_node", "4", "-m"}), 8);
  EXPECT_EQ(OfTorchrun({"--standalone", "-r3", "-t", "2", "--nproc-per-node", "4"}), 4);
  EXPECT_EQ(OfTorchrun({"--nproc-per-node", "2", "--nproc-per-node", "4"}), 4);
  EXPECT_EQ(OfTorchrun({}, {{"PET_NPROC_PER_NODE", "4"}, {"PET_NNODES", "3"}}), 12);
  EXPECT_EQ(OfTorchrun({"--nproc-per-node=2"}, {{"PET_NPROC_PER_NODE", "4"}}), 2);
  // One task a node, each of them a torchrun.
  EXPECT_EQ(OfTorchrun({"--nnodes=2", "--nproc-per-node=8"}, {{"SLURM_PROCID", "0"},
                                                              {"SLURM_NTASKS", "2"},
                                                              {"SLURM_STEP_NUM_NODES", "2"},
                                                              {"SLURM_JOB_ID", "7"}}),
            16);
}

TEST(KnownWorld, TorchrunByAnyOfItsNames) {
  const auto by = [](std::vector<std::string> command) {
    command.insert(command.end(), {"--nproc-per-node", "4", "train.py"});
    return KnownWorld(command, {});
  };
  EXPECT_EQ(by({"/opt/venv/bin/torchrun"}), 4);
  EXPECT_EQ(by({"python", "-m", "torch.distributed.run"}), 4);
  EXPECT_EQ(by({"/usr/bin/python3.11", "-u", "-X", "dev", "-m", "torch.distributed.launch"}), 4);
  EXPECT_EQ(by({"python3", "/opt/venv/bin/torchrun"}), 4);
  EXPECT_EQ(by({"python3", "train_torchrun.py"}), 0);
  EXPECT_EQ(by({"python3", "-m", "train"}), 0);
  EXPECT_EQ(by({"nice", "torchrun"}), 0);  // what it does is not known here
  EXPECT_EQ(by({"python3"}), 0);
}

TEST(KnownWorld, WhatOnlyTorchrunFindsOutIsNotKnown) {
  EXPECT_EQ(OfTorchrun({}), 0);
  for (const char* number : {"gpu", "auto", "cpu", "0", "-1", "4x", "99999999999"})
    EXPECT_EQ(OfTorchrun({"--nproc-per-node", number}), 0) << number;
  for (const char* nodes : {"1:4", "0", "x", "2:", "1000000000"})
    EXPECT_EQ(OfTorchrun({"--nnodes", nodes, "--nproc-per-node", "4"}), 0) << nodes;
  EXPECT_EQ(OfTorchrun({"--an-option-to-come", "7", "--nproc-per-node", "4"}), 0);
  EXPECT_EQ(OfTorchrun({"--nproc", "4"}), 0);  // argparse takes it where it is not ambiguous
  EXPECT_EQ(KnownWorld({"torchrun", "--nproc-per-node"}, {}), 0);
}

// Ranks that share the directory of an --estimate are those of the launcher above.
TEST(LauncherWorld, IsNotWhatTorchrunMakes) {
  EXPECT_EQ(LauncherWorld({"torchrun", "--nproc-per-node", "4", "train.py"}, {}), 0);
  EXPECT_EQ(
      LauncherWorld({"./train"}, {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
      4);
}

}  // namespace
}  // namespace tdump::launch
