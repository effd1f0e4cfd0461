#include "compare/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace tdump::compare {
namespace {

constexpr size_t kMaxPieces = size_t{1} << 20;

// The next units of the whole lie with this child, after those it gave before.
struct Segment {
  size_t child = 0;
  uint64_t size = 0;
};

// How `length` units are cut into `n` chunks.
using Chunks = std::function<uint64_t(uint64_t length, uint64_t n, uint64_t i)>;

uint64_t EvenChunk(uint64_t length, uint64_t n, uint64_t i) {
  return length / n + (i < length % n);
}

uint64_t LongChunk(uint64_t length, uint64_t n, uint64_t i) {
  const uint64_t size = length / n + (length % n != 0);
  if (i != 0 && size > length / i) return 0;
  return std::min(size, length - size * i);
}

void AddSequence(const AxisUse& use, uint64_t length, size_t n, const Chunks& chunks,
                 std::vector<Segment>* segments) {
  switch (use.split) {
    case Split::kContiguous:
      for (size_t i = 0; i < n; ++i) segments->push_back({i, chunks(length, n, i)});
      return;
    case Split::kZigzag:
      for (size_t i = 0; i < 2 * n; ++i)
        segments->push_back({i < n ? i : 2 * n - 1 - i, chunks(length, 2 * n, i)});
      return;
    case Split::kStriped:
      for (size_t i = 0; length > 0; ++i) {
        segments->push_back({i % n, std::min(use.block, length)});
        length -= segments->back().size;
      }
  }
}

std::vector<uint64_t> Given(const std::vector<Segment>& segments, size_t n) {
  std::vector<uint64_t> given(n, 0);
  for (const Segment& segment : segments) given[segment.child] += segment.size;
  return given;
}

Status LookUp(const NumberList& list, const SizeTable& sizes, std::vector<uint64_t>* numbers) {
  *numbers = list.numbers;
  if (list.name.empty()) return {};
  const auto found = sizes.find(list.name);
  if (found == sizes.end())
    return InvalidArgument(
        fmt::format("the dims name the table '{}', which was not given", list.name));
  *numbers = found->second;
  return {};
}

// The sum; false: it does not fit in 64 bits.
bool SumOf(const std::vector<uint64_t>& numbers, uint64_t* sum) {
  *sum = 0;
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](uint64_t number) { return !__builtin_add_overflow(*sum, number, sum); });
}

class Splitter {
 public:
  Splitter(const std::vector<AxisUse>& uses, const std::vector<uint32_t>& axis_sizes,
           const std::vector<uint64_t>& held, const SizeTable& sizes)
      : uses_(uses), axis_sizes_(axis_sizes), held_(held), sizes_(sizes) {}

  // What the leaves below the `place`-th place on the axes before `level` hold, in their order.
  Result<std::vector<Piece>> Below(size_t level, size_t place) const {
    if (level == uses_.size()) return std::vector<Piece>{{held_[place], place, 0}};
    const size_t n = axis_sizes_[level];
    std::vector<std::vector<Piece>> children;
    std::vector<uint64_t> lengths;
    for (size_t i = 0; i < n; ++i) {
      TDUMP_ASSIGN_OR_RETURN(auto pieces, Below(level + 1, place * n + i));
      lengths.push_back(0);
      for (const Piece& piece : pieces) lengths.back() += piece.size;
      children.push_back(std::move(pieces));
    }
    TDUMP_RETURN_IF_ERROR(DropPadding(uses_[level], level, place, &lengths));
    TDUMP_ASSIGN_OR_RETURN(const auto segments, SegmentsOf(uses_[level], lengths));
    return Interleave(segments, children);
  }

 private:
  Status DropPadding(const AxisUse& use, size_t level, size_t place,
                     std::vector<uint64_t>* lengths) const {
    if (use.sizes.empty()) return {};
    const size_t n = lengths->size();
    size_t places = n;  // on all axes up to this one
    for (size_t i = 0; i < level; ++i) places *= axis_sizes_[i];
    std::vector<uint64_t> sizes;
    TDUMP_RETURN_IF_ERROR(LookUp(use.sizes, sizes_, &sizes));
    if (sizes.size() != n && sizes.size() != places)
      return InvalidArgument(
          fmt::format("{} sizes for the {} places on {}", sizes.size(), places, use.axis));
    for (size_t i = 0; i < n; ++i) {
      const uint64_t size = sizes[sizes.size() == n ? i : place * n + i];
      if (size > (*lengths)[i])
        return InvalidArgument(fmt::format("{} {} should hold {} units, but holds {}", use.axis, i,
                                           size, (*lengths)[i]));
      (*lengths)[i] = size;
    }
    return {};
  }

  Result<std::vector<Segment>> SegmentsOf(const AxisUse& use,
                                          const std::vector<uint64_t>& lengths) const {
    const size_t n = lengths.size();
    std::vector<Segment> segments;
    if (use.split == Split::kContiguous && use.packed.empty()) {
      for (size_t i = 0; i < n; ++i) segments.push_back({i, lengths[i]});
      return segments;
    }
    std::vector<uint64_t> sequences;
    TDUMP_RETURN_IF_ERROR(LookUp(use.packed, sizes_, &sequences));
    if (use.packed.empty())
      sequences = {std::accumulate(lengths.begin(), lengths.end(), uint64_t{0})};
    TDUMP_RETURN_IF_ERROR(CheckSequences(use, sequences, lengths));
    for (const auto& chunks : {Chunks(EvenChunk), Chunks(LongChunk)}) {
      segments.clear();
      for (const uint64_t length : sequences) AddSequence(use, length, n, chunks, &segments);
      if (Given(segments, n) == lengths) return segments;
    }
    const bool even = std::all_of(lengths.begin(), lengths.end(),
                                  [](uint64_t length) { return length % 2 == 0; });
    if (use.split != Split::kZigzag || !use.packed.empty() || !even)
      return InvalidArgument(fmt::format("ranks of {} hold {} units, which is no {} split",
                                         use.axis, fmt::join(lengths, ", "), KindOf(use)));
    segments.clear();
    for (size_t i = 0; i < 2 * n; ++i) {
      const size_t child = i < n ? i : 2 * n - 1 - i;
      segments.push_back({child, lengths[child] / 2});
    }
    return segments;
  }

  static std::string KindOf(const AxisUse& use) {
    const std::string kind = use.split == Split::kZigzag    ? "zig-zag"
                             : use.split == Split::kStriped ? "striped"
                                                            : "contiguous";
    return use.packed.empty() ? kind : kind + " (sequence by sequence)";
  }

  static Status CheckSequences(const AxisUse& use, const std::vector<uint64_t>& sequences,
                               const std::vector<uint64_t>& lengths) {
    uint64_t whole = 0, held = 0;
    if (!SumOf(sequences, &whole) || !SumOf(lengths, &held) || whole != held)
      return InvalidArgument(fmt::format("the sequences have {} units, the ranks of {} hold {}",
                                         whole, use.axis, held));
    const uint64_t blocks = use.split == Split::kStriped ? whole / use.block : 0;
    if (sequences.size() > kMaxPieces / (2 * lengths.size()) || blocks > kMaxPieces)
      return Status(StatusCode::kUnsupported,
                    fmt::format("ranks of {} share more than {} pieces", use.axis, kMaxPieces));
    return {};
  }

  // Each segment takes the next pieces of its child.
  static Result<std::vector<Piece>> Interleave(const std::vector<Segment>& segments,
                                               std::vector<std::vector<Piece>>& children) {
    std::vector<Piece> whole;
    std::vector<size_t> next(children.size(), 0);
    for (const auto& [child, size] : segments) {
      for (uint64_t rest = size; rest > 0;) {
        Piece& piece = children[child][next[child]];
        const uint64_t count = std::min(rest, piece.size);
        if (count > 0) Append({count, piece.leaf, piece.offset}, &whole);
        piece.size -= count;
        piece.offset += count;
        rest -= count;
        if (piece.size == 0) ++next[child];
      }
      if (whole.size() > kMaxPieces)
        return Status(StatusCode::kUnsupported, "a dimension is cut into too many pieces");
    }
    return whole;
  }

  static void Append(const Piece& piece, std::vector<Piece>* pieces) {
    if (!pieces->empty()) {
      Piece& last = pieces->back();
      if (last.leaf == piece.leaf && last.offset + last.size == piece.offset) {
        last.size += piece.size;
        return;
      }
    }
    pieces->push_back(piece);
  }

  const std::vector<AxisUse>& uses_;
  const std::vector<uint32_t>& axis_sizes_;
  const std::vector<uint64_t>& held_;
  const SizeTable& sizes_;
};

}  // namespace

Result<std::vector<Piece>> SplitPieces(const std::vector<AxisUse>& uses,
                                       const std::vector<uint32_t>& axis_sizes,
                                       const std::vector<uint64_t>& held, const SizeTable& sizes) {
  uint64_t whole = 0;
  if (!SumOf(held, &whole)) return InvalidArgument("a dimension of more than 2^64 units");
  TDUMP_ASSIGN_OR_RETURN(auto pieces, Splitter(uses, axis_sizes, held, sizes).Below(0, 0));
  std::erase_if(pieces, [](const Piece& piece) { return piece.size == 0; });
  return pieces;
}

}  // namespace tdump::compare
