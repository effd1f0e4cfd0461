#include "settings/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tdump::settings {
namespace {

using ::testing::HasSubstr;

Regex::Match Search(const std::string& pattern, const std::string& subject) {
  auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().message();
  return regex->Search(subject);
}

TEST(Regex, Searches) {
  EXPECT_EQ(Search("self", "attention.self.query"), Regex::Match::kYes);
  EXPECT_EQ(Search("^self", "attention.self.query"), Regex::Match::kNo);
  EXPECT_EQ(Search("", ""), Regex::Match::kYes);
  EXPECT_EQ(Search("(?<!x)self(?=\\.)", "a.self.b"), Regex::Match::kYes);
  EXPECT_EQ(Search("^.$", "\xc3\xa9"), Regex::Match::kYes);  // a character, not a byte
  EXPECT_EQ(Search("b$",
                   "a\xff"
                   "b"),
            Regex::Match::kYes);  // bytes that are not UTF-8 are no error
}

TEST(Regex, BadPatternsNamePatternAndPosition) {  // K06
  const auto bad = [](const std::string& pattern) {
    return Regex::Compile(pattern).status().message();
  };
  EXPECT_EQ(bad("a(b"), "regex 'a(b': missing closing parenthesis at position 3");
  EXPECT_THAT(bad("*a"), HasSubstr("regex '*a': "));
  EXPECT_THAT(bad("[z-a]"), HasSubstr("position"));
  EXPECT_THAT(bad("\\C"), HasSubstr("regex '\\C': "));  // would split characters
  EXPECT_THAT(bad("\xff"), HasSubstr("UTF-8 error"));
  EXPECT_THAT(bad(std::string(20'000, 'a')), HasSubstr("20000 bytes: longer than 16384"));
}

// Patterns that take exponential time to fail give up instead, in bounded time.
TEST(Regex, HostilePatternsGiveUp) {
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(Search("(a+)+$", std::string(60, 'a') + "b"), Regex::Match::kGaveUp);
  EXPECT_EQ(Search("^(\\w|\\w\\w)+$", std::string(60, 'w') + "!"), Regex::Match::kGaveUp);
  EXPECT_NE(Search("(a|aa)+$", std::string(1 << 16, 'a')), Regex::Match::kNo);
  EXPECT_NE(Search("(?1)(a(?1)?b)", std::string(1 << 16, 'a')), Regex::Match::kYes);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

TEST(Regex, FindGivesTheLeftmostMatchAndItsGroups) {
  const auto regex = Regex::Compile("layers\\.(?<layer>\\d+)(x)?\\.(w)");
  const std::string name = "m.layers.12.w.layers.3.w";
  std::vector<std::string_view> groups;
  ASSERT_EQ(regex->Find(name, &groups), Regex::Match::kYes);
  EXPECT_THAT(groups, testing::ElementsAre("layers.12.w", "12", "", "w"));
  EXPECT_EQ(groups[0].data(), name.data() + 2);
  EXPECT_EQ(groups[2].data(), nullptr);  // took no part
  EXPECT_EQ(regex->groups(), 3u);
  EXPECT_EQ(regex->GroupNamed("layer"), 1u);
  EXPECT_EQ(regex->GroupNamed("other"), 0u);
  EXPECT_EQ(regex->Find("none", &groups), Regex::Match::kNo);
}

TEST(Regex, FindTellsNoMoreThanItsMostGroups) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "(a)";
  const auto regex = Regex::Compile(pattern);
  std::vector<std::string_view> groups;
  EXPECT_EQ(regex->Find(std::string(100, 'a'), &groups), Regex::Match::kYes);
  EXPECT_EQ(groups.size(), 1u + Regex::kMaxGroups);
}

TEST(Regex, SearchesAreCounted) {
  const auto regex = Regex::Compile("a");
  const uint64_t before = Regex::SearchesOfThread();
  regex->Search("a");
  regex->Search("b");
  EXPECT_EQ(Regex::SearchesOfThread() - before, 2u);
}

}  // namespace
}  // namespace tdump::settings
