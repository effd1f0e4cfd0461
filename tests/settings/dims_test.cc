#include "settings/dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tdump {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Dims Parsed(std::string_view text) {
  auto dims = Dims::Parse(text);
  EXPECT_TRUE(dims.ok()) << dims.status().message();
  return dims.ok() ? *dims : Dims{};
}

std::string Error(std::string_view text) {
  const auto dims = Dims::Parse(text);
  EXPECT_FALSE(dims.ok()) << text;
  return dims.status().message();
}

TEST(Dims, EachPartOfTheLanguage) {
  const Dims dims = Parsed("b s[cp:zigzag,tp] h[ep:sizes=@counts] partial[dp]");
  ASSERT_EQ(dims.dims.size(), 3u);
  EXPECT_EQ(dims.dims[0].parts[0].name, "b");
  EXPECT_THAT(dims.dims[0].parts[0].axes, IsEmpty());
  const auto& s = dims.dims[1].parts[0].axes;
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s[0], (AxisUse{.axis = "cp", .split = Split::kZigzag}));
  EXPECT_EQ(s[1], (AxisUse{.axis = "tp"}));
  EXPECT_EQ(dims.dims[2].parts[0].axes[0].sizes, (NumberList{.record = "counts"}));
  EXPECT_THAT(dims.partial, ElementsAre("dp"));
  EXPECT_THAT(dims.SplitAxes(), ElementsAre("cp", "tp", "ep"));
  EXPECT_TRUE(dims.Mentions("dp"));
  EXPECT_FALSE(dims.Mentions("pp"));
}

TEST(Dims, FusedSizesAndLists) {
  const Dims dims = Parsed("(b=2 s[cp:striped=16:packed=8+12+4]) v=100[tp]");
  ASSERT_EQ(dims.dims.size(), 2u);
  EXPECT_TRUE(dims.dims[0].is_fused());
  EXPECT_EQ(dims.dims[0].parts[0].size, 2u);
  const AxisUse& cp = dims.dims[0].parts[1].axes[0];
  EXPECT_EQ(cp.split, Split::kStriped);
  EXPECT_EQ(cp.block, 16u);
  EXPECT_THAT(cp.packed.numbers, ElementsAre(8, 12, 4));
  EXPECT_EQ(dims.dims[1].parts[0].size, 100u);
}

TEST(Dims, QualifiersPartialAndReplicatedAreStatements) {
  EXPECT_EQ(Parsed("b h[tp:partial] x[dp:replicated,cp]"),
            Parsed("b h x[cp] partial[tp] replicated[dp]"));
}

TEST(Dims, AMeanIsOfPartials) {
  const Dims dims = Parsed("b h[tp:partial] x[dp:partial:mean]");
  EXPECT_EQ(dims, Parsed("b h x partial[tp,dp:mean]"));
  EXPECT_THAT(dims.partial, ElementsAre("tp", "dp"));
  EXPECT_TRUE(dims.IsMean("dp"));
  EXPECT_FALSE(dims.IsMean("tp"));
  EXPECT_NE(dims, Parsed("b h x partial[tp,dp]"));
  EXPECT_THAT(Error("b[dp:mean]"), HasSubstr("column 6: mean stands behind partial"));
  EXPECT_THAT(Error("b[dp:replicated:mean]"), HasSubstr("mean stands behind partial"));
  EXPECT_THAT(Error("partial[dp:sum]"), HasSubstr("column 12: expected mean"));
  EXPECT_THAT(Error("replicated[dp:mean]"), HasSubstr("column 14: expected ',' or ']'"));
}

TEST(Dims, AListMayBeARecord) {
  const Dims dims =
      Parsed("t[cp:packed=@attn@input#kwargs.cu:zigzag,ep:sizes=@x::call1@output#] h");
  const auto& axes = dims.dims[0].parts[0].axes;
  EXPECT_EQ(axes[0].packed.record, "attn@input#kwargs.cu");
  EXPECT_EQ(axes[0].split, Split::kZigzag);
  EXPECT_EQ(axes[1].sizes.record, "x::call1@output#");
  EXPECT_THAT(dims.Records(), ElementsAre("attn@input#kwargs.cu", "x::call1@output#"));
  EXPECT_THAT(Parsed("(b=2 s[cp:packed=@in]) v[tp:sizes=@in] h[ep:sizes=1+2]").Records(),
              ElementsAre("in"));
  EXPECT_THAT(Error("t[cp:packed=cu]"),
              HasSubstr("column 13: expected numbers, or @ and the name of a record, found 'c'"));
  EXPECT_THAT(Error("t[cp:packed=@]"), HasSubstr("column 14: expected the name of a record"));
  EXPECT_THAT(Error("t[cp:packed=@\"\"]"), HasSubstr("expected the name of a record"));
  EXPECT_THAT(Error("t[cp:packed=@\"cu]"), HasSubstr("column 14: '\"' without its end"));
}

TEST(Dims, TextReadsBackTheSame) {
  for (const std::string text :
       {"", "b s h", "b s[cp:zigzag] h[tp]", "s[cp:zigzag,tp] b h", "(b s)[cp] h",
        "(b=2 s[cp:striped]) ... h[tp:sizes=1+2+3]", "t[cp:zigzag:packed=@cu] h=4 partial[tp,ep]",
        "... replicated[dp]", "_ _=3[tp] _", "x[cp:striped=16]", "... partial[tp,dp:mean,ep]",
        "t[ep:sizes=@a.b:packed=@c/d@output#0]", "t[cp:packed=@\"Critic:x@tap::call1#\"] h",
        "t[cp:packed=@\"a, b]\",tp]"}) {
    EXPECT_EQ(Parsed(text).ToText(), text);
  }
  EXPECT_EQ(Parsed("  b   s [ cp : zigzag , tp ]( h  d = 4 ) ").ToText(),
            "b s[cp:zigzag,tp] (h d=4)");
  EXPECT_EQ(Parsed("h[tp:contiguous]").ToText(), "h[tp]");
  EXPECT_EQ(Parsed("(h)[tp]").ToText(), "h[tp]");
}

TEST(Dims, AnErrorNamesTheColumnAndWhatWasExpected) {
  EXPECT_EQ(Error("b s[cp"), "dims 'b s[cp', column 7: it ends where ',' or ']' was expected");
  EXPECT_THAT(Error("b s[cp:zigzg]"), HasSubstr("column 8: expected contiguous, zigzag, striped"));
  EXPECT_THAT(Error("b 3"), HasSubstr("column 3: expected a dimension's name"));
  EXPECT_THAT(Error("b[]"), HasSubstr("column 3: expected the name of an axis"));
  EXPECT_THAT(Error("b="), HasSubstr("column 3: it ends where a number was expected"));
  EXPECT_THAT(Error("b=99999999999999999999"), HasSubstr("too large"));
  EXPECT_THAT(Error("b h b"), HasSubstr("column 5: 'b' names a second dimension; call it b2"));
  EXPECT_THAT(Error("b[tp] h[tp]"), HasSubstr("column 9: axis 'tp' is used a second time"));
  EXPECT_THAT(Error("h[tp] partial[tp]"), HasSubstr("axis 'tp' is used a second time"));
  EXPECT_THAT(Error("partial"), HasSubstr("it ends where '[' and the axes of partial"));
  EXPECT_THAT(Error("... b ..."), HasSubstr("column 7: '...' stands once"));
  EXPECT_THAT(Error("()"), HasSubstr("'()' fuses no dimension"));
  EXPECT_THAT(Error("(b s"), HasSubstr("or ')'"));
  EXPECT_THAT(Error("(b s[cp])[dp]"), HasSubstr("either as a whole or by its parts"));
  EXPECT_THAT(Error("s[cp:striped=0]"), HasSubstr("a block of 0"));
  EXPECT_THAT(Error("s[cp:sizes]"), HasSubstr("'='"));
  EXPECT_THAT(Error(std::string(100000, 'b')), HasSubstr("at most"));
  EXPECT_THAT(Error("b \x01"), HasSubstr("column 3"));
}

// Words in any order: an error with a column, or dims whose text reads back as the same dims.
TEST(Dims, AnyTextIsReadOrRefused) {
  const std::vector<std::string> words = {
      "b",       "s",           "h",   "_",    "partial", "replicated", "[",  "]",
      "(",       ")",           ",",   ":",    "=",       "+",          "7",  "zigzag",
      "striped", "sizes",       "tp",  "cp",   "...",     "packed",     " ",  "\xFF",
      "[tp]",    "[cp:zigzag]", "=16", "=1+2", "mean",    "@",          "\"", ":partial:mean"};
  std::mt19937 random(11);
  size_t read = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (size_t k = random() % 10; k > 0; --k) text += words[random() % words.size()];
    const auto dims = Dims::Parse(text);
    if (!dims.ok()) {
      ASSERT_THAT(dims.status().message(), HasSubstr(", column ")) << text;
      continue;
    }
    ++read;
    const auto again = Dims::Parse(dims->ToText());
    ASSERT_TRUE(again.ok()) << text << " -> " << dims->ToText();
    ASSERT_EQ(*again, *dims) << text;
  }
  EXPECT_GT(read, 1000u);
}

TEST(Dims, TheEllipsisStandsForAnyNumberOfDimensions) {
  const Dims dims = Parsed("b ... h[tp]");
  EXPECT_EQ(dims.Expanded(4)->ToText(), "b _ _ h[tp]");
  EXPECT_EQ(dims.Expanded(2)->ToText(), "b h[tp]");
  EXPECT_THAT(dims.Expanded(1).status().message(),
              HasSubstr("name at least 2 dimensions, the tensor has 1"));
  EXPECT_THAT(Parsed("b h").Expanded(3).status().message(),
              HasSubstr("dims 'b h' name 2 dimensions, the tensor has 3"));
}

}  // namespace
}  // namespace tdump
