#include "filters/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parse.h"

namespace tdump::filters {
namespace {

using ::testing::HasSubstr;

std::string Invalid(const std::string& yaml, int world) {
  return ValidateForWorld(Parsed(yaml), world).message();
}

TEST(Topology, PlacesOfRanksWithTheFirstAxisFastest) {
  const Config config = Parsed("topology: {order: [tp, pp, dp], size: {dp: 2, tp: 4, pp: 2}}\n");
  EXPECT_EQ(Invalid("topology: {order: [tp, pp, dp], size: {dp: 2, tp: 4, pp: 2}}\n", 16), "");
  EXPECT_EQ(CoordinatesOf(config, 0, 16), "tp=0 pp=0 dp=0");
  EXPECT_EQ(CoordinatesOf(config, 13, 16), "tp=1 pp=1 dp=1");  // 13 = 1 + 4 * (1 + 2 * 1)
  EXPECT_EQ(CoordinatesOf(Parsed("topology: {size: {tp: 4}}\n"), 3, 4), "tp=3");
  EXPECT_EQ(CoordinatesOf(Parsed(""), 3, 4), "");
  EXPECT_EQ(CoordinatesOf(config, 3, 8), "");
}

TEST(Topology, OrderAndSizesMustAgreeWithEachOtherAndTheJob) {
  EXPECT_THAT(Invalid("topology: {order: [tp, dp], size: {tp: 4, dp: 2}}\n", 4),
              HasSubstr("the sizes make 8 ranks, the job has 4"));
  EXPECT_EQ(Invalid("topology: {order: [tp, dp], size: {tp: 4, dp: 2}}\n", 0), "");
  EXPECT_THAT(Invalid("topology: {size: {tp: 4, dp: 2}}\n", 8),
              HasSubstr("c.yaml:1:18: topology: the order does not name the axis dp"));
  EXPECT_THAT(Invalid("topology: {order: [tp, dp], size: {tp: 4}}\n", 4),
              HasSubstr("the axis dp has no size"));
}

TEST(Topology, SizesOfAnotherNumberOfRanksAreToldOnceThatIsKnown) {
  const Config config = Parsed("topology: {order: [tp, dp], size: {tp: 2, dp: 2}}\n");
  EXPECT_EQ(TopologyMisfit(config, 2), "topology: the sizes make 4 ranks, the job has 2");
  EXPECT_EQ(TopologyMisfit(config, 4), "");
  EXPECT_EQ(TopologyMisfit(config, 0), "");
  EXPECT_EQ(TopologyMisfit(Parsed(""), 2), "");
}

TEST(Topology, MistakesAreNamed) {
  EXPECT_THAT(Mistaken("topology: {order: tp}\n"), HasSubstr("c.yaml:1:19: topology.order: 'tp'"));
  EXPECT_THAT(Mistaken("topology: {order: [tp, tp]}\n"), HasSubstr("'tp' a second time"));
  EXPECT_THAT(Mistaken("topology: {order: ['t p']}\n"), HasSubstr("'t p' names no axis"));
  EXPECT_THAT(Mistaken("topology: {size: {tp: 0}}\n"), HasSubstr("topology.size.tp: '0'"));
  EXPECT_THAT(Mistaken("topology: {size: {tp: x}}\n"), HasSubstr("a whole number"));
  EXPECT_THAT(Mistaken("topology: {size: [4]}\n"), HasSubstr("sizes of the axes such as"));
}

}  // namespace
}  // namespace tdump::filters
