#include "compare/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(Topology, TheFirstAxisIsTheFastest) {
  const auto topology = Topology::Parse("tp=4, cp=2 dp=2", 16);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->ToText(), "tp=4 cp=2 dp=2");
  // 13 = 1 + 4 * (1 + 2 * 1)
  EXPECT_THAT(topology->Of(13), ElementsAre(Pair("cp", 1), Pair("dp", 1), Pair("tp", 1)));
  EXPECT_EQ(topology->PlaceOn(0, 7), 3u);
  EXPECT_THAT(topology->RanksAt({{"tp", 2}, {"dp", 0}}), ElementsAre(2, 6));
  EXPECT_FALSE(topology->HasPlace(16));
  EXPECT_FALSE(topology->HasPlace(-1));
}

TEST(Topology, RefusesWhatDoesNotMakeTheRanks) {
  EXPECT_THAT(Topology::Parse("tp=4 dp=2", 4).status().message(),
              HasSubstr("tp=4 dp=2 make 8 ranks, the run has 4"));
  EXPECT_THAT(Topology::Parse("tp=4 tp=2", 8).status().message(), HasSubstr("tp a second time"));
  EXPECT_THAT(Topology::Parse("tp=0", 0).status().message(), HasSubstr("size 0"));
  EXPECT_THAT(Topology::Parse("tp", 1).status().message(),
              HasSubstr("column 1: expected AXIS=NUMBER"));
  EXPECT_THAT(Topology::Parse("tp=2 4=1", 2).status().message(), HasSubstr("column 6"));
  EXPECT_THAT(Topology::Parse("a=16000000 b=16000000 c=16000000", 8).status().message(),
              HasSubstr("more than 2^40 places"));
}

TEST(Topology, FromWhatManifestsSayOfEachRank) {
  const auto topology = Topology::OfRanks({"dp=0 tp=0", "", "tp=0 dp=1", "dp=1 tp=1"});
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_FALSE(topology->HasPlace(1));
  EXPECT_THAT(topology->Of(1), testing::IsEmpty());
  EXPECT_THAT(topology->Of(2), ElementsAre(Pair("dp", 1), Pair("tp", 0)));
  EXPECT_THAT(topology->RanksAt({{"dp", 1}}), ElementsAre(2, 3));
  EXPECT_EQ(topology->axes(), (std::vector<Axis>{{"dp", 2}, {"tp", 2}}));
  EXPECT_THAT(Topology::OfRanks({"dp=0", "tp=0"}).status().message(),
              HasSubstr("coordinates of rank 1: 'tp=0' names other axes"));
  EXPECT_THAT(Topology::OfRanks({"dp"}).status().message(), HasSubstr("coordinates of rank 0"));
}

TEST(Topology, AnUnknownOneHasAnAxisOfRanksThatMayBeNamed) {
  const Topology topology = Topology::Unknown(4);
  EXPECT_TRUE(topology.is_unknown());
  EXPECT_EQ(topology.ToText(), "rank=4");
  const Topology named = topology.WithName("tp");
  EXPECT_EQ(named.ToText(), "tp=4");
  EXPECT_THAT(named.Of(3), ElementsAre(Pair("tp", 3)));
}

TEST(Topology, SomeOfItsRanksHavePlacesAsIfThereWereNoOthers) {
  const Topology topology = *Topology::Parse("tp=2,dp=3", 6);
  const auto without = topology.Among({0, 1, 4, 5});  // the second place of dp
  ASSERT_TRUE(without);
  EXPECT_EQ(without->ToText(), "dp=2 tp=2");
  EXPECT_THAT(without->Of(5), ElementsAre(Pair("dp", 1), Pair("tp", 1)));
  EXPECT_FALSE(without->HasPlace(2));
  EXPECT_FALSE(topology.Among({0, 1, 4}));
  EXPECT_FALSE(topology.Among({}));
  EXPECT_FALSE(Topology::Unknown(4).Among({0, 1}));
}

TEST(Coordinates, AreParsedAndPrinted) {
  EXPECT_EQ(ToText(*ParseCoordinates("dp=3 tp=1 pp=2")), "dp 3, pp 2, tp 1");
  EXPECT_THAT(ParseCoordinates("dp=x").status().message(), HasSubstr("column 1"));
  EXPECT_THAT(ParseCoordinates("dp=1 dp=2").status().message(), HasSubstr("a second time"));
}

// 16 layers on 4 stages with 2 chunks of 2 layers: stage 1 holds 2, 3 and 10, 11.
TEST(GlobalLayer, InterleavesChunks) {
  EXPECT_EQ(GlobalLayer(0, 1, 4, 0, 2), 2u);
  EXPECT_EQ(GlobalLayer(1, 1, 4, 0, 2), 3u);
  EXPECT_EQ(GlobalLayer(0, 1, 4, 1, 2), 10u);
  EXPECT_EQ(GlobalLayer(1, 3, 4, 1, 2), 15u);
}

}  // namespace
}  // namespace tdump::compare
