#include "compare/shorten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/utf8.h"

namespace tdump::compare {
namespace {

using ::testing::ElementsAre;

TEST(Shorten, ANameKeepsItsStartAndItsEnd) {
  EXPECT_EQ(Shorten("short", 5), "short");
  EXPECT_EQ(Shorten("model.layers.17.mlp.down_proj", 16), "model….down_proj");
  EXPECT_EQ(CharactersIn(Shorten("model.layers.17.mlp.down_proj", 16)), 16u);
  EXPECT_EQ(Shorten("äöüßäöüßäöüß", 7), "äö…äöüß");
}

std::vector<std::string> Apart(const std::vector<std::string>& names, size_t width) {
  std::vector<NamedCell> cells;
  for (const std::string& name : names) cells.push_back({name, ""});
  return ShortenApart(cells, width);
}

TEST(Shorten, NamesThatWouldLookTheSameAreCutWhereTheyAreEqual) {
  const std::vector<std::string> layers = {"model.layers.0.mlp.down_proj.linear",
                                           "model.layers.1.mlp.down_proj.linear", "short"};
  EXPECT_EQ(Shorten(layers[0], 18), Shorten(layers[1], 18));
  const auto cut = Apart(layers, 18);
  EXPECT_EQ(cut[0], "m…rs.0.ml…j.linear");
  EXPECT_EQ(cut[1], "m…rs.1.ml…j.linear");
  EXPECT_EQ(CharactersIn(cut[0]), 18u);
  EXPECT_EQ(cut[2], "short");
  EXPECT_EQ(Apart({"äöü.ß.mlp.down_proj", "äöü.ü.mlp.down_proj"}, 12)[1], "…ü.ml…n_proj");
  // Equal names may look the same.
  EXPECT_EQ(Apart({layers[0], layers[0]}, 18)[1], Shorten(layers[0], 18));
  // Too much that differs: whole.
  const std::vector<std::string> other = {"a.xabcdefghijkl.z.query", "a.xABCDEFGHIJKL.z.query"};
  EXPECT_EQ(Apart(other, 12)[1], other[1]);
}

// What stands behind them is no part of the names: an input of one layer and the output of another
// are of two layers.
TEST(Shorten, NamesDifferWhateverStandsBehindThem) {
  EXPECT_THAT(ShortenApart({{"encoder.layer.3.attention.output.dense", ", input 0"},
                            {"encoder.layer.4.attention.output.dense", ", output"}},
                           27),
              ElementsAre("e…er.3.at…ut.dense, input 0", "e…yer.4.at…ut.dense, output"));
  // No room for any of a name.
  EXPECT_THAT(ShortenApart({{"layer.3", ", input kwargs.attention_mask"}}, 27),
              ElementsAre("layer.3, input kwargs.attention_mask"));
}

// All names of a model of many layers, of every length, at any width.
TEST(Shorten, NoTwoNamesLookTheSame) {
  std::vector<NamedCell> cells;
  for (int layer = 0; layer < 24; ++layer) {
    const std::string head = "model.decoder.layers." + std::to_string(layer) + ".";
    for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.o_proj.linear",
                             "mlp.gate_proj", "mlp.up_proj", "input_layernorm", "post_layernorm",
                             "mlp.experts.0.down_proj", "mlp.experts.1.down_proj"}) {
      cells.push_back({head + part, ", output"});
      cells.push_back({head + part, ", input 0"});
    }
  }
  for (size_t width = 12; width < 60; ++width) {
    const auto cut = ShortenApart(cells, width);
    std::map<std::string, std::set<std::string>> shown;
    for (size_t i = 0; i < cells.size(); ++i) {
      ASSERT_TRUE(cut[i].ends_with(cells[i].what));
      const std::string name = cut[i].substr(0, cut[i].size() - cells[i].what.size());
      shown[name].insert(cells[i].name);
      EXPECT_TRUE(CharactersIn(cut[i]) <= width || name == cells[i].name) << cut[i];
    }
    for (const auto& [name, names] : shown) EXPECT_EQ(names.size(), 1u) << width << ": " << name;
  }
}

}  // namespace
}  // namespace tdump::compare
