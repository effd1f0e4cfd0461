#include "core/types.h"

#include <gtest/gtest.h>

namespace tdump {
namespace {

uint64_t Bytes(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides = {}) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.sizes = sizes;
  meta.strides = strides;
  uint64_t bytes = 12345;
  EXPECT_TRUE(PayloadBytes(meta, &bytes));
  return bytes;
}

TEST(DTypeTest, UnitsHoldWholeBytes) {
  EXPECT_EQ(MakeDType("float32", 32).unit_bytes(), 4u);
  EXPECT_EQ(MakeDType("complex128", 128).unit_bytes(), 16u);
  EXPECT_EQ(MakeDType("int4", 4).unit_bytes(), 1u);
  EXPECT_EQ(MakeDType("float4_e2m1fn_x2", 4, 2).unit_bytes(), 1u);
  EXPECT_EQ(MakeDType("a_name_longer_than_twenty_three", 8).view(), "a_name_longer_than_twen");
}

TEST(PayloadBytesTest, LogicalElementsInRowMajorOrder) {
  const DType f32 = MakeDType("float32", 32);
  EXPECT_EQ(Bytes(f32, {}), 4u);  // 0-dim
  EXPECT_EQ(Bytes(f32, {2, 3}, {3, 1}), 24u);
  EXPECT_EQ(Bytes(f32, {2, 3}, {100, 7}), 24u);   // stepped: the gaps are not stored
  EXPECT_EQ(Bytes(f32, {1000, 3}, {0, 1}), 12u);  // expanded: once
  EXPECT_EQ(Bytes(f32, {5, 1000, 1000}, {0, 0, 0}), 4u);
  EXPECT_EQ(Bytes(f32, {0, 3}, {3, 1}), 0u);
  EXPECT_EQ(Bytes(f32, {0, 3}, {0, 0}), 0u);
  EXPECT_EQ(Bytes(MakeDType("float4_e2m1fn_x2", 4, 2), {10}), 10u);
}

TEST(PayloadBytesTest, OverflowAndNegativeSizesAreRefused) {
  TensorMeta meta;
  meta.dtype = MakeDType("float32", 32);
  uint64_t bytes = 0;
  const std::vector<int64_t> huge = {int64_t{1} << 40, int64_t{1} << 40};
  meta.sizes = huge;
  EXPECT_FALSE(PayloadBytes(meta, &bytes));
  const std::vector<int64_t> negative = {-1};
  meta.sizes = negative;
  EXPECT_FALSE(PayloadBytes(meta, &bytes));
  const std::vector<int64_t> empty = {int64_t{1} << 40, int64_t{1} << 40, 0};
  meta.sizes = empty;
  EXPECT_TRUE(PayloadBytes(meta, &bytes));
  EXPECT_EQ(bytes, 0u);
}

TEST(NamesTest, RolesAndPhasesReadBack) {
  for (int i = 0; i < kRoleCount; ++i) {
    Role role = Role::kOutput;
    ASSERT_TRUE(ParseRole(ToString(static_cast<Role>(i)), &role));
    EXPECT_EQ(static_cast<int>(role), i);
  }
  Role role;
  EXPECT_FALSE(ParseRole("outputs", &role));
  Phase phase;
  EXPECT_TRUE(ParsePhase("backward", &phase));
  EXPECT_EQ(phase, Phase::kBackward);
  EXPECT_FALSE(ParsePhase("", &phase));
}

TEST(NamesTest, Parts) {
  EXPECT_EQ(PartsToString(kPartNone), "off");
  EXPECT_EQ(PartsToString(kLevelFull), "meta+hash+payload");
  EXPECT_EQ(PartsToString(kPartMeta | kPartStats), "meta+stats");
}

}  // namespace
}  // namespace tdump
