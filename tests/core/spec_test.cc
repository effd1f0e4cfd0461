#include "core/spec.h"

#include <gtest/gtest.h>

namespace tdump {
namespace {

std::vector<uint64_t> Members(std::string_view text, uint64_t count) {
  const Spec spec = Spec::Parse(text).value();
  std::vector<uint64_t> members;
  for (uint64_t i = 0; i < count; ++i) {
    if (spec.Contains(i, count)) members.push_back(i);
  }
  return members;
}

TEST(SpecTest, RangesAreInclusive) {
  EXPECT_EQ(Members("0-3", 8), (std::vector<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(Members("3,7", 8), (std::vector<uint64_t>{3, 7}));
  EXPECT_EQ(Members("0-511:8", 20), (std::vector<uint64_t>{0, 8, 16}));
  EXPECT_EQ(Members("1-7:3, 0", 8), (std::vector<uint64_t>{0, 1, 4, 7}));
  EXPECT_EQ(Members("all", 3), (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_TRUE(Members("none", 8).empty());
  EXPECT_EQ(Members("-1", 8), (std::vector<uint64_t>{7}));
  EXPECT_EQ(Members("0,-2", 8), (std::vector<uint64_t>{0, 6}));
}

TEST(SpecTest, NegativeNumbersNeedTheCount) {
  EXPECT_FALSE(Spec::Parse("-1")->Contains(0));
  EXPECT_FALSE(Spec::Parse("-1")->Contains(UINT64_MAX));
  EXPECT_TRUE(Spec::Parse("-1")->has_negative());
  EXPECT_FALSE(Spec::Parse("0-9")->has_negative());
}

TEST(SpecTest, SmallestAndLargest) {
  const Spec spec = Spec::Parse("7,2-5,-1").value();
  EXPECT_EQ(spec.Min(10), 2u);
  EXPECT_EQ(spec.Max(10), 9u);
  EXPECT_EQ(Spec::All().Max(), UINT64_MAX);
  EXPECT_EQ(Spec::All().Min(), 0u);
}

TEST(SpecTest, FitsNamesTheFirstItemThatIsOutside) {
  std::string misfit;
  EXPECT_TRUE(Spec::Parse("0-3,-4").value().FitsIn(4, &misfit));
  EXPECT_FALSE(Spec::Parse("0,2-4").value().FitsIn(4, &misfit));
  EXPECT_EQ(misfit, "2-4");
  EXPECT_FALSE(Spec::Parse("-5").value().FitsIn(4, &misfit));
  EXPECT_EQ(misfit, "-5");
  EXPECT_TRUE(Spec::All().FitsIn(1, &misfit));
}

TEST(SpecTest, TextReadsBack) {
  for (const char* text : {"all", "none", "0-9", "3,7", "0-511:8", "-1", "5,0-4:2,-3"}) {
    const Spec spec = Spec::Parse(text).value();
    EXPECT_EQ(spec.ToString(), text);
    EXPECT_EQ(Spec::Parse(spec.ToString()).value(), spec);
  }
}

TEST(SpecTest, ErrorsNameThePositionAndWhatWasExpected) {
  const auto message = [](std::string_view text) { return Spec::Parse(text).status().message(); };
  EXPECT_NE(message("0-").find("position 2: expected the end of the range"), std::string::npos)
      << message("0-");
  EXPECT_NE(message("3,x").find("position 2: expected a number"), std::string::npos)
      << message("3,x");
  EXPECT_NE(message("9-3").find("not below the start"), std::string::npos) << message("9-3");
  EXPECT_NE(message("0-9:0").find("stride"), std::string::npos) << message("0-9:0");
  for (const char* text : {"", ",", "1,", "-", "1-2-3", "1:2", "0-9:-1", "99999999999999999999",
                           "-9223372036854775808", "1 2", "a", "all,1", "-1-3"}) {
    EXPECT_FALSE(Spec::Parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tdump
