#include "compare/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

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

// What a record holds, as it lies.
Result<std::vector<uint64_t>> LookUp(const std::string& record, const SizeTable& sizes) {
  const auto found = sizes.find("@" + record);
  if (found == sizes.end())
    return InvalidArgument(
        fmt::format("the dims name the record '{}', which is not there", record));
  return found->second;
}

// Where pieces begin and the last one ends.
bool AreBounds(const std::vector<uint64_t>& numbers) {
  return !numbers.empty() && numbers.front() == 0 && std::is_sorted(numbers.begin(), numbers.end());
}

std::vector<uint64_t> Between(const std::vector<uint64_t>& bounds) {
  std::vector<uint64_t> lengths;
  for (size_t i = 1; i < bounds.size(); ++i) lengths.push_back(bounds[i] - bounds[i - 1]);
  return lengths;
}

// "@cu_seqlens (0, 8, 20, 24)", at most some of them.
std::string RecordText(const std::string& record, const std::vector<uint64_t>& numbers) {
  constexpr size_t kMost = 8;
  const std::vector<uint64_t> first(
      numbers.begin(), numbers.begin() + static_cast<ptrdiff_t>(std::min(kMost, numbers.size())));
  return fmt::format("@{} ({}{})", record, fmt::join(first, ", "),
                     numbers.size() > kMost ? ", ..." : "");
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
    std::vector<uint64_t> sizes = use.sizes.numbers;
    if (!use.sizes.record.empty()) {
      // Of one place there is nothing to tell apart; what is not shared is not padded.
      if (n == 1 && !sizes_.contains("@" + use.sizes.record)) return {};
      TDUMP_ASSIGN_OR_RETURN(sizes, SizesOf(use, n, places, *lengths));
    }
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

  // One for each place, on this axis or on all of them.
  Result<std::vector<uint64_t>> SizesOf(const AxisUse& use, size_t n, size_t places,
                                        const std::vector<uint64_t>& held) const {
    TDUMP_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, LookUp(use.sizes.record, sizes_));
    const auto wrong = [&] {
      return InvalidArgument(fmt::format(
          "{} for the {} places on {}: expected as many for each, how many units are its own, or "
          "where they begin, from 0 on, and the last ones end",
          RecordText(use.sizes.record, numbers), n, use.axis));
    };
    std::vector<uint64_t> sizes = numbers;
    uint64_t sum = 0;
    const bool fits = n > 1 || (SumOf(numbers, &sum) && sum <= held.front());
    if (numbers.size() % n != 0 || !fits) {
      if (!AreBounds(numbers) || (numbers.size() - 1) % n != 0) return wrong();
      sizes = Between(numbers);
    }
    if (sizes.empty()) return wrong();
    if (sizes.size() == n || sizes.size() == places) return sizes;
    const size_t each = sizes.size() / n;
    std::vector<uint64_t> sums(n, 0);
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (__builtin_add_overflow(sums[i / each], sizes[i], &sums[i / each])) return wrong();
    }
    return sums;
  }

  Result<std::vector<uint64_t>> SequencesOf(const AxisUse& use,
                                            const std::vector<uint64_t>& lengths) const {
    uint64_t held = 0;
    (void)SumOf(lengths, &held);  // checked by SplitPieces
    if (use.packed.empty()) return std::vector<uint64_t>{held};
    if (use.packed.record.empty()) return use.packed.numbers;
    TDUMP_ASSIGN_OR_RETURN(std::vector<uint64_t> numbers, LookUp(use.packed.record, sizes_));
    uint64_t whole = 0;
    if (SumOf(numbers, &whole) && whole == held) return numbers;
    if (AreBounds(numbers) && numbers.back() == held) return Between(numbers);
    return InvalidArgument(fmt::format(
        "{}: expected lengths of sequences that add up to the {} units that the ranks of {} hold, "
        "or where they begin and end, from 0 to {}",
        RecordText(use.packed.record, numbers), held, use.axis, held));
  }

  Result<std::vector<Segment>> SegmentsOf(const AxisUse& use,
                                          const std::vector<uint64_t>& lengths) const {
    const size_t n = lengths.size();
    std::vector<Segment> segments;
    const bool in_order = use.split == Split::kContiguous && use.packed.empty();
    // Of one place the sequences lie as they are, whatever record tells their lengths.
    if (in_order || (n == 1 && !use.packed.record.empty())) {
      for (size_t i = 0; i < n; ++i) segments.push_back({i, lengths[i]});
      return segments;
    }
    TDUMP_ASSIGN_OR_RETURN(const std::vector<uint64_t> sequences, SequencesOf(use, lengths));
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
