#include "core/text.h"

#include <gtest/gtest.h>

namespace tdump {
namespace {

TEST(Text, PrintableTakesTheTeethFromControlBytes) {
  EXPECT_EQ(Printable("layer.0"), "layer.0");
  EXPECT_EQ(Printable("a\033[2Jb\n\r\t\x7f"), "a\\x1b[2Jb\\x0a\\x0d\\x09\\x7f");
  EXPECT_EQ(Printable("Schicht_\xC3\xA4"), "Schicht_\xC3\xA4");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "\\xc2\\x9b31m");  // C1: CSI in one character
  EXPECT_EQ(Printable("\xE2\x80\xAE"
                      "gpj"),
            "\\xe2\\x80\\xaegpj");                 // right-to-left override
  EXPECT_EQ(Printable("\xFF\xC3"), "\\xff\\xc3");  // no UTF-8
  EXPECT_EQ(Printable("\xC0\x9B"), "\\xc0\\x9b");  // overlong ESC
}

TEST(Text, Numbers) {
  EXPECT_EQ(RangesText({5, 0, 2, 1, 2}), "0-2,5");
  EXPECT_EQ(RangesText({}), "none");
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1412), "1,412");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(Plural(1, "rank"), "1 rank");
  EXPECT_EQ(Plural(2, "pass"), "2 passes");
  EXPECT_EQ(Plural(2, "batch"), "2 batches");
}

TEST(Text, BytesHaveThreeDigitsAtMost) {
  EXPECT_EQ(BytesText(17), "17 B");
  EXPECT_EQ(BytesText(4ull << 30), "4.0 GiB");
  EXPECT_EQ(BytesText(512ull << 20), "512 MiB");
  EXPECT_EQ(BytesText((1ull << 20) - 1), "1.0 MiB");  // not "1024 KiB"
  EXPECT_EQ(BytesText(~0ull), "16 EiB");
}

TEST(Text, WordsOfACommandLineAreQuotedWhereAShellNeedsIt) {
  EXPECT_EQ(ShellWord("runs/a@0:3/1/mlp"), "runs/a@0:3/1/mlp");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("my runs/a"), "'my runs/a'");
  EXPECT_EQ(ShellWord("it's $HOME"), "'it'\\''s $HOME'");
}

TEST(Text, EditDistanceCountsASwapOfNeighboursOnce) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("captrue", "capture"), 1u);
  EXPECT_EQ(EditDistance("same", "same"), 0u);
  EXPECT_EQ(EditDistance("ca", "abc"), 3u);  // not edited again between the swapped letters
}

}  // namespace
}  // namespace tdump
