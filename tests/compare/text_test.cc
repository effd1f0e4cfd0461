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

TEST(ReportText, NumbersStandBehindTheirNoun) {
  EXPECT_EQ(RanksText({2}), "rank 2");
  EXPECT_EQ(RanksText({3, 0, 1}), "ranks 0-1,3");
  EXPECT_EQ(RanksText({}), "ranks none");
  EXPECT_EQ(StepsText({3}), "step 3");
  EXPECT_EQ(StepsText({0, 1, 2, 5}), "steps 0-2,5");
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
           "tdump-diff A B --steps auto",
           "tdump-diff runs/one runs/ddp4 --topology B:dp=4",
           "tdump-diff one two --across dp",
           "tdump-diff golden.npy RUN:3/0/mlp",
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
  const auto table = [&](size_t columns) {
    return Table({{"rank", "name", "max abs"}, {"0", "", "1.5"}, {"1", "", "2"}},
                 {true, false, true}, 1, {{name, ""}, {"x", ""}}, "  ", Style(false, columns));
  };
  EXPECT_EQ(LongestLine(table(kReportWidth)), kReportWidth);
  EXPECT_THAT(table(kReportWidth), HasSubstr(".end"));
  EXPECT_EQ(LongestLine(table(80)), 80u);
  // What is there is used.
  EXPECT_THAT(table(140), HasSubstr(name));
  EXPECT_THAT(
      Table({{"rank", "name"}, {"0", ""}}, {true, false}, 1, {{"x", ""}}, "  ", Style(false)),
      "  rank  name\n     0  x\n");
}

// What differs of two names is more than a column has room for.
TEST(ReportText, ANameThatHasToBeLongStandsOnALineOfItsOwn) {
  const auto table = [](const std::string& one, const std::string& other) {
    return Table({{"rank", "name", "max abs"}, {"0", "", "1.5"}, {"1", "", "2"}, {"1", "", "3"}},
                 {true, false, true}, 1,
                 {{one, ", output"}, {"x", ", output"}, {other, ", output"}}, "  ",
                 Style(false, 40));
  };
  const std::string xs(30, 'x'), ys(30, 'y');
  EXPECT_EQ(table("model.layer." + xs + ".projection", "model.layer." + ys + ".projection"),
            "  rank  name       max abs\n"
            "     0  model.laye…xx.projection, output\n"
            "                       1.5\n"
            "     1  x, output        2\n"
            "     1  model.laye…yy.projection, output\n"
            "                         3\n");
  // Too much for any line: whole.
  const std::string tail = ".projection_of_everything";
  EXPECT_THAT(table("model.layer." + xs + tail, "model.layer." + ys + tail),
              HasSubstr("     0  model.layer." + xs + tail + ", output\n"));
}

}  // namespace
}  // namespace tdump::compare
