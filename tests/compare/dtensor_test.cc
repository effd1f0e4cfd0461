#include "compare/dtensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::vector<Axis> kMesh = {{"dp", 2}, {"tp", 4}};

std::string DimsText(std::string_view placements, const std::vector<int64_t>& shape = {8, 6}) {
  const auto dims = DimsOfPlacements(placements, kMesh, shape);
  return dims.ok() ? dims->ToText() : dims.status().message();
}

TEST(DimsOfPlacements, LongAndShortForms) {
  EXPECT_EQ(DimsText("(Replicate(), Shard(dim=1))"), "_=8 _=6[tp] replicated[dp]");
  EXPECT_EQ(DimsText("[R, S(1)]"), "_=8 _=6[tp] replicated[dp]");
  EXPECT_EQ(DimsText("(Partial(sum), Partial(sum))"), "_=8 _=6 partial[dp,tp]");
  EXPECT_EQ(DimsText("(S(0), P(sum))"), "_=8[dp] _=6 partial[tp]");
}

TEST(DimsOfPlacements, AverageIsTheMean) {
  EXPECT_EQ(DimsText("(Partial(avg), Replicate())"), "_=8 _=6 partial[dp:mean] replicated[tp]");
  EXPECT_EQ(DimsText("(P(avg), P(sum))"), "_=8 _=6 partial[dp:mean,tp]");
  EXPECT_EQ(DimsText("(Partial(sum), Partial(reduce_op='avg'))"), "_=8 _=6 partial[dp,tp:mean]");
  EXPECT_EQ(DimsText("(P(avg), P(avg))"), "_=8 _=6 partial[dp:mean,tp:mean]");
}

// The mesh's first axis splits first; a strided shard comes after those behind it.
TEST(DimsOfPlacements, SeveralAxesOnOneDimension) {
  EXPECT_EQ(DimsText("(Shard(dim=0), Shard(dim=0))"), "_=8[dp,tp] _=6");
  EXPECT_EQ(DimsText("(_StridedShard(dim=0, sf=4), Shard(dim=0))"), "_=8[tp,dp] _=6");
  EXPECT_EQ(DimsText("(_S(0, 4), S(0))"), "_=8[tp,dp] _=6");
}

TEST(DimsOfPlacements, RefusesWhatItCannotPutTogether) {
  EXPECT_THAT(DimsText("(Partial(max), Replicate())"), HasSubstr("only sums and means"));
  EXPECT_THAT(DimsText("(Partial(average), Replicate())"), HasSubstr("only sums and means"));
  EXPECT_THAT(DimsText("(Shard(dim=2), Replicate())"), HasSubstr("of a tensor of 2 dimensions"));
  EXPECT_THAT(DimsText("(Shard(dim=0))"), HasSubstr("1 placements for 2 axes"));
  EXPECT_THAT(DimsText("(Shard(dim=x), Replicate())"),
              HasSubstr("'Shard(dim=x)' is not understood"));
  EXPECT_THAT(DimsText("(Ragged(0), Replicate())"), HasSubstr("not understood"));
  EXPECT_THAT(DimsText("(_StridedShard(dim=0, sf=3), Shard(dim=0))"),
              HasSubstr("strided shard over 3 places"));
}

TEST(ParseMesh, AsTorchPrintsItAndAsAPlainList) {
  for (const char* text : {"DeviceMesh((dp=2, tp=4), 'cuda', stride=(4, 1))",
                           "DeviceMesh((dp=2, tp=4), device: 'cpu')", "dp=2 tp=4"}) {
    const auto mesh = ParseMesh(text, 8);
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    EXPECT_EQ(mesh->axes, kMesh);
    EXPECT_THAT(mesh->topology.Of(6), ElementsAre(Pair("dp", 1), Pair("tp", 2)));
  }
  const auto unnamed = ParseMesh("DeviceMesh((2, 4), 'cuda', stride=(4, 1))", 8);
  ASSERT_TRUE(unnamed.ok()) << unnamed.status().message();
  EXPECT_THAT(unnamed->topology.Of(6), ElementsAre(Pair("mesh0", 1), Pair("mesh1", 2)));
  const auto one = ParseMesh("DeviceMesh((tp=4), 'cuda', stride=(1,))", 4);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(one->topology.Of(3), ElementsAre(Pair("tp", 3)));
}

TEST(ParseMesh, AnAxisOfOnePlaceHasNoStride) {
  const auto mesh = ParseMesh("DeviceMesh((pp=2, dp=1, tp=2), 'cpu', stride=(2, (), 1))", 4);
  ASSERT_TRUE(mesh.ok()) << mesh.status().message();
  EXPECT_THAT(mesh->topology.Of(2), ElementsAre(Pair("dp", 0), Pair("pp", 1), Pair("tp", 0)));
  EXPECT_THAT(mesh->topology.Of(3), ElementsAre(Pair("dp", 0), Pair("pp", 1), Pair("tp", 1)));
  EXPECT_TRUE(ParseMesh("DeviceMesh((1,), 'cpu', stride=((),))", 1).ok());
}

TEST(ParseMesh, RefusesWhatIsNoMesh) {
  EXPECT_FALSE(ParseMesh("", 1).ok());
  EXPECT_THAT(ParseMesh("dp=2 tp=4", 4).status().message(), HasSubstr("make 8 ranks"));
  EXPECT_FALSE(ParseMesh("DeviceMesh((dp=2, tp), 'cuda')", 2).ok());
  EXPECT_FALSE(ParseMesh("DeviceMesh((dp=2, tp=1), 'cuda', stride=(0, 1))", 2).ok());
}

}  // namespace
}  // namespace tdump::compare
