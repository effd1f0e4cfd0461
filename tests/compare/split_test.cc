#include "compare/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<std::vector<Piece>> Pieces(const std::string& dims, const std::vector<uint32_t>& axis_sizes,
                                  const std::vector<uint64_t>& held, const SizeTable& sizes = {}) {
  const auto parsed = Dims::Parse(dims);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return SplitPieces(parsed->dims[0].parts[0].axes, axis_sizes, held, sizes);
}

// Pieces are {size, leaf, offset}.
TEST(SplitPieces, ContiguousPiecesAreAsLongAsTheirRankHolds) {
  EXPECT_THAT(*Pieces("s[tp]", {3}, {4, 0, 2}), ElementsAre(Piece{4, 0, 0}, Piece{2, 2, 0}));
  EXPECT_THAT(*Pieces("s", {}, {5}), ElementsAre(Piece{5, 0, 0}));
}

TEST(SplitPieces, ZigZagFoldsTheSequence) {
  EXPECT_THAT(*Pieces("s[cp:zigzag]", {2}, {4, 4}),
              ElementsAre(Piece{2, 0, 0}, Piece{4, 1, 0}, Piece{2, 0, 2}));
  EXPECT_THAT(*Pieces("s[cp:zigzag]", {1}, {5}), ElementsAre(Piece{5, 0, 0}));
}

// 9 units in 4 chunks: 3 2 2 2 (array_split), so that the ranks hold 5 and 4; 3 3 3 0 (chunk), so
// that they hold 3 and 6; ranks that hold 2 and 6 can only be halved.
TEST(SplitPieces, UnevenZigZagFollowsWhatTheRanksHold) {
  EXPECT_THAT(*Pieces("s[cp:zigzag]", {2}, {5, 4}),
              ElementsAre(Piece{3, 0, 0}, Piece{4, 1, 0}, Piece{2, 0, 3}));
  EXPECT_THAT(*Pieces("s[cp:zigzag]", {2}, {3, 6}), ElementsAre(Piece{3, 0, 0}, Piece{6, 1, 0}));
  EXPECT_THAT(*Pieces("s[cp:zigzag]", {2}, {2, 6}),
              ElementsAre(Piece{1, 0, 0}, Piece{6, 1, 0}, Piece{1, 0, 1}));
  EXPECT_THAT(Pieces("s[cp:zigzag]", {2}, {1, 6}).status().message(),
              HasSubstr("ranks of cp hold 1, 6 units, which is no zig-zag split"));
}

TEST(SplitPieces, StripedTakesBlocksInTurn) {
  EXPECT_THAT(*Pieces("s[cp:striped=2]", {2}, {4, 3}),
              ElementsAre(Piece{2, 0, 0}, Piece{2, 1, 0}, Piece{2, 0, 2}, Piece{1, 1, 2}));
  EXPECT_THAT(Pieces("s[cp:striped]", {2}, {1, 3}).status().message(), HasSubstr("striped"));
}

// Sequences of 4 and 8, each folded over two ranks: rank 0 holds 0, 3 of the first and 0 1, 6 7 of
// the second.
TEST(SplitPieces, PackedSequencesAreSplitOneByOne) {
  const auto pieces = Pieces("t[cp:zigzag:packed=4+8]", {2}, {6, 6});
  EXPECT_THAT(*pieces, ElementsAre(Piece{1, 0, 0}, Piece{2, 1, 0}, Piece{3, 0, 1}, Piece{4, 1, 2},
                                   Piece{2, 0, 4}));
  EXPECT_THAT(*Pieces("t[cp:zigzag:packed=@cu]", {2}, {6, 6}, {{"@cu", {4, 8}}}),
              testing::ContainerEq(*pieces));
  EXPECT_THAT(Pieces("t[cp:packed=4+9]", {2}, {6, 6}).status().message(),
              HasSubstr("the sequences have 13 units, the ranks of cp hold 12"));
  EXPECT_THAT(Pieces("t[cp:packed=@cu]", {2}, {6, 6}).status().message(),
              HasSubstr("record 'cu', which is not there"));
}

// What a record holds is told by what the ranks hold: 4 and 8, or 0, 4, 12.
TEST(SplitPieces, ARecordHoldsLengthsOrWhereSequencesBeginAndEnd) {
  const auto right = Pieces("t[cp:zigzag:packed=4+8]", {2}, {6, 6});
  for (const std::vector<uint64_t>& cu :
       std::vector<std::vector<uint64_t>>{{4, 8}, {0, 4, 8}, {0, 4, 12}, {0, 0, 4, 12, 12}}) {
    EXPECT_THAT(*Pieces("t[cp:zigzag:packed=@cu]", {2}, {6, 6}, {{"@cu", cu}}),
                testing::ContainerEq(*right));
  }
  const auto error = [](const std::vector<uint64_t>& cu) {
    return Pieces("t[cp:zigzag:packed=@cu]", {2}, {6, 6}, {{"@cu", cu}}).status().message();
  };
  EXPECT_EQ(error({0, 4, 11}),
            "@cu (0, 4, 11): expected lengths of sequences that add up to the 12 units that the "
            "ranks of cp hold, or where they begin and end, from 0 to 12");
  for (const std::vector<uint64_t>& cu : std::vector<std::vector<uint64_t>>{
           {0, 8, 4, 12}, {1, 4, 12}, {0, 4, 8, 13}, {}, {0}, {~uint64_t{0}, 13}})
    EXPECT_THAT(error(cu), HasSubstr("expected lengths of sequences"));
  // One place holds them as they are.
  EXPECT_THAT(*Pieces("t[cp:zigzag:packed=@cu]", {1}, {7}), ElementsAre(Piece{7, 0, 0}));
}

TEST(SplitPieces, ARecordOfSizesMayHaveSeveralForEachPlace) {
  const auto pieces = [](const std::vector<uint64_t>& counts) {
    return Pieces("t[ep:sizes=@n]", {2}, {6, 5}, {{"@n", counts}});
  };
  const std::vector<Piece> right = {Piece{5, 0, 0}, Piece{3, 1, 0}};
  for (const std::vector<uint64_t>& counts :
       std::vector<std::vector<uint64_t>>{{5, 3}, {0, 5, 8}, {0, 5, 3, 0}, {0, 1, 5, 7, 8}}) {
    EXPECT_THAT(*pieces(counts), testing::ContainerEq(right));
  }
  EXPECT_EQ(pieces({5, 3, 1}).status().message(),
            "@n (5, 3, 1) for the 2 places on ep: expected as many for each, how many units are "
            "its own, or where they begin, from 0 on, and the last ones end");
  EXPECT_THAT(pieces({}).status().message(), HasSubstr("for the 2 places"));
  EXPECT_THAT(pieces({0}).status().message(), HasSubstr("for the 2 places"));
  EXPECT_THAT(pieces({7, 3}).status().message(), HasSubstr("ep 0 should hold 7 units, but holds"));
  EXPECT_THAT(pieces({~uint64_t{0}, 2, 1, 1}).status().message(), HasSubstr("for the 2 places"));
  // Inside another axis each of its places may have its own.
  EXPECT_THAT(*Pieces("t[dp,ep:sizes=@n]", {2, 2}, {2, 2, 2, 2}, {{"@n", {1, 2, 0, 1}}}),
              ElementsAre(Piece{1, 0, 0}, Piece{2, 1, 0}, Piece{1, 3, 0}));
  // One place: its own, of all experts; without the record nothing is padding.
  EXPECT_THAT(*Pieces("t[ep:sizes=@n]", {1}, {6}, {{"@n", {1, 2, 2}}}),
              ElementsAre(Piece{5, 0, 0}));
  EXPECT_THAT(*Pieces("t[ep:sizes=@n]", {1}, {6}, {{"@n", {0, 3, 5}}}),
              ElementsAre(Piece{5, 0, 0}));
  EXPECT_THAT(*Pieces("t[ep:sizes=@n]", {1}, {6}), ElementsAre(Piece{6, 0, 0}));
  EXPECT_THAT(Pieces("t[ep:sizes=@n]", {2}, {6, 5}).status().message(), HasSubstr("not there"));
}

TEST(SplitPieces, SizesLeavePaddingOut) {
  EXPECT_THAT(*Pieces("t[ep:sizes=3+0+2]", {3}, {4, 4, 4}),
              ElementsAre(Piece{3, 0, 0}, Piece{2, 2, 0}));
  EXPECT_THAT(Pieces("t[ep:sizes=3+5+2]", {3}, {4, 4, 4}).status().message(),
              HasSubstr("ep 1 should hold 5 units, but holds 4"));
  EXPECT_THAT(Pieces("t[ep:sizes=3]", {3}, {4, 4, 4}).status().message(),
              HasSubstr("1 sizes for the 3 places on ep"));
}

// cp outside, tp inside: leaf 2 * cp + tp. Each cp part of 4 is folded: 0 1 | 6 7, halved by tp.
TEST(SplitPieces, AxesNest) {
  EXPECT_THAT(*Pieces("s[cp:zigzag,tp]", {2, 2}, {2, 2, 2, 2}),
              ElementsAre(Piece{2, 0, 0}, Piece{2, 2, 0}, Piece{2, 3, 0}, Piece{2, 1, 0}));
  // A table for each place on both axes.
  EXPECT_THAT(*Pieces("t[dp,ep:sizes=1+2+0+1]", {2, 2}, {2, 2, 2, 2}),
              ElementsAre(Piece{1, 0, 0}, Piece{2, 1, 0}, Piece{1, 3, 0}));
}

TEST(SplitPieces, RefusesWhatWouldTakeTooMuchMemory) {
  EXPECT_EQ(Pieces("s[cp:striped]", {2}, {uint64_t{1} << 40, uint64_t{1} << 40}).status().code(),
            StatusCode::kUnsupported);
  EXPECT_THAT(Pieces("s[tp]", {2}, {~uint64_t{0}, 2}).status().message(), HasSubstr("2^64"));
}

}  // namespace
}  // namespace tdump::compare
