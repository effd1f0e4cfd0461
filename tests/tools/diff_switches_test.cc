// Every switch of tdump-diff that changes a verdict, off and on, on input where it matters: one
// number, a vector, and a matrix of more than a tile (docs/faults.md, D06).
#include <gmock/gmock.h>

#include <fstream>

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
    std::filesystem::remove_all(Path(name));
    for (int32_t rank : {0, 1}) {
      ProcessImage(env_, Path(name), {.rank = rank, .world = 2})
          .Tensors(0, {rank == 0 ? first : second})
          .Exit(1);
    }
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

    MakeRanks("a", good, good);
    MakeRanks("b", good, bad);
    ExpectFlip(shape, {"--ranks", "0"}, 1, 0);
    ExpectFlip(shape, {"--ranks", "1"}, 1, 1);
  }
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
