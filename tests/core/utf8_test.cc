#include "core/utf8.h"

#include <gtest/gtest.h>

namespace tdump {
namespace {

struct Character {
  const char* bytes;
  size_t length;
  uint32_t code;
};

TEST(Utf8, DecodesTheFirstAndLastCharacterOfEachLength) {
  for (const Character& c :
       {Character{"\x7f", 1, 0x7F}, Character{"\xC2\x80", 2, 0x80}, Character{"\xDF\xBF", 2, 0x7FF},
        Character{"\xE0\xA0\x80", 3, 0x800}, Character{"\xED\x9F\xBF", 3, 0xD7FF},
        Character{"\xEE\x80\x80", 3, 0xE000}, Character{"\xEF\xBF\xBF", 3, 0xFFFF},
        Character{"\xF0\x90\x80\x80", 4, 0x10000}, Character{"\xF4\x8F\xBF\xBF", 4, 0x10FFFF}}) {
    uint32_t code = 0;
    EXPECT_EQ(DecodeUtf8(c.bytes, &code), c.length) << c.code;
    EXPECT_EQ(code, c.code);
    EXPECT_EQ(Utf8Length(std::string(c.bytes) + "x"), c.length);
  }
}

TEST(Utf8, RefusesWhatIsMalformed) {
  for (const char* bytes :
       {"", "\x80", "\xC0\xAF", "\xC1\xBF", "\xC2", "\xC2x", "\xE0\x9F\xBF", "\xE1\x80",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(Utf8Length(bytes), 0u) << testing::PrintToString(std::string(bytes));
  }
}

TEST(Utf8, CountsAndFinds) {
  EXPECT_EQ(CharactersIn("a\xC3\xA4\xE2\x82\xAC"), 3u);
  EXPECT_EQ(FirstInvalidUtf8("a\xC3\xA4"), std::string_view::npos);
  EXPECT_EQ(FirstInvalidUtf8("a\xC3\xA4\xC3"), 3u);
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(CutUtf8("abc", 3), "abc");
  EXPECT_EQ(CutUtf8("abc", 2), "ab");
  EXPECT_EQ(CutUtf8("abc", 0), "");
  EXPECT_EQ(CutUtf8("a\u20ac!", 5), "a\u20ac!");
  EXPECT_EQ(CutUtf8("a\u20ac!", 4), "a\u20ac");
  EXPECT_EQ(CutUtf8("a\u20ac!", 3), "a");
  EXPECT_EQ(CutUtf8("a\u20ac!", 2), "a");
  EXPECT_EQ(CutUtf8("\x80\x80", 1), "");
}

}  // namespace
}  // namespace tdump
