#include "coordinator/coverage_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"

namespace tdump::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FoldNames, FoldsWhatDiffersInANumber) {
  EXPECT_THAT(FoldNames({}), IsEmpty());
  EXPECT_THAT(FoldNames({"a.b"}), ElementsAre("a.b"));
  EXPECT_THAT(FoldNames({"l.0.drop", "l.1.drop", "l.2.drop", "l.10.drop", "head"}),
              ElementsAre("l.{0-2,10}.drop", "head"));
  EXPECT_THAT(FoldNames({"e.0.a1", "e.0.a2", "e.1.a1", "e.1.a2"}), ElementsAre("e.{0-1}.a{1-2}"));
  EXPECT_THAT(FoldNames({"e.0.a1", "e.0.a2", "e.1.a1"}), ElementsAre("e.0.a{1-2}", "e.1.a1"));
  EXPECT_THAT(FoldNames({"x.0/aten::mm", "x.1/aten::mm"}), ElementsAre("x.{0-1}/aten::mm"));
}

TEST(FoldNames, KeepsWhatIsNoNumberAsItIs) {
  EXPECT_THAT(FoldNames({"l.01", "l.1", "l.99999999999999999999"}),
              ElementsAre("l.01", "l.1", "l.99999999999999999999"));
}

TEST(Listed, SaysHowManyMore) {
  EXPECT_EQ(Listed({"a", "b"}, 2), "a, b");
  EXPECT_EQ(Listed({"a", "b", "c", "d\n"}, 2), "a, b, and 2 more");
  EXPECT_EQ(Listed({"a", "b\x1b", "c"}, 2, "; "), "a; " + Printable("b\x1b") + "; and 1 more");
}

TEST(NearNames, FindsWhatTheUserMeant) {
  const std::vector<std::string> names = {"embed", "decoder.layers.4.mlp.linear_fc2",
                                          "decoder.layers.4.attn.qkv", "decoder.final_norm"};
  EXPECT_THAT(NearNames("layers.4.mlp.down", names, 1),
              ElementsAre("decoder.layers.4.mlp.linear_fc2"));
  EXPECT_THAT(NearNames("(lm_head|^embd)$", names, 3), ElementsAre("embed"));
  EXPECT_THAT(NearNames("decoder.layers.4.mpl", names, 1),
              ElementsAre("decoder.layers.4.mlp.linear_fc2"));
  EXPECT_THAT(NearNames("blocks2.mlp.2", {"blocks.0.mlp.2", "blocks.1.mlp.2", "blocks.2.mlp.2"}, 1),
              ElementsAre("blocks.2.mlp.2"));
  EXPECT_THAT(NearNames("zzz", names, 3), IsEmpty());
  EXPECT_THAT(NearNames("", names, 3), IsEmpty());
}

}  // namespace
}  // namespace tdump::coordinator
