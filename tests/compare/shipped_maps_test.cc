// The maps of configs/maps over the names of real frameworks. Nothing is read but names, classes
// and shapes.
#include "compare/name_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/compare/framework_names.h"
#include "tests/compare/maps.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::set<std::string> NamesOf(const std::map<std::string, MappedPart>& parts) {
  std::set<std::string> names;
  for (const auto& [name, part] : parts) names.insert(name);
  return names;
}

void ExpectPairsFully(const NameMap& map, const std::vector<NamedTensor>& a,
                      const std::vector<NamedTensor>& b, size_t pairs) {
  const BoundMap bound = Bound(map, a, b);
  const auto in_a = NamesOf(MapAll(bound.a, a)), in_b = NamesOf(MapAll(bound.b, b));
  EXPECT_EQ(in_a, in_b);
  EXPECT_EQ(in_a.size(), pairs);
}

// Per layer: 3 of each norm, 3 of each of 7 projections, and the layer's output; embedding 3, final
// norm 3, head 3, token ids.
constexpr size_t kLlamaPairs = 2 * (2 * 3 + 7 * 3 + 1) + 3 + 3 + 3 + 1;

TEST(ShippedMaps, HfLlamaPairsFullyWithMegatron) {
  for (const uint64_t ranks : {1, 2}) {
    ModelSize size;
    const auto hf = HfLlama(size);
    size.ranks = ranks;
    const auto megatron = Megatron(size);
    const NameMap map = Shipped("hf-megatron");
    ExpectPairsFully(map, hf, megatron, kLlamaPairs);
    ExpectPairsFully(map, megatron, hf, kLlamaPairs);  // the runs in the other order
  }
}

TEST(ShippedMaps, HfLlamaPairsFullyWithServers) {
  for (const auto& [name, package] : std::vector<std::pair<std::string, std::string>>{
           {"hf-vllm", "vllm.model_executor"}, {"hf-sglang", "sglang.srt"}}) {
    ModelSize size;
    const auto hf = HfLlama(size);
    size.ranks = 2;
    const auto server = Server(size, package);
    // The same without the inputs of the first norm, outputs of layers, the head's and the root's.
    ExpectPairsFully(Shipped(name), hf, server, kLlamaPairs - 1 - 2 - 2 - 1);
    ExpectPairsFully(Shipped(name), server, hf, kLlamaPairs - 1 - 2 - 2 - 1);
  }
}

TEST(ShippedMaps, HfLlamaPairsFullyWithTransformerEngine) {
  for (const bool fused : {false, true}) {
    const ModelSize size;
    // Per layer: weights 9; q, k, v's outputs; both norms' inputs; o_proj's input and output;
    // the MLP's output, the layer's. Embedding, norm and head 3 each, token ids.
    ExpectPairsFully(Shipped("hf-transformer_engine"), HfLlama(size),
                     TransformerEngine(size, fused), 2 * (9 + 3 + 2 + 2 + 1 + 1) + 9 + 1);
  }
}

// Shapes of the parts of q, k, v by hand: heads 4 and 2 of 8, 2 ranks: each has one group of
// (2 + 1 + 1) * 8 rows.
TEST(ShippedMaps, MegatronsQkvComesApartByGroups) {
  ModelSize size;
  const auto hf = HfLlama(size);
  size.ranks = 2;
  const auto megatron = Megatron(size, true);
  const BoundMap bound = Bound(Shipped("hf-megatron"), hf, megatron);
  EXPECT_EQ(bound.a.side(), "hf");
  EXPECT_EQ(bound.b.side(), "megatron");
  EXPECT_FALSE(bound.guessed);
  const auto parts = MapAll(bound.b, megatron);
  const MappedPart& q = parts.at("model.layers.1.self_attn.q_proj@param#weight");
  EXPECT_THAT(q.part.shape, ElementsAre(16, 32));
  EXPECT_EQ(q.part.offset, 0u);
  EXPECT_THAT(q.dims, ElementsAre("o[tp] i"));
  EXPECT_EQ(q.note, "q of linear_qkv (1 x (2 + 1 + 1) heads of 8)");
  const MappedPart& k = parts.at("model.layers.1.self_attn.k_proj@param#weight");
  EXPECT_THAT(k.part.shape, ElementsAre(8, 32));
  EXPECT_EQ(k.part.offset, 16u * 32);
  const MappedPart& v = parts.at("model.layers.1.self_attn.v_proj@output#");
  EXPECT_THAT(v.part.shape, ElementsAre(5, 2, 8));
  EXPECT_EQ(v.part.offset, 24u);
  EXPECT_THAT(v.dims, ElementsAre("s b h[tp]"));
  const MappedPart& bias = parts.at("model.layers.0.self_attn.k_proj@param#bias");
  EXPECT_THAT(bias.part.shape, ElementsAre(8));
  EXPECT_THAT(bias.dims, ElementsAre("o[tp]"));
  const MappedPart& up = parts.at("model.layers.0.mlp.up_proj@param#weight");
  EXPECT_THAT(up.part.shape, ElementsAre(24, 32));
  EXPECT_EQ(up.part.offset, 24u * 32);
  EXPECT_EQ(up.note, "up of linear_fc1");
  const MappedPart& input = parts.at("model.layers.0.self_attn.k_proj@input#0");
  EXPECT_TRUE(input.part.whole);
  EXPECT_TRUE(parts.at("model.embed_tokens@param#weight").padded);
  EXPECT_TRUE(parts.at("lm_head@output#").padded);
  EXPECT_FALSE(parts.at("lm_head@input#0").padded);
  EXPECT_THAT(parts.at("model.layers.0.input_layernorm@output#").dims,
              ElementsAre("s b h", "s[tp] b h"));
  EXPECT_THAT(MapAll(bound.a, hf).at("model.layers.0.input_layernorm@output#").dims,
              ElementsAre("b s h"));
}

TEST(ShippedMaps, TheLengthOfAHeadIsFoundOrSaidToBeGuessed) {
  ModelSize size;
  const NameMap map = Shipped("hf-megatron");
  const auto without = [](std::vector<NamedTensor> all, const std::string& word) {
    std::erase_if(all, [&](const NamedTensor& tensor) {
      return tensor.key.path.find(word) != std::string::npos;
    });
    return all;
  };
  const auto hf = HfLlama(size), megatron = Megatron(size);
  EXPECT_EQ(Bound(map, hf, megatron).text,
            "A has hf names, B megatron names; a head is 8 long, as "
            "decoder.layers.0.self_attention.core_attention@input#0 of B");
  EXPECT_EQ(Bound(map, without(hf, "rotary"), without(megatron, "core_attention")).text,
            "A has hf names, B megatron names; a head is taken to be 16 long: say heads: "
            "{head_dim: ...} in the map");
  EXPECT_TRUE(Bound(map, without(hf, "rotary"), without(megatron, "core_attention")).guessed);
  EXPECT_THAT(Bound(map, hf, without(megatron, "core_attention")).text,
              HasSubstr("a head is 8 long, as model.rotary_emb@output#0 of A"));
  EXPECT_THAT(Bound(map, HfLlama(size, true), megatron).text,
              HasSubstr("a head is 8 long, as model.layers.0.self_attn.q_norm.weight@param of A"));
}

// Four ranks share two heads of k and v: every rank has a whole one, and one head of q.
TEST(ShippedMaps, MoreRanksThanKeyHeads) {
  ModelSize size;
  const auto hf = HfLlama(size);
  size.ranks = 4;
  const auto server = Server(size, "vllm.model_executor");
  const auto parts = MapAll(Bound(Shipped("hf-vllm"), hf, server).b, server);
  EXPECT_THAT(parts.at("model.layers.0.self_attn.q_proj@param#weight").part.shape,
              ElementsAre(8, 32));
  EXPECT_THAT(parts.at("model.layers.0.self_attn.v_proj@param#weight").part.shape,
              ElementsAre(8, 32));
  EXPECT_EQ(parts.at("model.layers.0.self_attn.v_proj@param#weight").part.offset, 16u * 32);
  EXPECT_THAT(parts.at("model.layers.0.self_attn.k_proj@output#").part.shape, ElementsAre(10, 8));
}

std::vector<NamedTensor> ParametersOf(std::vector<NamedTensor> all) {
  std::erase_if(all, [](const NamedTensor& tensor) { return tensor.key.role != Role::kParam; });
  return all;
}

// The lists of names that these tests write by hand are those of the real models.
TEST(ShippedMaps, TheNamesOfHfLlamaAreThoseOfTransformers) {
  for (const auto& [model, qk_norm] :
       std::vector<std::pair<std::string, bool>>{{"llama", false}, {"qwen3", true}}) {
    std::map<std::string, Shape> real;
    for (const NamedTensor& tensor : RealHf(model)) real[ToText(tensor.key)] = tensor.sizes;
    EXPECT_GT(real.size(), 70u);
    size_t checked = 0;
    for (const NamedTensor& tensor : HfLlama({}, qk_norm)) {
      if (tensor.key.path == "." || tensor.key.path == "model.layers.0" ||
          tensor.key.path == "model.layers.1")
        continue;  // no leaves
      EXPECT_EQ(real[ToText(tensor.key)], tensor.sizes) << ToText(tensor.key);
      ++checked;
    }
    EXPECT_GT(checked, 65u);
  }
}

// Conv1D keeps [in, out]: [32, 96] is q, k, v along the second dimension. Real names of GPT-2.
TEST(ShippedMaps, Gpt2sFusedWeightsAreTransposed) {
  ModelSize size;
  size.kv_heads = 4;
  size.ranks = 2;
  const auto gpt2 = RealHf("gpt2");
  const auto megatron = MegatronGpt2(size);
  const BoundMap bound = Bound(Shipped("hf-megatron"), gpt2, megatron);
  const auto parts = MapAll(bound.a, gpt2);
  const MappedPart& k = parts.at("model.layers.0.self_attn.k_proj@param#weight");
  EXPECT_THAT(k.part.shape, ElementsAre(32, 32));
  EXPECT_EQ(k.part.offset, 32u);
  EXPECT_THAT(k.dims, ElementsAre("i o"));
  EXPECT_THAT(parts.at("model.layers.0.self_attn.v_proj@param#bias").part.shape, ElementsAre(32));
  EXPECT_THAT(parts.at("model.layers.1.mlp.down_proj@param#weight").dims, ElementsAre("i o"));
  // Not gated: fc1 stays whole. The outputs without their biases are not compared.
  const auto other = MapAll(bound.b, megatron);
  EXPECT_TRUE(other.at("model.layers.0.mlp.up_proj@param#weight").part.whole);
  EXPECT_EQ(NamesOf(MapAll(bound.a, ParametersOf(gpt2))), NamesOf(other));
  EXPECT_EQ(parts.count("model.layers.0.mlp.up_proj@output#"), 0u);
  EXPECT_EQ(parts.count("model.layers.0.self_attn.q_proj@output#"), 1u);
}

TEST(ShippedMaps, BertPairsWithServers) {
  ModelSize size;
  size.ranks = 2;
  for (const auto& [name, package, self] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"hf-vllm", "vllm.model_executor", "self"}, {"hf-sglang", "sglang.srt", "self_attn"}}) {
    const auto bert = ParametersOf(RealHf("bert"));
    const auto server = ServerBert(size, package, self);
    const BoundMap bound = Bound(Shipped(name), bert, server);
    const auto parts = MapAll(bound.b, server);
    EXPECT_EQ(NamesOf(MapAll(bound.a, bert)), NamesOf(parts)) << name;
    const MappedPart& value = parts.at("encoder.layer.1.attention.self.value@param#weight");
    EXPECT_THAT(value.part.shape, ElementsAre(16, 32));
    EXPECT_EQ(value.part.offset, 32u * 32);
    EXPECT_TRUE(parts.at("embeddings.word_embeddings@param#weight").padded);
  }
}

TEST(NameMap, ErrorsOfBindingSayWhatTheRunsHave) {
  const ModelSize size;
  const NameMap map = Shipped("hf-megatron");
  const auto hf = HfLlama(size), megatron = Megatron(size);
  Names other;
  other.Param("net.0", "weight", "Linear", {2, 2}).Param("net.1", "weight", "Linear", {2, 2});
  EXPECT_EQ(BoundMap::Bind(map, hf, other.all).status().message(),
            "hf-megatron: B has no megatron names; it has net.0.weight, net.1.weight");
  EXPECT_EQ(BoundMap::Bind(map, other.all, megatron).status().message(),
            "hf-megatron: A has no hf names; it has net.0.weight, net.1.weight");
  EXPECT_EQ(BoundMap::Bind(map, hf, hf).status().message(),
            "hf-megatron: A and B both have hf names: they pair without a map");
  EXPECT_EQ(BoundMap::Bind(map, megatron, megatron).status().message(),
            "hf-megatron: A and B both have megatron names: they pair without a map");
}

TEST(NameMap, AdviceNamesTheMapThatFits) {
  const std::vector<NameMap> maps = {Shipped("hf-megatron"), Shipped("hf-vllm"),
                                     Shipped("hf-sglang"), Shipped("hf-transformer_engine")};
  const ModelSize size;
  const auto advice = [&](const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
    return AdviceText(AdviseMap(maps, a, b));
  };
  const auto hf = HfLlama(size), megatron = Megatron(size);
  EXPECT_EQ(advice(hf, megatron), "B looks like megatron names: try --map hf-megatron");
  EXPECT_EQ(advice(megatron, hf), "A looks like megatron names: try --map hf-megatron");
  EXPECT_EQ(advice(hf, Server(size, "vllm.model_executor")),
            "B looks like vllm names: try --map hf-vllm");
  EXPECT_EQ(advice(hf, Server(size, "sglang.srt")),
            "B looks like sglang names: try --map hf-sglang");
  EXPECT_EQ(advice(hf, TransformerEngine(size, true)),
            "B looks like transformer_engine names: try --map hf-transformer_engine");
  EXPECT_EQ(advice(Server(size, "vllm.model_executor"), megatron),
            "B looks like megatron names: --suggest-map drafts a map for them");
  Names other;
  other.Param("net.0", "weight", "Linear", {2, 2});
  EXPECT_EQ(advice(other.all, other.all), "");
  EXPECT_EQ(advice(hf, hf), "");
}

TEST(NameMap, EveryShippedMapIsFreeOfMistakes) {
  for (const char* name : {"hf-megatron", "hf-vllm", "hf-sglang", "hf-transformer_engine"})
    EXPECT_EQ(Shipped(name).sides()[0], "hf") << name;
}

}  // namespace
}  // namespace tdump::compare
