#include "core/temporary_directory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace tdump {
namespace {

TEST(TemporaryDirectory, IsThatOfTheEnvironmentElseTmp) {
  const char* const given = ::getenv("TMPDIR");
  const std::optional<std::string> before =
      given ? std::optional<std::string>(given) : std::nullopt;
  ::setenv("TMPDIR", "/scratch/mine", 1);
  EXPECT_EQ(TemporaryDirectory(), "/scratch/mine");
  ::setenv("TMPDIR", "", 1);
  EXPECT_EQ(TemporaryDirectory(), "/tmp");
  ::unsetenv("TMPDIR");
  EXPECT_EQ(TemporaryDirectory(), "/tmp");
  if (before) ::setenv("TMPDIR", before->c_str(), 1);
}

}  // namespace
}  // namespace tdump
