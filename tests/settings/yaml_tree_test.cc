// The YAML of hostile and of merely unlucky people.
#include "settings/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tdump::settings {
namespace {

using ::testing::HasSubstr;

std::string Flow(std::string_view yaml) {
  Mistakes mistakes("c");
  const YamlPtr root = ParseYaml(yaml, &mistakes);
  return root != nullptr ? FlowText(*root) : mistakes.ToStatus().message();
}

TEST(YamlTree, EmptyTextsAreAnEmptyMap) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "\xEF\xBB\xBF"})
    EXPECT_EQ(Flow(text), "{}") << text;
}

TEST(YamlTree, AByteOrderMarkIsSkippedAndNotCounted) {
  EXPECT_EQ(Flow("\xEF\xBB\xBF"
                 "a: 1\n"),
            "{a: 1}");
  EXPECT_EQ(Flow("\xEF\xBB\xBF"
                 "a: 1\na: 2\n"),
            "c:2:1: 'a' is given twice, first in line 1, again in line 2; expected each key once");
}

TEST(YamlTree, WindowsLineEndsAreLineEnds) {
  EXPECT_EQ(Flow("a: 1\r\nb: [x,\r\n y]\r\n"), "{a: 1, b: [x, y]}");
}

TEST(YamlTree, WordsStayTheTextTheyAre) {  // K02
  EXPECT_EQ(Flow("[y, no, on, ~, null, 1e3, 0x1F, 012, .inf, 2024-01-01]"),
            "[y, no, on, ~, null, '1e3', '0x1F', 012, '.inf', 2024-01-01]");
}

TEST(YamlTree, ColumnsCountCharacters) {
  EXPECT_EQ(Flow("\xc3\xa9: 1\n\xc3\xa9: 2"),
            "c:2:1: '\xc3\xa9' is given twice, first in line 1, again in line 2; expected each key "
            "once");
  EXPECT_EQ(Flow("{\xc3\xa9: 1, a: 1, a: 2}"),
            "c:1:14: 'a' is given twice, first in line 1, again in line 1; expected each key once");
}

TEST(YamlTree, AliasesShareANode) {
  EXPECT_EQ(Flow("a: &x [1, 2]\nb: *x\n"), "{a: [1, 2], b: [1, 2]}");
  EXPECT_THAT(Flow("a: *nothing\n"), HasSubstr("c:1:"));
}

TEST(YamlTree, AMergeKeyIsAKeyLikeAnyOther) {
  EXPECT_EQ(Flow("a: &x {p: 1}\nb: {<<: *x, q: 2}\n"), "{a: {p: 1}, b: {'<<': {p: 1}, q: 2}}");
}

TEST(YamlTree, AnAnchorInsideItselfIsRefused) {  // K07
  EXPECT_THAT(Flow("a: &x [*x]\n"), HasSubstr("an alias inside its own anchor"));
  EXPECT_THAT(Flow("&x a: {b: &y {c: *y}}\n"), HasSubstr("an alias inside its own anchor"));
}

TEST(YamlTree, AnAliasBombIsRefusedAtOnce) {  // K07
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i <= 9; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) bomb += (k ? "," : "") + below;
    bomb += "]\n";
  }
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(Flow(bomb), HasSubstr("more than 200000 values, aliases expanded"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

TEST(YamlTree, LongTextsCountToo) {
  std::string text = "a: &a " + std::string(100'000, 'x') + "\nb: [";
  for (int i = 0; i < 100; ++i) text += "*a,";
  EXPECT_THAT(Flow(text + "]\n"), HasSubstr("values, aliases expanded"));
}

TEST(YamlTree, DeepNestingIsRefused) {  // K03
  EXPECT_THAT(Flow(std::string(100'000, '[')), HasSubstr("nested deeper than 64 levels"));
  std::string keys;
  for (int i = 0; i < 100'000; ++i) keys += "{a: ";
  EXPECT_THAT(Flow(keys), HasSubstr("nested deeper than 64 levels"));
  for (const char* one : {"- ", "? ", ": ", "- ? ", "[{? "}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += one;
    EXPECT_THAT(Flow(text), HasSubstr("nested deeper than 64 levels")) << one;
  }
  std::string block;
  for (int i = 0; i < 1000; ++i) block += std::string(i, ' ') + "a:\n";
  EXPECT_THAT(Flow(block), HasSubstr("c:65:65: nested deeper than 64 levels"));
  EXPECT_EQ(Flow(std::string(64, '[') + std::string(64, ']')),
            std::string(64, '[') + std::string(64, ']'));
}

// yaml-cpp takes the end of the file for the quote.
TEST(YamlTree, AQuoteIsClosed) {
  for (const char* open : {"a: 'x\n", "a: \"x\n", "a: 'x", "a: 'it''\n", "a: \"x\\\"\n",
                           "a: &q 'x\n", "b: 1\na:\n  - x\n  - 'y\n\n", "'a: 1\n", "a: \"\n"})
    EXPECT_THAT(Flow(open), testing::ContainsRegex("^c:[0-9]+:[0-9]+: not YAML: ")) << open;
  EXPECT_EQ(Flow("b: 1\na: 'x\n"), "c:2:4: not YAML: a quote that is not closed");
  for (const char* closed :
       {"a: 'x'\n", "a: 'it''s'\n", "a: ''\n", "a: \"\\\\\"\n", "a: x'\n", "a: &q 'x'\n",
        "a: 'x' # it's\n", "a: \"x\n  y\"\n", "'a': it's\n", "a: |\n  'x\n", "a:\n"})
    EXPECT_THAT(Flow(closed), testing::StartsWith("{a: ")) << closed;
}

TEST(YamlTree, BytesAreCheckedFirst) {
  EXPECT_EQ(Flow("a: 1\nb: \xff\n"), "c:2:4: bytes that are not UTF-8; expected UTF-8 text");
  EXPECT_EQ(Flow("a: \xed\xa0\x80\n"), "c:1:4: bytes that are not UTF-8; expected UTF-8 text");
  EXPECT_EQ(Flow(std::string_view("a: \0b", 5)), "c:1:4: a zero byte; expected UTF-8 text");
  EXPECT_EQ(Flow(std::string(kMaxYamlBytes + 1, '#')),
            "c: 1048577 bytes; expected at most 1048576 bytes");
  EXPECT_EQ(Flow(std::string(kMaxYamlBytes, '#')), "{}");
}

TEST(YamlTree, UTF16IsNotUTF8) {
  EXPECT_THAT(Flow(std::string_view("\xff\xfe"
                                    "a\0:\0",
                                    6)),
              HasSubstr("not UTF-8"));
}

TEST(YamlTree, ABackslashInDoubleQuotesGetsAHint) {  // K06
  EXPECT_EQ(Flow("a: 'layers\\.\\d+'\nb: layers\\.\\d+\n"),
            "{a: 'layers\\.\\d+', b: 'layers\\.\\d+'}");
  const std::string told = Flow("a: 1\nb: \"layers\\.\\d+\"\n");
  EXPECT_THAT(told, HasSubstr("c:2:"));
  EXPECT_THAT(told, HasSubstr("use single quotes"));
}

TEST(YamlTree, ATabGetsAHint) {
  const std::string told = Flow("a:\n\tb: 1\n");
  EXPECT_THAT(told, HasSubstr("c:2:"));
  EXPECT_THAT(told, HasSubstr("a tab cannot indent YAML"));
}

TEST(YamlTree, OneDocumentWithoutTags) {
  EXPECT_THAT(Flow("a: 1\n---\nb: 1\n"),
              HasSubstr("a second document; expected one document per file"));
  EXPECT_THAT(Flow("a: !python/object x\n"), HasSubstr("tag '!python/object' has no meaning here"));
  EXPECT_THAT(Flow("a: !!str off\n"), HasSubstr("tag 'tag:yaml.org,2002:str' has no meaning here"));
  EXPECT_THAT(Flow("a: !!seq [1]\n"), HasSubstr("tag 'tag:yaml.org,2002:seq' has no meaning here"));
}

TEST(YamlTree, KeysAreText) {
  EXPECT_THAT(Flow("? [a, b]\n: 1\n"), HasSubstr("a key that is not text"));
}

// K05: whatever is thrown at the scanner comes back as a message. The seeds mix tags, block scalars
// and odd indentation; a small generator cuts and joins them.
TEST(YamlTree, NothingEndsTheProcess) {
  const std::vector<std::string> seeds = {"!<tag> |\n  a\n b\n",
                                          "- >-\n   x\n  y\n",
                                          "? |\n a\n: - !t\n",
                                          "[a, {b: ]}\n",
                                          "&a *a\n",
                                          "\"\\x",
                                          "'",
                                          "%YAML 9.9\n---\n",
                                          "a: |9\n b\n",
                                          "- - -\n -\n",
                                          "{?:,}",
                                          "!!binary\n",
                                          "...\n---"};
  uint32_t state = 12345;
  const auto next = [&state](size_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<size_t>(state >> 8) % below;
  };
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t parts = 1 + next(4); parts > 0; --parts) {
      const std::string& seed = seeds[next(seeds.size())];
      text += seed.substr(next(seed.size()));
      if (next(4) == 0) text.insert(next(text.size() + 1), 1, "\n\t :-|>!&*[]{}'\"%"[next(16)]);
    }
    Mistakes mistakes("c");
    const YamlPtr root = ParseYaml(text, &mistakes);
    EXPECT_EQ(root == nullptr, !mistakes.empty()) << text;
  }
}

}  // namespace
}  // namespace tdump::settings
