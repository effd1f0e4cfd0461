// The shim is compiled without guards of statics that threads wait at: it must have no static that
// needs one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/env.h"

namespace tdump::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ShimStatics, NoneIsInitializedWhenItIsFirstReached) {
  const auto shim = ReadFile(Env::Posix(), TDUMP_SHIM, 64 << 20);
  ASSERT_TRUE(shim.ok()) << shim.status().message();
  ASSERT_THAT(*shim, HasSubstr("_ZZ"));        // it names its local statics
  EXPECT_THAT(*shim, Not(HasSubstr("_ZGV")));  // a guard
}

}  // namespace
}  // namespace tdump::launch
