#include "core/call_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/index_text.h"

namespace tdump {
namespace {

std::string TextOf(const CallText& text) { return CallText::ToString(text.bytes()); }

TEST(CallText, IsEmptyWithoutValues) {
  CallText text;
  EXPECT_EQ(TextOf(text), "");
  EXPECT_EQ(CallText::ToString({}), "");
}

TEST(CallText, WritesEachFormOfValue) {
  CallText text;
  text.AddText("overload", "Scalar");
  text.AddText("", "bare");
  text.AddBool("keepdim", true);
  text.AddInteger("k", -7);
  text.AddDouble("eps", 1e-5);
  text.AddDouble("alpha", 2.0);
  text.AddComplex("other", 1, -2.5);
  const int64_t sizes[] = {2, -1};
  text.AddIntegers("shape", 2, [&](size_t i) { return sizes[i]; });
  text.AddDoubles("scales", 2, [](size_t i) { return 1.5 - static_cast<double>(i); });
  text.AddBools("mask", 3, [](size_t i) { return i == 1; });
  text.AddIntegers("dim", 0, [](size_t) { return 0; });
  EXPECT_EQ(TextOf(text),
            "overload=Scalar; bare; keepdim=true; k=-7; eps=1e-05; alpha=2; other=1+-2.5j; "
            "shape=[2,-1]; scales=[1.5,0.5]; mask=[false,true,false]; dim=[]");
  text.Clear();
  EXPECT_EQ(TextOf(text), "");
}

// The texts are those of repr() in Python 3.11.
TEST(CallText, WritesFloatsOfPythonAsPythonDoes) {
  const std::pair<double, const char*> cases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {-1.5, "-1.5"},
      {0.1, "0.1"},
      {1e-4, "0.0001"},
      {0.00012345, "0.00012345"},
      {9.999e-5, "9.999e-05"},
      {1e-5, "1e-05"},
      {1e-12, "1e-12"},
      {1.5e-300, "1.5e-300"},
      {5e-324, "5e-324"},
      {100000.0, "100000.0"},
      {123456789.125, "123456789.125"},
      {1e15, "1000000000000000.0"},
      {9007199254740993.0, "9007199254740992.0"},
      {9999999999999998.0, "9999999999999998.0"},
      {1e16, "1e+16"},
      {1.2345e17, "1.2345e+17"},
      {1e22, "1e+22"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::numeric_limits<double>::quiet_NaN(), "nan"},
      {-std::numeric_limits<double>::quiet_NaN(), "nan"},
  };
  for (const auto& [value, expected] : cases) {
    CallText text;
    text.AddPythonFloat("", value);
    EXPECT_EQ(TextOf(text), expected);
  }
}

TEST(CallText, QuotesStringsOfPythonAsPythonDoes) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "''"},
      {"plain", "'plain'"},
      {"it's", "\"it's\""},
      {"\"", "'\"'"},
      {"it's \"it\"", "'it\\'s \"it\"'"},
      {"a\\b", "'a\\\\b'"},
      {"\n\r\t", "'\\n\\r\\t'"},
      {std::string("\0\x01\x1f\x7f", 4), "'\\x00\\x01\\x1f\\x7f'"},
  };
  for (const auto& [value, expected] : cases) {
    CallText text;
    text.AddPythonString("", value);
    EXPECT_EQ(TextOf(text), expected);
  }
  CallText text;
  text.AddPythonObject("kwargs.cls", "type");
  EXPECT_EQ(TextOf(text), "kwargs.cls=<type>");
}

// The quote depends on the whole of a text, of which only the beginning is kept.
TEST(CallText, ChoosesTheQuoteByWhatIsCutOff) {
  CallText text;
  text.AddPythonString("", std::string(2000, 'x') + "'");
  EXPECT_EQ(TextOf(text), "\"" + std::string(1020, 'x') + "...");
}

TEST(CallText, CutsAListBehindAbout256Bytes) {
  CallText text;
  text.AddIntegers("", 1'000'000, [](size_t i) { return static_cast<int64_t>(i % 10); });
  std::string expected = "[0";
  for (int i = 1; i < 128; ++i) expected += "," + std::to_string(i % 10);
  ASSERT_EQ(expected.size(), 256u);
  EXPECT_EQ(TextOf(text), expected + ",8,...]");
  EXPECT_LT(text.bytes().size(), 1100u);
}

TEST(CallText, CutsAtOneKibibyte) {
  CallText text;
  text.AddText("", std::string(1024, 'x'));
  EXPECT_FALSE(text.full());
  EXPECT_EQ(TextOf(text), std::string(1024, 'x'));
  text.AddInteger("more", 1);
  EXPECT_TRUE(text.full());
  EXPECT_EQ(TextOf(text), std::string(1021, 'x') + "...");
  text.Clear();
  EXPECT_FALSE(text.full());
  text.AddText("", std::string(1025, 'x'));
  EXPECT_EQ(TextOf(text), std::string(1021, 'x') + "...");
  text.Clear();
  text.AddText("a", std::string(100'000, 'y'));
  EXPECT_EQ(TextOf(text), "a=" + std::string(1019, 'y') + "...");
  EXPECT_LT(text.bytes().size(), 1100u);
}

// A text that is as long as it may be says that more follows.
TEST(CallText, SaysThatMoreFollowsAFullText) {
  for (const size_t length : {1021, 1022, 1023, 1024}) {
    CallText text;
    text.AddText("a", std::string(length, 'A'));
    text.AddInteger("c", 9);
    const std::string made = CallText::ToString(text.bytes());
    EXPECT_EQ(made.size(), 1024u);
    EXPECT_EQ(made.substr(1021), "...") << length;
  }
  CallText whole;
  whole.AddText("a", std::string(1022, 'A'));
  EXPECT_EQ(CallText::ToString(whole.bytes()), "a=" + std::string(1022, 'A'));
}

TEST(CallText, CutsNoCharacterInTwo) {
  for (const size_t before : {1018, 1019, 1020, 1021}) {
    CallText text;
    text.AddText("", std::string(before, 'x') + "\u20ac" + "yyyy");
    const std::string kept = std::string(before, 'x') + (before == 1018 ? "\u20ac" : "");
    EXPECT_EQ(TextOf(text), kept + "...") << before;
  }
}

TEST(CallText, TakesNoMoreThanCanBeRead) {
  CallText text;
  for (int i = 0; i < 100'000; ++i) text.AddInteger("i", 1);
  EXPECT_TRUE(text.full());
  EXPECT_LT(text.bytes().size(), 5000u);
  const std::string made = TextOf(text);
  EXPECT_EQ(made.size(), 1024u);
  EXPECT_EQ(made.substr(0, 10), "i=1; i=1; ");
  EXPECT_EQ(made.substr(1014), " i=1; i...");
}

TEST(IndexText, HasTheDigitsOfTheIndex) {
  char digits[IndexText::kMaxBytes];
  for (const uint64_t index :
       {0ull, 1ull, 9ull, 10ull, 99ull, 100ull, 909ull, 999ull, 1000ull, 18446744073709551615ull})
    EXPECT_EQ(std::string(digits, IndexText::Copy(index, digits)), std::to_string(index));
}

}  // namespace
}  // namespace tdump
