// A configuration that a program wrote: all of it in one line.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "settings/yaml_tree.h"

namespace tdump::settings {
namespace {

std::string Rules(size_t count) {
  std::string yaml = "[";
  for (size_t i = 0; i < count; ++i) yaml += "{name: \xc3\xa9},";
  return yaml + "{name: a, name: b}]\n";
}

// CPU time of this thread for reading `yaml`, the least of three.
double Seconds(const std::string& yaml) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto now = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double start = now();
    Mistakes mistakes("c");
    EXPECT_EQ(ParseYaml(yaml, &mistakes), nullptr);
    least = std::min(least, now() - start);
  }
  return least;
}

TEST(LongLine, ColumnsAreCountedFromItsBegin) {
  Mistakes mistakes("c");
  EXPECT_EQ(ParseYaml(Rules(1000), &mistakes), nullptr);
  // 1 + 1000 times "{name: \u00e9}," of 10 characters, then "{name: a, " of 10.
  EXPECT_EQ(mistakes.ToStatus().message(),
            "c:1:10012: 'name' is given twice, first in line 1, again in line 1; expected each key "
            "once");
}

// Sixteen times the rules: sixteen times the work, not 256 times.
TEST(LongLine, CostsNoMoreThanItsLength) {
  const double few = Seconds(Rules(2'000));
  EXPECT_LT(Seconds(Rules(32'000)), 64 * few);
}

}  // namespace
}  // namespace tdump::settings
