// Drafts of maps: what is drafted reads as a map and pairs what it says.
#include "compare/suggest_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/compare/framework_names.h"
#include "tests/compare/maps.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Parameters of both runs under the names of the draft: what only one of them has.
std::vector<std::string> Unpaired(const std::string& draft, const std::vector<NamedTensor>& a,
                                  const std::vector<NamedTensor>& b) {
  const auto map = NameMap::Parse(draft, "draft.yaml");
  if (!map.ok()) return {map.status().message() + "\n" + draft};
  const auto bound = BoundMap::Bind(*map, a, b);
  if (!bound.ok()) return {bound.status().message() + "\n" + draft};
  std::set<std::string> names[2];
  const MapSide* sides[2] = {&bound->a, &bound->b};
  const std::vector<NamedTensor>* tensors[2] = {&a, &b};
  for (size_t run = 0; run < 2; ++run) {
    for (const NamedTensor& tensor : *tensors[run]) {
      if (tensor.key.role != Role::kParam) continue;
      const auto mapped = sides[run]->Map(tensor);
      if (!mapped.ok()) return {ToText(tensor.key) + ": " + mapped.status().message()};
      for (const MappedPart& part : *mapped) names[run].insert(ToText(part.key));
    }
  }
  std::vector<std::string> unpaired;
  std::set_symmetric_difference(names[0].begin(), names[0].end(), names[1].begin(), names[1].end(),
                                std::back_inserter(unpaired));
  return unpaired;
}

TEST(SuggestMap, ParametersOfMegatronPairWithHf) {
  ModelSize size;
  const auto hf = HfLlama(size);
  for (const uint64_t ranks : {1, 2}) {
    size.ranks = ranks;
    const auto megatron = Megatron(size);
    const std::string draft = SuggestMap(hf, megatron);
    EXPECT_THAT(Unpaired(draft, hf, megatron), IsEmpty()) << draft;
    EXPECT_THAT(draft, HasSubstr("split: qkv_groups"));
    EXPECT_THAT(draft, HasSubstr("# guessed: the order inside linear_qkv"));
    EXPECT_THAT(draft, HasSubstr("padded: true"));
    EXPECT_THAT(draft,
                HasSubstr("first: {activations: 'b s h'}\n  second: {activations: 's b h'}"));
    EXPECT_THAT(draft, HasSubstr("decoder\\.layers\\.(\\d+)\\.mlp\\.linear_fc2"));
  }
}

TEST(SuggestMap, ParametersOfAServerPairWithHfEitherWay) {
  const ModelSize size;
  const auto hf = HfLlama(size), server = Server(size, "vllm.model_executor");
  EXPECT_THAT(Unpaired(SuggestMap(hf, server), hf, server), IsEmpty());
  const std::string draft = SuggestMap(server, hf);
  EXPECT_THAT(Unpaired(draft, server, hf), IsEmpty()) << draft;
  EXPECT_THAT(draft, HasSubstr("of: first"));
}

TEST(SuggestMap, SaysWhichShippedMapFits) {
  const std::vector<NameMap> maps = {Shipped("hf-megatron")};
  const ModelSize size;
  EXPECT_THAT(SuggestMap(HfLlama(size), Megatron(size), maps),
              HasSubstr("# B looks like megatron names: try --map hf-megatron\n"));
}

TEST(SuggestMap, LayersCountedFromOne) {
  Names a, b;
  for (int i = 0; i < 3; ++i) {
    a.Param("blocks." + std::to_string(i) + ".fc", "weight", "Linear", {4, 2});
    b.Param("layer." + std::to_string(i + 1) + ".fc", "weight", "Linear", {4, 2});
  }
  const std::string draft = SuggestMap(a.all, b.all);
  EXPECT_THAT(draft, HasSubstr("layers:\n  - {name: 'layer\\.(\\d+)', offset: -1}\n"));
  EXPECT_THAT(Unpaired(draft, a.all, b.all), IsEmpty()) << draft;
}

TEST(SuggestMap, TransposedWeights) {
  Names a, b;
  a.Param("fc", "weight", "torch.nn.Linear", {4, 2});
  b.Param("dense", "weight", "transformers.pytorch_utils.Conv1D", {2, 4});
  const std::string draft = SuggestMap(a.all, b.all);
  EXPECT_THAT(Unpaired(draft, a.all, b.all), IsEmpty()) << draft;
  EXPECT_THAT(draft, HasSubstr("transposed"));
  EXPECT_THAT(draft, HasSubstr("of: first\n    dims: {param: ['o i', 'o']}"));
}

TEST(SuggestMap, WhatHasNoPartnerIsListed) {
  Names a, b;
  a.Param("same", "weight", "Linear", {4, 2}).Param("extra", "weight", "Linear", {9, 9});
  b.Param("same", "weight", "Linear", {4, 2});
  const std::string draft = SuggestMap(a.all, b.all);
  EXPECT_THAT(draft, HasSubstr("  # Only A has these:\n"
                               "  # - {name: '^extra$', of: first, skip: true}  # Linear\n"));
  EXPECT_THAT(draft, Not(HasSubstr("same")));
  EXPECT_TRUE(NameMap::Parse(draft, "d").ok()) << draft;
}

TEST(SuggestMap, HostileNamesAreQuotedAndEscaped) {
  Names a, b;
  a.Param("x$1.'\"\n: [", "weight", "Linear", {4, 2});
  b.Param("y(*+?|{}\x01\n#", "weight", "Li\nnear", {4, 2});
  const std::string draft = SuggestMap(a.all, b.all);
  const auto map = NameMap::Parse(draft, "d");
  ASSERT_TRUE(map.ok()) << map.status().message() << draft;
  EXPECT_THAT(Unpaired(draft, a.all, b.all), IsEmpty()) << draft;
}

}  // namespace
}  // namespace tdump::compare
