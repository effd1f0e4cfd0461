// Strided views, element by element against an index worked out here.
#include "compare/foreign/gather.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/compare/foreign/bytes.h"

namespace tdump::compare::foreign::test {
namespace {

// The view's elements in row-major order, the slow way.
std::vector<uint32_t> Expected(uint64_t first, const std::vector<GatherDim>& dims) {
  uint64_t units = 1;
  for (const GatherDim& dim : dims) units *= dim.size;
  std::vector<uint32_t> values;
  for (uint64_t unit = 0; unit < units; ++unit) {
    uint64_t at = first, rest = unit;
    for (size_t i = dims.size(); i-- > 0; rest /= dims[i].size)
      at += rest % dims[i].size * dims[i].stride;
    values.push_back(static_cast<uint32_t>(at));
  }
  return values;
}

// A storage in which every element is its own index.
Bytes Numbers(uint64_t units) {
  std::vector<uint32_t> values(units);
  for (uint64_t i = 0; i < units; ++i) values[i] = static_cast<uint32_t>(i);
  return FromText("numbers", RawAll(values));
}

std::vector<uint32_t> Read(const ReadBytes& read, uint64_t first, uint64_t count) {
  std::vector<uint32_t> values(count);
  const Status status = read(first * 4, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

TEST(Gather, RandomViews) {
  std::mt19937 random(7);
  const Bytes storage = Numbers(100'000);
  for (int round = 0; round < 300; ++round) {
    std::vector<GatherDim> dims(1 + random() % 4);
    for (GatherDim& dim : dims) dim = {1 + random() % 9, 1 + random() % 900};
    const uint64_t first = random() % 1000;
    const std::vector<uint32_t> expected = Expected(first, dims);
    const ReadBytes read = Gather(storage, 4, first, dims);
    // Whole, then in pieces out of order.
    ASSERT_EQ(Read(read, 0, expected.size()), expected);
    for (int piece = 0; piece < 5; ++piece) {
      const uint64_t at = random() % expected.size();
      const uint64_t count = 1 + random() % (expected.size() - at);
      ASSERT_EQ(Read(read, at, count),
                std::vector<uint32_t>(expected.begin() + static_cast<ptrdiff_t>(at),
                                      expected.begin() + static_cast<ptrdiff_t>(at + count)));
    }
  }
}

TEST(Gather, ATransposedMatrixLargerThanABlock) {
  constexpr uint64_t kRows = 1500, kColumns = 1100;  // 6.6 MB
  const std::vector<GatherDim> dims = {{kColumns, 1}, {kRows, kColumns}};
  const std::vector<uint32_t> expected = Expected(0, dims);
  const ReadBytes read = Gather(Numbers(kRows * kColumns), 4, 0, dims);
  EXPECT_EQ(Read(read, 0, expected.size()), expected);
}

TEST(Gather, PartsOfElementsAreNotRead) {
  const ReadBytes read = Gather(Numbers(10), 4, 0, {{2, 3}});
  std::byte byte;
  EXPECT_FALSE(read(0, {&byte, 1}).ok());
}

}  // namespace
}  // namespace tdump::compare::foreign::test
