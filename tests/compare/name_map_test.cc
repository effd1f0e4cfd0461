// Maps over the names of real frameworks. Nothing is read but names, classes and shapes.
#include "compare/name_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "tests/compare/framework_names.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

NameMap Shipped(const std::string& name) {
  std::ifstream file(TDUMP_SOURCE_DIR "/configs/maps/" + name + ".yaml");
  std::stringstream text;
  text << file.rdbuf();
  auto map = NameMap::Parse(text.str(), name);
  if (!map.ok()) throw std::runtime_error(map.status().message());
  return std::move(*map);
}

NameMap Parsed(const std::string& yaml) {
  auto map = NameMap::Parse(yaml, "m.yaml");
  if (!map.ok()) throw std::runtime_error(map.status().message());
  return std::move(*map);
}

BoundMap Bound(const NameMap& map, const std::vector<NamedTensor>& a,
               const std::vector<NamedTensor>& b) {
  auto bound = BoundMap::Bind(map, a, b);
  if (!bound.ok()) throw std::runtime_error(bound.status().message());
  return std::move(*bound);
}

// A bare output and the first of a tuple are one name.
std::string NameOf(Key key) {
  if (key.role == Role::kOutput && key.arg == "0") key.arg = "";
  return ToText(key);
}

// Every mapped part by name, without what is skipped.
std::map<std::string, MappedPart> MapAll(const MapSide& side, const std::vector<NamedTensor>& all) {
  std::map<std::string, MappedPart> parts;
  for (const NamedTensor& tensor : all) {
    const auto mapped = side.Map(tensor);
    if (!mapped.ok()) {
      ADD_FAILURE() << ToText(tensor.key) << ": " << mapped.status().message();
      continue;
    }
    for (const MappedPart& part : *mapped) {
      if (part.skip) continue;
      const bool added = parts.emplace(NameOf(part.key), part).second;
      EXPECT_TRUE(added) << "two tensors under " << NameOf(part.key);
    }
  }
  return parts;
}

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

std::vector<NamedTensor> Modules(const std::vector<std::string>& paths) {
  Names names;
  for (const std::string& path : paths) names.Out(path, "", "Linear", {2, 3});
  return names.all;
}

std::vector<std::string> MappedNames(const std::string& yaml, const std::vector<NamedTensor>& a,
                                     const std::vector<NamedTensor>& b) {
  const BoundMap bound = Bound(Parsed(yaml), a, b);
  std::vector<std::string> names;
  for (const NamedTensor& tensor : b) {
    const auto mapped = bound.b.Map(tensor);
    if (!mapped.ok()) {
      names.push_back(mapped.status().message());
      continue;
    }
    for (const MappedPart& part : *mapped) names.push_back(part.key.path);
  }
  return names;
}

TEST(NameMap, TheFirstRuleDecidesAndMatchesWholeComponents) {
  const std::string yaml =
      "rules:\n"
      "  - {name: 'net\\.(\\d+)', to: 'layers.$1'}\n"
      "  - {name: 'net', to: 'never'}\n";
  EXPECT_THAT(MappedNames(yaml, Modules({"layers.1"}),
                          Modules({"net.1", "a.net.12.x", "net.1x", "my_net.1", "net"})),
              ElementsAre("layers.1", "a.layers.12.x", "never.1x", "my_net.1", "never"));
}

TEST(NameMap, GroupsByNumberAndByName) {
  EXPECT_THAT(MappedNames("rules: [{name: '(?<stack>[a-z]+)(\\d+)', to: '${stack}.${2}.$$1'}]",
                          Modules({"x"}), Modules({"enc12"})),
              ElementsAre("enc.12.$1"));
}

TEST(NameMap, ARuleOfTheFirstSideTurnsItsNames) {
  const NameMap map = Parsed(
      "sides: {hf: {looks_like: 'h\\.'}, mine: {looks_like: 'block'}}\n"
      "rules:\n"
      "  - {of: hf, name: 'h\\.(\\d+)', to: 'layers.$1'}\n"
      "  - {name: 'block(\\d+)', to: 'layers.$1'}\n");
  const auto hf = Modules({"h.0"}), mine = Modules({"block0"});
  for (const bool swapped : {false, true}) {
    const BoundMap bound = swapped ? Bound(map, mine, hf) : Bound(map, hf, mine);
    const MapSide &of_hf = swapped ? bound.b : bound.a, &of_mine = swapped ? bound.a : bound.b;
    EXPECT_EQ((*of_hf.Map(hf[0]))[0].key.path, "layers.0");
    EXPECT_EQ((*of_mine.Map(mine[0]))[0].key.path, "layers.0");
    EXPECT_EQ(bound.text,
              swapped ? "A has mine names, B hf names" : "A has hf names, B mine names");
  }
}

// A map of renames alone: the run whose names its rules are about is the second side.
TEST(NameMap, WithoutSidesTheDirectionIsFoundFromTheRules) {
  const NameMap map = Parsed("rules: [{name: 'decoder\\.(\\d+)', to: 'layers.$1'}]");
  const auto first = Modules({"layers.0", "head"}), second = Modules({"decoder.0", "head"});
  EXPECT_EQ((*Bound(map, first, second).b.Map(second[0]))[0].key.path, "layers.0");
  EXPECT_EQ((*Bound(map, second, first).a.Map(second[0]))[0].key.path, "layers.0");
  EXPECT_EQ((*Bound(map, second, first).b.Map(first[0]))[0].key.path, "layers.0");
}

TEST(NameMap, ParametersAreNamedWithTheirModule) {
  const NameMap map = Parsed(
      "rules:\n"
      "  - {name: 'mlp\\.fc1_weight', to: 'up.weight'}\n"
      "  - {name: 'mlp\\.scale', to: 'scale'}\n");
  Names names;
  names.Param("mlp", "fc1_weight", "MLP", {4, 2}).Param("mlp", "scale", "MLP", {1});
  const auto first = Modules({"up"});
  const BoundMap bound = Bound(map, first, names.all);
  const Key up = (*bound.b.Map(names.all[0]))[0].key, scale = (*bound.b.Map(names.all[1]))[0].key;
  EXPECT_EQ(ToText(up), "up@param#weight");
  EXPECT_EQ(ToText(scale), ".@param#scale");  // of the root
}

TEST(NameMap, RolesArgumentsClassesAndWhenNarrowARule) {
  const std::string yaml =
      "rules:\n"
      "  - {name: x, role: output, class: 'Norm$', to: norm}\n"
      "  - {name: x, role: output, arg: '^1$', to_role: input, to_arg: '0', to: second}\n"
      "  - {name: x, role: [input], when: other, to: taken}\n"
      "  - {name: x, role: [input], when: nothing, to: never}\n"
      "  - {name: x, to: rest}\n";
  Names names;
  names.Out("x", "", "a.LayerNorm", {2}).Out("x", "1", "Linear", {2}).In("x", "0", "Linear", {2});
  names.Param("x", "weight", "Linear", {2});
  const auto first = Modules({"other"});
  const BoundMap bound = Bound(Parsed(yaml), first, names.all);
  std::vector<std::string> texts;
  for (const NamedTensor& tensor : names.all)
    texts.push_back(ToText((*bound.b.Map(tensor))[0].key));
  EXPECT_THAT(texts,
              ElementsAre("norm@output#", "second@input#0", "taken@input#0", "rest@param#weight"));
}

TEST(NameMap, OtherFieldsOfTheKeyStay) {
  NamedTensor tensor = Modules({"a.b"})[0];
  tensor.key.call = 3;
  tensor.key.micro = 2;
  tensor.key.phase = Phase::kBackward;
  tensor.key.role = Role::kGradOutput;
  tensor.key.op = "aten::mm";
  tensor.key.root = "Critic#1";
  const std::vector<NamedTensor> b = {tensor};
  const BoundMap bound = Bound(Parsed("rules: [{name: a, to: c}]"), Modules({"x"}), b);
  const Key key = (*bound.b.Map(tensor))[0].key;
  EXPECT_EQ(ToText(key), "Critic%231:c.b/aten%3A%3Amm::call3@grad_output#~m2.b");
}

// Fused rules are about modules; an ATen op inside of one keeps its tensor whole.
TEST(NameMap, OpsInsideOfAFusedModuleAreNotTakenApart) {
  NamedTensor op = Modules({"qkv"})[0];
  op.key.op = "aten::mm";
  const std::vector<NamedTensor> b = {op, Modules({"qkv"})[0]};
  const BoundMap bound =
      Bound(Parsed("rules: [{name: qkv, split: equal, to: [q, k, v]}]"), Modules({"q"}), b);
  EXPECT_EQ((*bound.b.Map(op)).size(), 1u);
  EXPECT_TRUE((*bound.b.Map(op))[0].part.whole);
  EXPECT_EQ((*bound.b.Map(b[1])).size(), 3u);
}

TEST(NameMap, TheGradientOfAFusedInputIsASumAndNotPaired) {
  NamedTensor gradient = Modules({"qkv"})[0];
  gradient.key.role = Role::kGradInput;
  gradient.key.arg = "0";
  const std::vector<NamedTensor> b = {gradient};
  const BoundMap bound =
      Bound(Parsed("rules: [{name: qkv, split: equal, to: [q, k, v]}]"), Modules({"q"}), b);
  const auto mapped = *bound.b.Map(gradient);
  ASSERT_EQ(mapped.size(), 1u);
  EXPECT_TRUE(mapped[0].skip);
  EXPECT_EQ(mapped[0].key.path, "qkv");
}

TEST(NameMap, ATensorThatCannotBeTakenApartIsItsOwnError) {
  Names names;
  names.Param("qkv", "weight", "Linear", {7, 2}).Param("qkv", "scale", "Linear", {1});
  const BoundMap bound =
      Bound(Parsed("rules: [{name: qkv, split: qkv, to: [q, k, v]}]"), Modules({"q"}), names.all);
  EXPECT_EQ(bound.b.Map(names.all[0]).status().message(),
            "the lengths of q, k and v are not to be found; say heads: {num_heads: ..., "
            "num_kv_heads: ..., head_dim: ...} in the map");
  EXPECT_EQ((*bound.b.Map(names.all[1])).size(), 3u);  // one scale for all three
}

TEST(NameMap, HeadsOfTheMapDecide) {
  Names names;
  names.Param("qkv", "weight", "Linear", {16, 2});
  const BoundMap bound =
      Bound(Parsed("heads: {num_heads: 4, num_kv_heads: 2, head_dim: 4}\n"
                   "rules: [{name: qkv, split: qkv_groups, to: {q: q, k: k, v: v}}]"),
            Modules({"q"}), names.all);
  const auto mapped = *bound.b.Map(names.all[0]);  // half of 32 rows: 2 heads of q, one of k and v
  ASSERT_EQ(mapped.size(), 3u);
  EXPECT_THAT(mapped[0].part.shape, ElementsAre(8, 2));
  EXPECT_THAT(mapped[2].part.shape, ElementsAre(4, 2));
  EXPECT_EQ(mapped[2].part.offset, 12u * 2);
}

// Layers of stage 1 are numbered from 0 again; two chunks of two layers on each of two stages hold
// layers 0-1 4-5 and 2-3 6-7.
std::vector<NamedTensor> Stages(bool chunks, bool global = false) {
  std::vector<NamedTensor> all;
  for (uint32_t stage = 0; stage < 2; ++stage) {
    for (uint32_t chunk = 0; chunk < (chunks ? 2 : 1); ++chunk) {
      for (uint32_t layer = 0; layer < 2; ++layer) {
        const uint32_t number = global ? 2 * stage + layer : layer;
        NamedTensor tensor = Modules({"decoder.layers." + std::to_string(number)})[0];
        tensor.stage = stage;
        if (chunks) tensor.key.root = "GPTModel#" + std::to_string(chunk);
        all.push_back(tensor);
      }
    }
  }
  return all;
}

std::vector<std::string> Layers(const std::string& rule, const std::vector<NamedTensor>& b) {
  return MappedNames("layers: [{name: 'layers\\.(\\d+)', " + rule +
                         "}]\nrules: [{name: 'decoder\\.layers', to: l}]",
                     Modules({"l.0"}), b);
}

TEST(NameMap, NumbersOfLayersBecomeThoseOfTheModel) {
  const auto plain = Stages(false);
  EXPECT_THAT(Layers("stages: auto", plain), ElementsAre("l.0", "l.1", "l.2", "l.3"));
  EXPECT_THAT(Layers("stages: auto", Stages(false, true)), ElementsAre("l.0", "l.1", "l.2", "l.3"));
  EXPECT_THAT(Layers("stages: [0, 7]", plain), ElementsAre("l.0", "l.1", "l.7", "l.8"));
  EXPECT_THAT(Layers("offset: 3", plain), ElementsAre("l.3", "l.4", "l.3", "l.4"));
  EXPECT_THAT(Layers("ranges: {1: 9, 0-0: 4-4}", plain), ElementsAre("l.4", "l.9", "l.4", "l.9"));
  EXPECT_THAT(
      Layers("stages: [0]", plain),
      ElementsAre("l.0", "l.1", "m.yaml:1:10: 'stages' does not say the first layer of stage 1",
                  "m.yaml:1:10: 'stages' does not say the first layer of stage 1"));
  EXPECT_THAT(Layers("offset: -1", plain)[0], HasSubstr("layer 0 becomes -1"));
}

TEST(NameMap, StagesOfAPipelineAreNumberedOnWithoutALayerRule) {
  EXPECT_THAT(
      MappedNames("rules: [{name: 'decoder\\.layers', to: l}]", Modules({"l.0"}), Stages(false)),
      ElementsAre("l.0", "l.1", "l.2", "l.3"));
}

TEST(NameMap, ChunksOfAnInterleavedPipeline) {
  const auto chunks = Stages(true);
  const std::vector<std::string> wanted = {"l.0", "l.1", "l.4", "l.5", "l.2", "l.3", "l.6", "l.7"};
  EXPECT_EQ(Layers("stages: auto", chunks), wanted);
  EXPECT_EQ(Layers("interleave: {stages: 2, chunks: 2, layers: 2}", chunks), wanted);
  const BoundMap bound =
      Bound(Parsed("layers: [{name: 'layers\\.(\\d+)', stages: auto}]"), Modules({"l.0"}), chunks);
  EXPECT_EQ((*bound.b.Map(chunks[2]))[0].key.root, "");  // it only told the chunk
}

// Every mistake of a file at once, with place, expectation and near miss.
std::string Wrong(const std::string& yaml) {
  const auto map = NameMap::Parse(yaml, "m.yaml");
  return map.ok() ? "" : map.status().message();
}

TEST(NameMap, MistakesHavePlaceExpectationAndNearMiss) {
  EXPECT_EQ(Wrong("rules:\n  - {nmae: x, to: y}\n"),
            "m.yaml:2:5: rules[0]: no 'name'; expected a regular expression, e.g. "
            "'decoder\\.layers\\.(\\d+)\\.mlp'\n"
            "m.yaml:2:6: unknown key 'rules[0].nmae'; expected one of of, name, to, split, axis, "
            "q_like, role, arg, class, when, to_arg, to_role, dims, padded, skip; did you mean "
            "'name'?");
  EXPECT_EQ(Wrong("rules: [{name: 'a(b', to: y}]"),
            "m.yaml:1:16: rules[0].name: regex 'a(b': missing closing parenthesis at position 3");
  EXPECT_EQ(Wrong("rules: [{name: 'a(b)', to: 'y$2'}]"),
            "m.yaml:1:28: rules[0].to: $2 is no group of 'name', which has 1");
  EXPECT_THAT(Wrong("rules: [{name: a, to: 'y$'}]"), HasSubstr("$$ is a dollar sign"));
  EXPECT_EQ(Wrong("rules: [{name: a, to: [x, y]}]"),
            "m.yaml:1:9: rules[0]: 2 names without 'split'; expected split: equal | qkv | "
            "qkv_groups | copy");
  EXPECT_THAT(Wrong("rules: [{name: a, split: qkv, to: [x, y]}]"), HasSubstr("three names"));
  EXPECT_EQ(Wrong("rules: [{name: a, split: qkv_group, to: [x, y, z]}]"),
            "m.yaml:1:26: rules[0].split: 'qkv_group'; expected one of equal, qkv, qkv_groups, "
            "copy; did you mean 'qkv_groups'?");
  EXPECT_THAT(Wrong("rules: [{name: a, to: b, role: parm}]"), HasSubstr("did you mean 'param'?"));
  EXPECT_EQ(Wrong("rules: [{name: a, to: b, of: hf}]"),
            "m.yaml:1:30: rules[0].of: 'hf'; expected one of first, second");
  EXPECT_THAT(Wrong("rules: [{name: a, to: b, dims: 's b h[tp'}]"), HasSubstr("m.yaml:1:32: "));
  EXPECT_EQ(Wrong("rules: [{name: a}]"),
            "m.yaml:1:9: rules[0]: a rule that changes nothing; expected 'to', 'skip: true', "
            "'dims' or 'to_arg'");
  EXPECT_THAT(Wrong("rules: [{name: a, to: b, skip: true}]"), HasSubstr("'to' and 'skip'"));
  EXPECT_EQ(Wrong("layers: [{name: 'layers', offset: 1}]"),
            "m.yaml:1:10: layers[0]: a 'name' without a group; expected the number in parentheses: "
            "'layers\\.(\\d+)'");
  EXPECT_EQ(
      Wrong("layers: [{name: '(\\d)', ranges: {0-3: 8-10}}]"),
      "m.yaml:1:39: layers[0].ranges.0-3: 0-3 to 8-10; expected as many layers on both sides");
  EXPECT_THAT(Wrong("layers: [{name: '(\\d)', interleave: {layers: 2}}]"), HasSubstr("'stages'"));
  EXPECT_EQ(Wrong("sides: {hf: {}}\nrules: []"),
            "m.yaml:1:8: sides: a map; expected two sides: 'sides: {hf: ..., megatron: ...}'");
  EXPECT_EQ(Wrong(""), "m.yaml: map: no 'rules' and no 'layers'; expected one of them");
  EXPECT_EQ(Wrong("version: 2\nrules: []"), "m.yaml:1:10: version: '2'; expected 1");
  EXPECT_THAT(Wrong("rules: [\n"), HasSubstr("not YAML"));
  EXPECT_THAT(Wrong("- a"), HasSubstr("expected keys such as 'rules:'"));
  EXPECT_THAT(Wrong(std::string((1 << 20) + 1, ' ')), HasSubstr("at most 1048576 bytes"));
}

// A pattern that backtracks without end costs its record an error, not the run its life.
TEST(NameMap, HostilePatternsAndReplacementsAreBounded) {
  Names names;
  names.Out(std::string(60, 'a') + "b", "", "Linear", {1});
  const BoundMap slow = Bound(Parsed("sides: {x: {}, y: {looks_like: '^aaa'}}\n"
                                     "rules: [{name: '(a+)+$', to: c}]"),
                              Modules({"q"}), names.all);
  EXPECT_THAT(slow.b.Map(names.all[0]).status().message(),
              HasSubstr("m.yaml:2:9: the pattern takes too long on 'aaa"));
  std::string to;
  for (int i = 0; i < 200; ++i) to += "$1";
  const BoundMap wide =
      Bound(Parsed("rules: [{name: '(a+b)', to: '" + to + "'}]"), Modules({"q"}), names.all);
  EXPECT_THAT(wide.b.Map(names.all[0]).status().message(), HasSubstr("a name of 12200 bytes"));
}

// Mutated maps: mistakes with a place, or a map that turns any name or says why not.
TEST(NameMap, MutatedMapsNeverDoHarm) {
  std::ifstream file(TDUMP_SOURCE_DIR "/configs/maps/hf-transformer_engine.yaml");
  std::stringstream all;
  all << file.rdbuf();
  const std::string seed = all.str().substr(all.str().find("sides:"));
  constexpr std::string_view kTokens[] = {"$1",  "$9", "(", ")", "[", "]",    "{",   "}",     "'",
                                          ": ",  "- ", "|", "*", "?", "(?x)", "#",   "\n",    "\\K",
                                          "qkv", "-1", "0", "~", "^", "$",    "[tp", "split", "  "};
  std::mt19937 random(20'240'607);
  const ModelSize size;
  const auto hf = HfLlama(size), other = TransformerEngine(size, true);
  size_t good = 0;
  for (int round = 0; round < 150; ++round) {
    std::string text = seed;
    for (int change = 0; change < 1 + round % 3; ++change) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, random() % 20);
      else
        text.insert(at, kTokens[random() % std::size(kTokens)]);
    }
    const auto map = NameMap::Parse(text, "m.yaml");
    if (!map.ok()) {
      EXPECT_THAT(map.status().message(), StartsWith("m.yaml:")) << text;
      continue;
    }
    const auto bound = BoundMap::Bind(*map, hf, other);
    if (!bound.ok()) continue;
    ++good;
    for (const NamedTensor& tensor : other) {
      const auto parts = bound->b.Map(tensor);
      EXPECT_TRUE(parts.ok() || !parts.status().message().empty());
    }
  }
  EXPECT_GT(good, 10u);
}

TEST(NameMap, EveryShippedMapIsFreeOfMistakes) {
  for (const char* name : {"hf-megatron", "hf-vllm", "hf-sglang", "hf-transformer_engine"})
    EXPECT_EQ(Shipped(name).sides()[0], "hf") << name;
}

}  // namespace
}  // namespace tdump::compare
