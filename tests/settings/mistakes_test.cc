#include "settings/mistakes.h"

#include <gtest/gtest.h>

namespace tdump::settings {
namespace {

TEST(Mistakes, OneLineEachInOrderOfPlace) {
  Mistakes mistakes("c.yaml");
  mistakes.Add({3, 1}, "late");
  mistakes.Add({1, 4}, "wrong", "right", "rong");
  mistakes.Add({}, "whole file");
  EXPECT_EQ(mistakes.ToStatus().message(),
            "c.yaml: whole file\n"
            "c.yaml:1:4: wrong; expected right; did you mean 'rong'?\n"
            "c.yaml:3:1: late");
}

TEST(Mistakes, NoneIsOk) { EXPECT_TRUE(Mistakes("c.yaml").ToStatus().ok()); }

TEST(Mistakes, AreOneLineEach) {
  Mistakes mistakes("c\n.yaml");
  mistakes.Add({1, 1}, "'a\nb'", "\x1b[31m", "\r");
  EXPECT_EQ(mistakes.ToStatus().message(),
            "c\\x0a.yaml:1:1: 'a\\x0ab'; expected \\x1b[31m; did you mean '\\x0d'?");
}

TEST(Mistakes, OfOneValueHaveNoPlace) {
  Mistakes mistakes("TDUMP_STEPS", false);
  mistakes.Add({1, 1}, "wrong");
  EXPECT_EQ(mistakes.ToStatus().message(), "TDUMP_STEPS: wrong");
}

TEST(Mistakes, FiftyAreShown) {
  Mistakes mistakes("c");
  for (int i = 1; i <= 60; ++i) mistakes.Add({i, 1}, "x");
  const std::string text = mistakes.ToStatus().message();
  EXPECT_NE(text.find("c:50:1: x\n... and 10 more"), std::string::npos);
  EXPECT_EQ(text.find("c:51:1"), std::string::npos);
}

TEST(Nearest, WithinAThirdOfTheWord) {
  const std::vector<std::string> keys = {"capture", "collect", "steps", "ranks"};
  EXPECT_EQ(Nearest("captrue", keys), "capture");  // a swap counts one
  EXPECT_EQ(Nearest("step", keys), "steps");
  EXPECT_EQ(Nearest("stpes", keys), "steps");
  EXPECT_EQ(Nearest("memory", keys), "");
  EXPECT_EQ(Nearest("", keys), "");
  EXPECT_EQ(Nearest("2", {"1"}), "");  // nothing alike
  EXPECT_EQ(Nearest(std::string(1 << 20, 'x'), keys), "");
}

TEST(Printable, EscapesControlsAndWhatIsNotUtf8AndIsShort) {
  EXPECT_EQ(Printable("a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
  // U+202E, which shows what follows from right to left.
  EXPECT_EQ(Printable("a\xe2\x80\xae"), "a\\xe2\\x80\\xae");
  EXPECT_EQ(Printable("\xff\xc3\xa9"), "\\xff\xc3\xa9");
  EXPECT_EQ(Printable(std::string(100, 'x')), std::string(80, 'x') + "...");
  EXPECT_EQ(Printable(std::string(80, 'x')), std::string(80, 'x'));
}

}  // namespace
}  // namespace tdump::settings
