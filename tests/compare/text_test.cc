#include "compare/text.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "core/utf8.h"

namespace tdump::compare {
namespace {

using ::testing::HasSubstr;

size_t LongestLine(const std::string& text) {
  std::istringstream lines(text);
  size_t longest = 0;
  for (std::string line; std::getline(lines, line);)
    longest = std::max(longest, CharactersIn(line));
  return longest;
}

TEST(RegexOf, MatchesTheTextItself) {
  EXPECT_EQ(RegexOf("model.layers.0"), "model.layers.0");
  EXPECT_EQ(RegexOf("a(b$c"), "a\\(b\\$c");
}

TEST(ReportText, ANameKeepsItsStartAndItsEnd) {
  EXPECT_EQ(Shorten("short", 5), "short");
  EXPECT_EQ(Shorten("model.layers.17.mlp.down_proj", 16), "model….down_proj");
  EXPECT_EQ(CharactersIn(Shorten("model.layers.17.mlp.down_proj", 16)), 16u);
  EXPECT_EQ(Shorten("äöüßäöüßäöüß", 7), "äö…äöüß");
}

TEST(ReportText, NamesThatWouldLookTheSameAreCutWhereTheyAreEqual) {
  const std::vector<std::string> layers = {"model.layers.0.mlp.down_proj.linear",
                                           "model.layers.1.mlp.down_proj.linear", "short"};
  EXPECT_EQ(Shorten(layers[0], 18), Shorten(layers[1], 18));
  const auto cut = ShortenApart(layers, 18);
  EXPECT_EQ(cut[0], "m…rs.0.ml…j.linear");
  EXPECT_EQ(cut[1], "m…rs.1.ml…j.linear");
  EXPECT_EQ(CharactersIn(cut[0]), 18u);
  EXPECT_EQ(cut[2], "short");
  const std::vector<std::string> parts = {"äöü.ß.mlp.down_proj", "äöü.ü.mlp.down_proj"};
  EXPECT_EQ(ShortenApart(parts, 12)[1], "…ü.ml…n_proj");
  // Equal names may look the same.
  EXPECT_EQ(ShortenApart({layers[0], layers[0]}, 18)[1], Shorten(layers[0], 18));
  // Too much that differs: whole.
  const std::vector<std::string> other = {"a.xabcdefghijkl.z.query", "a.xABCDEFGHIJKL.z.query"};
  EXPECT_EQ(ShortenApart(other, 12)[1], other[1]);
}

TEST(ReportText, ALayerIsThePathUpToItsFirstNumber) {
  EXPECT_EQ(LayerName("model.layers.17.mlp.experts.3.down"), "model.layers.17");
  EXPECT_EQ(LayerName("layers.0"), "layers.0");
  EXPECT_EQ(LayerName("0.weight"), "0");
  EXPECT_EQ(LayerName("lm_head"), "lm_head");
  EXPECT_EQ(LayerName("embed.tokens.word"), "embed.tokens");
  EXPECT_EQ(LayerName("model.norm"), "model.norm");
  EXPECT_EQ(LayerName("fc1.act"), "fc1.act");
  EXPECT_EQ(LayerName("."), ".");
  EXPECT_EQ(LayerName(""), "");
}

TEST(ReportText, LinesBreakAtSpaces) {
  const std::string word(30, 'x');
  const std::string line = word + " " + word + " " + word + " " + word;
  EXPECT_EQ(Wrap(line, 4), word + " " + word + " " + word + "\n    " + word);
  EXPECT_EQ(Wrap("fits", 4), "fits");
  // No space to break at: the word stays whole, also after an indent.
  const std::string long_word(120, 'y');
  EXPECT_EQ(Wrap(long_word, 4), long_word);
  EXPECT_EQ(Wrap("          " + long_word, 4), "          " + long_word);
  EXPECT_EQ(Wrap("a " + long_word + " b", 2), "a\n  " + long_word + "\n  b");
}

// Where a line ends does not matter: each begins at some column of a line that is broken.
TEST(ReportText, WhatIsThereToBeCopiedStaysOnOneLine) {
  for (const std::string part : {
           "--compute tf32",
           "--dims 'B:@param_grad: ... partial[dp:mean]'",
           "tdump-diff runs/nored --across dp --topology dp=2",
           "tdump-view 'runs/b at@0:2/1/blocks.1.up@state#weight.exp_avg' --values 8",
       }) {
    for (size_t before = 1; before < kReportWidth; ++before) {
      const std::string text = Wrap(std::string(before, 'x') + " " + part + " and what follows", 4);
      EXPECT_THAT(text, HasSubstr(part));
      EXPECT_LE(LongestLine(text), kReportWidth);
    }
  }
}

TEST(ReportText, ProseBreaksWhereItDid) {
  const std::string ranks = std::string(91, 'x') + " the ranks' parts";
  EXPECT_EQ(Wrap(ranks, 4), std::string(91, 'x') + " the\n    ranks' parts");
  const std::string all = std::string(90, 'x') + " --all, or others";
  EXPECT_EQ(Wrap(all, 4), std::string(90, 'x') + " --all, or\n    others");
}

TEST(ReportText, ATableFitsTheTerminal) {
  const std::string name = std::string(90, 'n') + ".end";
  const std::string table =
      Table({{"rank", "name", "max abs"}, {"0", name, "1.5"}, {"1", "x", "2"}}, {true, false, true},
            1, "  ", Style(false));
  EXPECT_EQ(LongestLine(table), kReportWidth);
  EXPECT_THAT(table, HasSubstr(".end"));
  EXPECT_THAT(Table({{"rank", "name"}, {"0", "x"}}, {true, false}, 1, "  ", Style(false)),
              "  rank  name\n     0  x\n");
}

}  // namespace
}  // namespace tdump::compare
