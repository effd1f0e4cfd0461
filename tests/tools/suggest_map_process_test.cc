// tdump-diff --suggest-map as a process: what it drafts is a map that --map takes.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using ::testing::HasSubstr;

constexpr int kLayers = 4;

class SuggestMapProcessTest : public test::ScratchTest {
 protected:
  // A model whose layers have three modules of these names; `last` is what the last one returns.
  void MakeRun(const std::string& run, const std::string& layers,
               const std::vector<std::string>& modules, float last = 0.5f) {
    std::vector<TensorImage> tensors;
    float value = 1;
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const std::string& module : modules) {
        const bool is_last = layer == kLayers - 1 && module == modules.back();
        const std::vector<float> values = {is_last ? last : value, value + 0.25f};
        tensors.push_back({.path = layers + "." + std::to_string(layer) + "." + module,
                           .bytes = BytesOf(values),
                           .dtype = "float32",
                           .bits = 32,
                           .sizes = {2}});
        value *= 3;
      }
    }
    ProcessImage(env_, Path(run), {}).Tensors(0, tensors).Exit(1);
  }
};

TEST_F(SuggestMapProcessTest, TheDraftPairsBothRuns) {
  MakeRun("a", "model.layers", {"self_attn.o_proj", "mlp.down_proj", "input_layernorm"});
  MakeRun("b", "decoder.layers", {"self_attention.linear_proj", "mlp.linear_fc2", "norm1"});
  MakeRun("c", "decoder.layers", {"self_attention.linear_proj", "mlp.linear_fc2", "norm1"}, 0.75f);
  const auto without = Run("tdump-diff", {"a", "b"});
  EXPECT_NE(without.status, 0);
  EXPECT_THAT(without.out + without.err, HasSubstr("--suggest-map"));

  const auto draft = Run("tdump-diff", {"a", "b", "--suggest-map"});
  ASSERT_EQ(draft.status, 0) << draft.err;
  std::ofstream(Path("map.yaml")) << draft.out;
  const auto same = Run("tdump-diff", {"a", "b", "--map", "map.yaml"});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("SAME  12 of 12 bit for bit")) << draft.out;
  // And hides nothing.
  const auto differs = Run("tdump-diff", {"a", "c", "--map", "map.yaml"});
  EXPECT_EQ(differs.status, 1);
  EXPECT_THAT(differs.out, HasSubstr("DIFFERS  1 of 12"));
  EXPECT_THAT(differs.out, HasSubstr("decoder.layers.3.norm1"));
}

TEST_F(SuggestMapProcessTest, ADraftOfARunAgainstItselfIsTaken) {
  MakeRun("a", "model.layers", {"o_proj", "down_proj", "norm"});
  const auto draft = Run("tdump-diff", {"a", "a", "--suggest-map"});
  EXPECT_EQ(draft.status, 0);
  std::ofstream(Path("map.yaml")) << draft.out;
  const auto same = Run("tdump-diff", {"a", "a", "--map", "map.yaml"});
  EXPECT_EQ(same.status, 0) << draft.out << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("SAME  12 of 12 bit for bit"));
}

TEST_F(SuggestMapProcessTest, ARunThatIsNotThereIsTrouble) {
  MakeRun("a", "model.layers", {"o_proj", "down_proj", "norm"});
  const auto trouble = Run("tdump-diff", {"a", "gone", "--suggest-map"});
  EXPECT_EQ(trouble.status, 2);
  EXPECT_EQ(trouble.out, "");
  EXPECT_THAT(trouble.err, HasSubstr("gone"));
}

TEST_F(SuggestMapProcessTest, OptionsOfAComparisonAreRefused) {
  MakeRun("a", "model.layers", {"o_proj", "down_proj", "norm"});
  for (const std::vector<std::string>& others :
       std::vector<std::vector<std::string>>{{"--json"}, {"--html", "x"}, {"--jsonl", "x"}}) {
    std::vector<std::string> words = {"a", "a", "--suggest-map"};
    words.insert(words.end(), others.begin(), others.end());
    const auto refused = Run("tdump-diff", words);
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr("--suggest-map and " + others.front() + ": "));
  }
}

}  // namespace
}  // namespace tdump::tools
