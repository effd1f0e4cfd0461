#include "filters/level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::filters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Level Of(std::initializer_list<std::string_view> words) {
  Level level;
  for (std::string_view word : words) {
    const Status added = AddLevelWord(word, &level);
    EXPECT_TRUE(added.ok()) << word << ": " << added.message();
  }
  return level;
}

TEST(Level, WordsAddParts) {
  EXPECT_EQ(Of({"off"}).parts, kPartNone);
  EXPECT_EQ(Of({"hash"}).parts, kPartMeta | kPartHash);
  EXPECT_EQ(Of({"hash", "stats"}).parts, kPartMeta | kPartHash | kPartStats);
  EXPECT_EQ(Of({"full", "sample"}).parts, kLevelFull | kPartSample);
  EXPECT_EQ(Of({"sample"}).sample, 64u);
  EXPECT_EQ(Of({"sample:16", "sample:8"}).sample, 16u);
}

TEST(Level, Slices) {
  EXPECT_THAT(Of({"slice[0:8, :]"}).slice, ElementsAre(SliceRange{0, 8, 1}, SliceRange{}));
  EXPECT_THAT(
      Of({"slice[-1, 3, ::4]"}).slice,
      ElementsAre(SliceRange{-1, INT64_MAX, 1}, SliceRange{3, 4, 1}, SliceRange{0, INT64_MAX, 4}));
  EXPECT_THAT(Of({"slice[ -8:-2:2 ]"}).slice, ElementsAre(SliceRange{-8, -2, 2}));
}

TEST(Level, Mistakes) {
  Level level;
  for (const char* bad : {"slice", "slice[]", "slice[1:2", "slice[a]", "slice[::0]", "slice[::-1]",
                          "slice[1:2:3:4]", "slice[99999999999999999999]", "slice[0,]"})
    EXPECT_THAT(AddLevelWord(bad, &level).message(), HasSubstr("expected a slice")) << bad;
  for (const char* bad : {"sample:", "sample:x", "sample:-1", "sample:5000"})
    EXPECT_THAT(AddLevelWord(bad, &level).message(), HasSubstr("expected sample:N")) << bad;
  EXPECT_THAT(AddLevelWord("slice[\n]", &level).message(), HasSubstr("'slice[\\x0a]'"));
  EXPECT_THAT(AddLevelWord("sample:\n", &level).message(), HasSubstr("'sample:\\x0a'"));
  EXPECT_EQ(AddLevelWord("fulll", &level).code(), StatusCode::kNotFound);
  EXPECT_EQ(level, Level());
  EXPECT_TRUE(AddLevelWord("slice[0:8]", &level).ok());
  EXPECT_THAT(AddLevelWord("slice[0:9]", &level).message(), HasSubstr("two slices"));
}

TEST(Level, PrintsWhatReadsBack) {
  EXPECT_EQ(PrintLevel(Of({"off"})), "off");
  EXPECT_EQ(PrintLevel(Of({"meta"})), "meta");
  EXPECT_EQ(PrintLevel(Of({"hash", "full"})), "full");
  EXPECT_EQ(PrintLevel(Of({"stats", "hash"})), "[hash, stats]");
  EXPECT_EQ(PrintLevel(Of({"sample:9"})), "sample:9");
  EXPECT_EQ(PrintLevel(Of({"slice[0:8, :]", "full"})), "[full, 'slice[:8, :]']");
  const Level level = Of({"slice[-4:, 3, ::2]"});
  const std::string text = PrintLevel(level);  // in quotes
  EXPECT_EQ(Of({text.substr(1, text.size() - 2)}), level);
}

}  // namespace
}  // namespace tdump::filters
