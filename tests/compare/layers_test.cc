#include "compare/layers.h"

#include <gtest/gtest.h>

namespace tdump::compare {
namespace {

TEST(LayerOf, TheFirstComponentThatIsANumber) {
  EXPECT_EQ(LayerOf("decoder.layers.3.mlp.experts.7"), 3u);
  EXPECT_EQ(LayerOf("0"), 0u);
  EXPECT_EQ(LayerOf("h.12"), 12u);
  EXPECT_EQ(LayerOf("."), std::nullopt);
  EXPECT_EQ(LayerOf(""), std::nullopt);
  EXPECT_EQ(LayerOf("layer3.conv1"), std::nullopt);
  EXPECT_EQ(LayerOf("layers.3a.mlp"), std::nullopt);
  EXPECT_EQ(LayerOf("layers.-1"), std::nullopt);
  EXPECT_EQ(LayerOf("layers.99999999999999"), std::nullopt);
}

TEST(WithLayer, ReplacesItAndNothingElse) {
  EXPECT_EQ(WithLayer("decoder.layers.3.mlp.experts.7", 12), "decoder.layers.12.mlp.experts.7");
  EXPECT_EQ(WithLayer("layers.0", 10), "layers.10");
}

}  // namespace
}  // namespace tdump::compare
