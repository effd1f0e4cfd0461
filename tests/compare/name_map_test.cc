// The rules of a map, and what is wrong with one.
#include "compare/name_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/compare/framework_names.h"
#include "tests/compare/maps.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

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
  const std::string shipped = ShippedText("hf-transformer_engine");
  const std::string seed = shipped.substr(shipped.find("sides:"));
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

}  // namespace
}  // namespace tdump::compare
