// Every switch of tdump-diff that changes a verdict, off and on, on input where it matters: one
// number where that makes sense, a vector, and a matrix of more than a tile (docs/faults.md, D06).
#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A tensor of `count` numbers 1; `last` is the last of them.
struct Shape {
  const char* name;
  std::vector<int64_t> sizes;
  size_t count;
};
const Shape kShapes[] = {{"scalar", {}, 1}, {"vector", {3}, 3}, {"matrix", {70, 100}, 7000}};

TensorImage Floats(const Shape& shape, float last, const std::string& path = "mlp") {
  std::vector<float> values(shape.count, 1.0f);
  values.back() = last;
  return {
      .path = path, .bytes = BytesOf(values), .dtype = "float32", .bits = 32, .sizes = shape.sizes};
}
TensorImage Bfloats(const Shape& shape) {
  const std::vector<uint16_t> values(shape.count, 0x3F80);
  return {.path = "mlp",
          .bytes = BytesOf(values),
          .dtype = "bfloat16",
          .bits = 16,
          .sizes = shape.sizes};
}

class DiffSwitchesTest : public test::ScratchTest {
 protected:
  void Make(const std::string& name, const std::vector<TensorImage>& tensors,
            const std::vector<TensorImage>& second_step = {}) {
    std::filesystem::remove_all(Path(name));
    ProcessImage process(env_, Path(name), {});
    process.Tensors(0, tensors);
    if (!second_step.empty()) process.Tensors(1, second_step).Map(0, 0, 1).Map(1, 1, 1);
    process.Exit(second_step.empty() ? 1 : 2);
  }
  // Two ranks.
  void MakeRanks(const std::string& name, const TensorImage& first, const TensorImage& second) {
    MakeAll(name, {first, second});
  }
  // A rank for each tensor.
  void MakeAll(const std::string& name, const std::vector<TensorImage>& tensors) {
    std::filesystem::remove_all(Path(name));
    const auto world = static_cast<int32_t>(tensors.size());
    for (int32_t rank = 0; rank < world; ++rank) {
      ProcessImage(env_, Path(name), {.rank = rank, .world = world})
          .Tensors(0, {tensors[static_cast<size_t>(rank)]})
          .Exit(1);
    }
  }
  // Another byte on disk where these are.
  void Damage(const std::string& name, const std::string& bytes) {
    size_t found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path(name))) {
      if (entry.path().extension() != ".tdp") continue;
      std::string file = Text(entry.path());
      const size_t at = file.find(bytes);
      if (at == std::string::npos) continue;
      ++found;
      file[at] = static_cast<char>(file[at] ^ 1);
      std::ofstream(entry.path(), std::ios::binary) << file;
    }
    EXPECT_EQ(found, 1u);
  }
  void Bounds(const std::string& yaml) { std::ofstream(Path("bounds.yaml")) << yaml; }

  // Exit status without and with the switch.
  void ExpectFlip(const Shape& shape, const std::vector<std::string>& with, int status_without,
                  int status_with) {
    EXPECT_EQ(Run("tdump-diff", {"a", "b"}).status, status_without) << shape.name << with[0];
    std::vector<std::string> arguments = {"a", "b"};
    arguments.insert(arguments.end(), with.begin(), with.end());
    const auto done = Run("tdump-diff", arguments);
    EXPECT_EQ(done.status, status_with) << shape.name << with[0] << done.out << done.err;
  }
};

TEST_F(DiffSwitchesTest, EachFlipsTheVerdict) {
  for (const Shape& shape : kShapes) {
    const TensorImage good = Floats(shape, 1), near = Floats(shape, 1.0f + 0x1p-23f),
                      bad = Floats(shape, 2);
    Make("a", {good});
    Make("b", {near});
    ExpectFlip(shape, {"--require", "bitwise"}, 0, 1);
    Bounds("bounds: [{name: mlp, expect: max_abs == 0}]");
    ExpectFlip(shape, {"--bounds", "bounds.yaml"}, 0, 1);

    Make("b", {bad});
    Bounds("bounds: [{name: mlp, expect: max_abs <= 1}]");
    ExpectFlip(shape, {"--bounds", "bounds.yaml"}, 1, 0);
    ExpectFlip(shape, {"--allow-failed", "^mlp$"}, 1, 0);
    Make("a2", {Floats(shape, 1.5f)});  // a repeat of A that is half as far from it
    ExpectFlip(shape, {"--noise", "a2"}, 1, 0);
    Make("a2", {near});
    ExpectFlip(shape, {"--noise", "a2"}, 1, 1);

    Make("b", {Bfloats(shape)});
    ExpectFlip(shape, {"--compute", "bf16"}, 1, 0);
    ExpectFlip(shape, {"--compute", "fp16"}, 1, 1);
    Bounds("bounds: [{name: mlp, allow: dtype}]");
    ExpectFlip(shape, {"--bounds", "bounds.yaml"}, 1, 0);

    Make("a", {good, Floats(shape, 1, "norm")});
    Make("b", {good, Floats(shape, 2, "norm")});
    ExpectFlip(shape, {"--select", "mlp"}, 1, 0);
    Make("b", {good});
    ExpectFlip(shape, {"--allow-unpaired", "^norm$"}, 1, 0);

    Make("a", {good}, {good});
    Make("b", {good}, {bad});
    ExpectFlip(shape, {"--steps", "0"}, 1, 0);
    ExpectFlip(shape, {"--steps", "0-1"}, 1, 1);

    Make("a", {good}, {good});
    Make("b", {bad}, {good});  // step 1 is the same work as step 0 of A
    ExpectFlip(shape, {"--steps", "0=1"}, 1, 0);
    ExpectFlip(shape, {"--steps", "0=0"}, 1, 1);

    MakeRanks("a", good, good);
    MakeRanks("b", good, bad);
    ExpectFlip(shape, {"--ranks", "0"}, 1, 0);
    ExpectFlip(shape, {"--ranks", "1"}, 1, 1);
  }
}

TEST_F(DiffSwitchesTest, RulesAllowKindsOfDifferences) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  const auto allow = [&](const char* kind) {
    Bounds(std::string("bounds: [{name: mlp, allow: [") + kind + "]}]");
    return std::vector<std::string>{"--bounds", "bounds.yaml"};
  };
  for (const Shape& shape : kShapes) {
    const TensorImage other = Floats(shape, 1, "norm");
    Make("a", {Floats(shape, 1), other});
    Make("b", {Floats(shape, nan), other});
    ExpectFlip(shape, allow("nan"), 1, 0);
    ExpectFlip(shape, allow("inf"), 1, 1);
    Make("b", {Floats(shape, inf), other});
    ExpectFlip(shape, allow("inf"), 1, 0);
    ExpectFlip(shape, allow("nan"), 1, 1);
    Shape longer = shape;  // one more dimension, of one
    longer.sizes.push_back(1);
    Make("b", {Floats(longer, 1), other});
    ExpectFlip(shape, allow("shape"), 1, 0);
    ExpectFlip(shape, allow("dtype"), 1, 1);
  }
}

// A number has no part.
TEST_F(DiffSwitchesTest, AlignComparesThePartThatBothHave) {
  const Shape vector = {"vector", {2}, 2}, longer = {"longer", {3}, 3};
  const Shape matrix = {"matrix", {70, 100}, 7000}, taller = {"taller", {71, 100}, 7100};
  for (const auto& [small, large] : {std::pair(vector, longer), std::pair(matrix, taller)}) {
    Make("a", {Floats(small, 1)});
    Make("b", {Floats(large, 99)});  // in the padding
    ExpectFlip(small, {"--align", "^mlp$"}, 1, 0);
    ExpectFlip(small, {"--align", "^norm$"}, 1, 1);
    Make("a", {Floats(small, 2)});  // in the part that both have
    ExpectFlip(small, {"--align", "^mlp$"}, 1, 1);
  }
}

// Hashes are taken for the values: only a reader of values finds that a byte on disk is another.
TEST_F(DiffSwitchesTest, VerifyReadsTheValues) {
  for (const Shape& shape : kShapes) {
    const TensorImage tensor = Floats(shape, 3.14159f);
    Make("a", {tensor});
    Make("b", {tensor});
    ExpectFlip(shape, {"--verify"}, 0, 0);
    Damage("b", tensor.bytes.substr(tensor.bytes.size() - 4));
    ExpectFlip(shape, {"--verify"}, 0, 2);
  }
}

TEST_F(DiffSwitchesTest, AlignedStepsWereGivenTheSameTokens) {
  const auto step = [](int64_t token, const Shape& shape, float last) {
    TensorImage ids = {.path = ".",
                       .bytes = BytesOf(std::vector<int64_t>{token, token + 1}),
                       .dtype = "int64",
                       .bits = 64,
                       .sizes = {2},
                       .role = Role::kInput,
                       .arg = "ids"};
    return std::vector<TensorImage>{ids, Floats(shape, last)};
  };
  for (const Shape& shape : kShapes) {
    Make("a", step(10, shape, 1), step(20, shape, 2));
    Make("b", step(5, shape, 7), step(10, shape, 1));
    ExpectFlip(shape, {"--steps", "auto"}, 1, 0);
    Make("b", step(5, shape, 7), step(10, shape, 8));
    ExpectFlip(shape, {"--steps", "auto"}, 1, 1);
  }
}

// One rank of A against two of B. A number is in no shards.
TEST_F(DiffSwitchesTest, DimsAndTopologySayHowRanksShareATensor) {
  const auto numbers = [](std::vector<int64_t> sizes, const std::vector<float>& values) {
    return TensorImage{.path = "mlp",
                       .bytes = BytesOf(values),
                       .dtype = "float32",
                       .bits = 32,
                       .sizes = std::move(sizes)};
  };
  const Shape vector = {"vector", {4}, 4}, matrix = {"matrix", {2, 4}, 8};
  // Blocks of one are dealt in turn, which is not among what is inferred.
  Make("a", {numbers({4}, {1, 2, 30, 40})});
  MakeRanks("b", numbers({2}, {1, 30}), numbers({2}, {2, 40}));
  ExpectFlip(vector, {"--dims", "B:mlp: h[tp:striped]"}, 1, 0);
  ExpectFlip(vector, {"--dims", "B:mlp: h[tp]"}, 1, 1);
  Make("a", {numbers({2, 4}, {1, 2, 30, 40, 5, 6, 70, 80})});
  MakeRanks("b", numbers({2, 2}, {1, 30, 5, 70}), numbers({2, 2}, {2, 40, 6, 80}));
  ExpectFlip(matrix, {"--dims", "B:mlp: b h[tp:striped]"}, 1, 0);
  ExpectFlip(matrix, {"--dims", "B:mlp: b h[tp:zigzag]"}, 1, 1);

  // Of equal numbers of ranks, those of B hold two halves in turn: places say which.
  const std::vector<TensorImage> halves = {numbers({2}, {1, 2}), numbers({2}, {3, 4})};
  MakeAll("a", {halves[0], halves[1], halves[0], halves[1]});
  MakeAll("b", {halves[0], halves[0], halves[1], halves[1]});
  const std::vector<std::string> dims = {"--dims", "mlp: h[tp]", "--topology", "A:tp=2,dp=2"};
  std::vector<std::string> right = dims, wrong = dims;
  right.insert(right.end(), {"--topology", "B:dp=2,tp=2"});
  wrong.insert(wrong.end(), {"--topology", "B:tp=2,dp=2"});
  ExpectFlip(vector, right, 1, 0);
  ExpectFlip(vector, wrong, 1, 1);
}

TEST_F(DiffSwitchesTest, AMapNamesWhatBelongsTogether) {
  std::ofstream(Path("map.yaml")) << "version: 1\nrules: [{name: ffn, to: mlp}]\n";
  std::ofstream(Path("other.yaml")) << "version: 1\nrules: [{name: ffn, to: norm}]\n";
  for (const Shape& shape : kShapes) {
    Make("a", {Floats(shape, 1), Floats(shape, 2, "norm")});
    Make("b", {Floats(shape, 1, "ffn"), Floats(shape, 2, "norm")});
    ExpectFlip(shape, {"--map", "map.yaml"}, 1, 0);
    ExpectFlip(shape, {"--map", "other.yaml"}, 1, 1);
    Make("b", {Floats(shape, 3, "ffn"), Floats(shape, 2, "norm")});
    ExpectFlip(shape, {"--map", "map.yaml"}, 1, 1);
  }
}

// Rank 0 against rank 0 nothing differs; rank 1 against rank 0 does.
TEST_F(DiffSwitchesTest, AcrossComparesRanksOfOneRun) {
  for (const Shape& shape : kShapes) {
    const auto weight = [&](float last) {
      TensorImage tensor = Floats(shape, last);
      tensor.role = Role::kParam;
      tensor.arg = "weight";
      return tensor;
    };
    const std::vector<std::string> across = {"a", "--across", "dp", "--topology", "dp=2"};
    MakeRanks("a", weight(1), weight(1));
    EXPECT_EQ(Run("tdump-diff", {"a", "a"}).status, 0) << shape.name;
    EXPECT_EQ(Run("tdump-diff", across).status, 0) << shape.name;
    MakeRanks("a", weight(1), weight(2));
    EXPECT_EQ(Run("tdump-diff", {"a", "a"}).status, 0) << shape.name;
    EXPECT_EQ(Run("tdump-diff", across).status, 1) << shape.name;
  }
}

// A new option belongs into one of the two lists, and where it changes a verdict into a test above.
TEST_F(DiffSwitchesTest, EveryOptionIsKnownToChangeAVerdictOrNot) {
  const std::set<std::string> flips = {
      "--across",  "--align",  "--allow-failed", "--allow-unpaired", "--bounds",
      "--compute", "--dims",   "--map",          "--noise",          "--ranks",
      "--require", "--select", "--steps",        "--topology",       "--verify"};
  const std::set<std::string> tells = {
      "--all", "--bisect",   "--help",  "--html",        "--jobs", "--json",   "--jsonl",
      "--mpi", "--no-color", "--quiet", "--suggest-map", "--topk", "--values", "--version"};
  std::istringstream lines(Run("tdump-diff", {"--help"}).out);
  std::set<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("--");
    const bool is_option =
        at != std::string::npos && at <= 8 &&
        line.find_first_not_of(" -,abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") >= at;
    if (is_option) found.insert(line.substr(at, line.find_first_of(" ,=", at) - at));
  }
  std::set<std::string> known = flips;
  known.insert(tells.begin(), tells.end());
  EXPECT_EQ(found, known);
}

TEST_F(DiffSwitchesTest, ADtypeThatDiffersSaysWhichOptionComparesTheValues) {
  Make("a", {Floats(kShapes[1], 1)});
  Make("b", {Bfloats(kShapes[1])});
  const auto done = Run("tdump-diff", {"a", "b"});
  EXPECT_EQ(done.status, 1);
  EXPECT_THAT(done.out,
              HasSubstr("dtype differs, float32 against bfloat16; --compute bf16 compares"));
}

TEST_F(DiffSwitchesTest, NoComputePrecisionHidesWhatIsNoRounding) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Make("a", {Floats(kShapes[2], 1)});
  for (const TensorImage& other :
       {Floats(kShapes[2], nan), Floats(kShapes[1], 1), Floats(kShapes[2], 99)}) {
    Make("b", {other});
    for (const char* precision : {"bf16", "fp8", "fp4"})
      EXPECT_EQ(Run("tdump-diff", {"a", "b", "--compute", precision}).status, 1) << precision;
  }
}

TEST_F(DiffSwitchesTest, WhatHadNothingToDoIsTold) {
  Make("a", {Floats(kShapes[1], 1)});
  Make("b", {Floats(kShapes[1], 2)});
  Bounds("bounds:\n  - {name: norm, allow: nan}\n  - {name: mlp, allow: nan}\n");
  const auto done = Run("tdump-diff", {"a", "b", "--allow-failed", "mlpp", "--allow-failed", "mlp",
                                       "--allow-unpaired", "mlp", "--align", "mlp", "--select", "m",
                                       "--select", "norm", "--bounds", "bounds.yaml"});
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  for (const char* unused :
       {"--allow-failed 'mlpp' had nothing to do", "--allow-unpaired 'mlp' had nothing to do",
        "--align 'mlp' had nothing to do", "--select 'norm' had nothing to do",
        "rule bounds.yaml:2 decided nothing"})
    EXPECT_THAT(done.out, HasSubstr(unused));
  for (const char* used : {"--allow-failed 'mlp'", "--select 'm'", "rule bounds.yaml:3"})
    EXPECT_THAT(done.out, Not(HasSubstr(std::string(used) + " "))) << done.out;
}

TEST_F(DiffSwitchesTest, AnEmptyPatternAllowsNothing) {
  Make("a", {Floats(kShapes[1], 1)});
  Make("b", {Floats(kShapes[1], 2)});
  for (const char* option : {"--allow-failed", "--allow-unpaired"}) {
    const auto done = Run("tdump-diff", {"a", "b", option, ""});
    EXPECT_EQ(done.status, 2) << done.out;
    EXPECT_THAT(done.err,
                HasSubstr(std::string(option) + ": an empty pattern allows all there is"));
  }
}

TEST_F(DiffSwitchesTest, MistakesAreTroubleWithTheirPlace) {
  Make("a", {Floats(kShapes[1], 1)});
  Bounds("bounds:\n  - {name: mlp, expect: snqr_db >= 30}\n");
  const auto bounds = Run("tdump-diff", {"a", "a", "--bounds", "bounds.yaml"});
  EXPECT_EQ(bounds.status, 2);
  EXPECT_THAT(bounds.err, HasSubstr("bounds.yaml:2:25: expect: 'snqr_db' is no metric"));
  EXPECT_THAT(bounds.err, HasSubstr("did you mean 'sqnr_db'?"));
  const auto compute = Run("tdump-diff", {"a", "a", "--compute", "fp7"});
  EXPECT_EQ(compute.status, 2);
  EXPECT_THAT(compute.err, HasSubstr("--compute: 'fp7' is no precision; expected one of fp64"));
  const auto noise = Run("tdump-diff", {"a", "a", "--noise", "nowhere"});
  EXPECT_EQ(noise.status, 2);
  EXPECT_THAT(noise.err, HasSubstr("--noise nowhere: "));
  Make("other", {Floats(kShapes[1], 1, "elsewhere")});
  const auto other = Run("tdump-diff", {"a", "a", "--noise", "other"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("--noise other: "));
}

// K03 and its like, in every file of YAML that is read: no signal, the place instead.
TEST_F(DiffSwitchesTest, MalformedYamlIsTroubleWithItsPlace) {
  Make("a", {Floats(kShapes[1], 1)});
  std::string keys, block;
  for (int i = 0; i < 100'000; ++i) keys += "{a: ";
  for (int i = 0; i < 1000; ++i) block += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  const std::pair<std::string, const char*> malformed[] = {
      {std::string(100'000, '['), "1:[0-9]+: nested deeper than 64 levels"},
      {keys, "1:[0-9]+: nested deeper than 64 levels"},
      {block, "65:65: nested deeper than 64 levels"},
      {"a: 1\nb: [1, 2\n", "[23]:[0-9]+: "},
      {"a: 'x\n", "1:4: not YAML: a quote that is not closed"},
      {"a:\n\t- b\n", "2:[0-9]+: "},
      {"a: *nothing\n", "1:[0-9]+: "},
      {"a: &x [*x]\n", "1:[0-9]+: an alias inside its own anchor"},
      {"a: |\n  x\n y: !<\n- z: >9\n", "[0-9]+:[0-9]+: "},
      {"a: 1\nb: \xff\n", "2:4: bytes that are not UTF-8"},
  };
  for (const auto& [yaml, place] : malformed) {
    std::ofstream(Path("f.yaml")) << yaml;
    for (const char* option : {"--map", "--bounds"}) {
      const auto done = Run("tdump-diff", {"a", "a", option, "f.yaml"});
      EXPECT_EQ(done.status, 2) << option << " " << yaml.substr(0, 40) << done.out;
      EXPECT_THAT(done.err, ContainsRegex("tdump-diff: f.yaml:" + std::string(place)))
          << option << " " << yaml.substr(0, 40);
    }
  }
}

}  // namespace
}  // namespace tdump::tools
