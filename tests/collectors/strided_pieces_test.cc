// Ranges of a strided tensor's canonical form, against an element-by-element walk.
#include "collectors/torch/strided_pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace tdump::collectors {
namespace {

struct Case {
  std::vector<int64_t> sizes, strides;
  uint32_t unit;
};

// Logical elements in row-major order, dimensions of stride 0 once.
std::vector<std::byte> Walk(const Case& c, const std::byte* data) {
  std::vector<std::byte> out;
  std::vector<int64_t> index(c.sizes.size(), 0);
  for (;;) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * c.strides[d];
    const std::byte* element = data + at * int64_t{c.unit};
    out.insert(out.end(), element, element + c.unit);
    size_t d = index.size();
    while (d > 0) {
      --d;
      if (c.strides[d] != 0 && ++index[d] < c.sizes[d]) break;
      index[d] = 0;
      if (d == 0) return out;
    }
    if (index.empty()) return out;
  }
}

TEST(StridedPieces, EveryRangeIsThatOfTheWholeCopy) {
  std::mt19937 random(7);
  std::vector<std::byte> memory(1 << 16);
  for (std::byte& b : memory) b = static_cast<std::byte>(random());
  const Case cases[] = {
      {{}, {}, 4},
      {{7}, {1}, 2},
      {{5, 7}, {7, 1}, 4},
      {{7, 5}, {1, 7}, 4},                   // transposed
      {{3, 4, 5}, {40, 0, 2}, 8},            // expanded in the middle, every second element
      {{4, 1, 6, 3}, {1, 99, 12, 4}, 1},     // permuted
      {{2, 3, 2, 5}, {300, 50, 10, 1}, 16},  // rows with gaps
  };
  for (const Case& c : cases) {
    const std::vector<std::byte> whole = Walk(c, memory.data());
    StridedPieces pieces({memory.data(), c.sizes, c.strides, c.unit}, NumberKind::kInteger, false,
                         false);
    for (uint64_t first = 0; first < whole.size(); first += c.unit) {
      for (uint64_t end = first + c.unit; end <= whole.size(); end += c.unit) {
        std::vector<std::byte> out(end - first);
        ASSERT_TRUE(pieces.CopyTo(first, out));
        ASSERT_EQ(std::memcmp(out.data(), whole.data() + first, out.size()), 0)
            << first << " to " << end;
      }
    }
  }
}

TEST(StridedPieces, ResolvesConjugationWithinAPiece) {
  const float values[] = {1, 2, 3, 4, 5, 6};  // 1+2i, 3+4i, 5+6i
  const int64_t sizes[] = {3}, strides[] = {1};
  StridedPieces pieces({reinterpret_cast<const std::byte*>(values), sizes, strides, 8},
                       NumberKind::kComplex, /*conj=*/true, /*neg=*/false);
  float out[4];
  ASSERT_TRUE(pieces.CopyTo(8, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], -4);
  EXPECT_EQ(out[2], 5);
  EXPECT_EQ(out[3], -6);
  EXPECT_FALSE(pieces.CopyTo(4, std::as_writable_bytes(std::span(out))));  // inside an element
}

}  // namespace
}  // namespace tdump::collectors
