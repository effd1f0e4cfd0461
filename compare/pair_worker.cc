#include "compare/pair_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace tdump::compare {
namespace {

constexpr uint64_t kWindowBytes = 128 * 1024;  // of one side; a multiple of the hash's tile
constexpr uint64_t kChunkElements = 1 << 18;
constexpr uint64_t kMostChannels = 1 << 20;

using Path = PairPlan::Path;

bool Is(const NumberFormat& format, NumberKind kind) { return format.kind == kind; }

// A double holds integers of up to 53 bits, and the sums of those of up to 32.
Path ChoosePath(const NumberFormat& a, const NumberFormat& b) {
  if (Is(a, NumberKind::kOpaque) || Is(b, NumberKind::kOpaque)) return Path::kBits;
  if (Is(a, NumberKind::kComplex) || Is(b, NumberKind::kComplex)) return Path::kComplex;
  const bool integer_a = Is(a, NumberKind::kInteger), integer_b = Is(b, NumberKind::kInteger);
  if (integer_a && integer_b) return std::max(a.bits, b.bits) > 32 ? Path::kInteger : Path::kReal;
  const bool wide = (integer_a && a.bits > 53) || (integer_b && b.bits > 53);
  return wide ? Path::kWideReal : Path::kReal;
}

// The format whose rounding is the larger, as a scale of errors.
UlpScale CoarserUlp(const NumberFormat& a, const NumberFormat& b) {
  const NumberFormat& coarser = a.UnitRoundoff() >= b.UnitRoundoff() ? a : b;
  // Of integers 1, however large they are.
  if (coarser.UnitRoundoff() == 0) return {.mantissa_bits = 64, .least_exponent = 64};
  return {.mantissa_bits = coarser.mantissa_bits,
          .least_exponent = std::max(1 - coarser.bias, UlpScale().least_exponent)};
}

struct EqualUnits {
  uint64_t equal = 0;
  uint64_t first_other = 0;  // index of the first that is not
};

// At least one of `count` units differs.
template <class Same>
EqualUnits CompareUnitsBy(uint64_t count, const Same& same) {
  EqualUnits units;
  for (uint64_t i = 0; i < count; ++i) units.equal += same(i);
  while (same(units.first_other)) ++units.first_other;
  return units;
}

template <class Unit>
EqualUnits CompareUnitsAs(const std::byte* x, const std::byte* y, uint64_t count) {
  return CompareUnitsBy(count, [&](uint64_t i) {
    Unit left, right;
    std::memcpy(&left, x + i * sizeof(Unit), sizeof(Unit));
    std::memcpy(&right, y + i * sizeof(Unit), sizeof(Unit));
    return left == right;
  });
}

EqualUnits CompareUnits(const std::byte* x, const std::byte* y, size_t unit_bytes, uint64_t count) {
  switch (unit_bytes) {
    case 1:
      return CompareUnitsAs<uint8_t>(x, y, count);
    case 2:
      return CompareUnitsAs<uint16_t>(x, y, count);
    case 4:
      return CompareUnitsAs<uint32_t>(x, y, count);
    case 8:
      return CompareUnitsAs<uint64_t>(x, y, count);
    default:
      return CompareUnitsBy(count, [&](uint64_t i) {
        return std::memcmp(x + i * unit_bytes, y + i * unit_bytes, unit_bytes) == 0;
      });
  }
}

// Bits [part * bits, (part + 1) * bits) of a packed unit of at most 8 bytes.
bool SamePart(const DType& dtype, const std::byte* x, const std::byte* y, uint64_t part) {
  uint64_t left = 0, right = 0;
  const size_t bytes = std::min<size_t>(dtype.unit_bytes(), 8);
  std::memcpy(&left, x, bytes);
  std::memcpy(&right, y, bytes);
  const uint32_t bits = dtype.bits_per_element;
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return (((left ^ right) >> (bits * part)) & mask) == 0;
}

// Elements of packed units.
EqualUnits CompareParts(const DType& dtype, const std::byte* x, const std::byte* y,
                        uint64_t count) {
  const uint64_t packed = dtype.elements_per_unit, unit_bytes = dtype.unit_bytes();
  return CompareUnitsBy(count, [&](uint64_t i) {
    const uint64_t at = i / packed * unit_bytes;
    return SamePart(dtype, x + at, y + at, i % packed);
  });
}

}  // namespace

PairPlan::PairPlan(const io::Record& left, const io::Record& right, double relative_bound)
    : a(left), b(right), bound(relative_bound), skip(StoredOnceByBoth(left, right)) {
  const NumberFormat format_a = FormatOf(a.dtype), format_b = FormatOf(b.dtype);
  path = ChoosePath(format_a, format_b);
  same_dtype = a.dtype == b.dtype;
  integers = Is(format_a, NumberKind::kInteger) && Is(format_b, NumberKind::kInteger);
  ulp = CoarserUlp(format_a, format_b);
  const std::vector<uint64_t> shape = ElementShape(a);
  uint64_t last = 1;
  elements = std::max<uint64_t>(1, a.dtype.elements_per_unit);
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    const bool once = i < skip.size() && skip[i];
    (once ? weight : elements) *= static_cast<uint64_t>(a.sizes[i]);
    if (!once) last = shape[i];
  }
  if (last >= 2 && last <= kMostChannels && last < elements) channels = last;
  const uint64_t packed = std::max<uint64_t>(
      {1, uint64_t{a.dtype.elements_per_unit}, uint64_t{b.dtype.elements_per_unit}});
  tile = std::max<uint64_t>(1, kPairTile / packed) * packed;
  const uint64_t unit_bytes =
      std::max<uint64_t>({1, uint64_t{a.dtype.unit_bytes()}, uint64_t{b.dtype.unit_bytes()}});
  window = std::max<uint64_t>(1, kWindowBytes / unit_bytes / tile) * tile;
  // Sums by channel are added up once a chunk.
  chunk = (std::max(kChunkElements, 4 * channels) + window - 1) / window * window;
}

PairWorker::PairWorker(const PairPlan& plan, ReadBytes a, ReadBytes b, PairCounts* counts)
    : plan_(plan),
      a_(plan.a, std::move(a), plan.skip),
      b_(plan.b, std::move(b), plan.skip),
      adder_(plan.bound, plan.ulp, plan.channels, counts) {}

Status PairWorker::ForEachTile(uint64_t chunk, const Body& body) {
  const uint64_t begin = chunk * plan_.chunk;
  const uint64_t end = std::min(plan_.elements, begin + plan_.chunk);
  for (uint64_t first = begin; first < end; first += plan_.window) {
    const uint64_t count = std::min(plan_.window, end - first);
    TDUMP_RETURN_IF_ERROR(a_.Load(first, count));
    TDUMP_RETURN_IF_ERROR(b_.Load(first, count));
    for (uint64_t offset = 0; offset < count; offset += plan_.tile)
      body(first + offset, offset, std::min(plan_.tile, count - offset));
  }
  return {};
}

bool PairWorker::AsTheyLie(uint64_t count) const {
  return a_.vector_type() && b_.vector_type() &&
         AreReadTogether(*a_.vector_type(), *b_.vector_type()) && count <= kPairTile;
}

Status PairWorker::Measure(uint64_t chunk) {
  adder_.Start();
  return ForEachTile(chunk, [this](uint64_t first, uint64_t offset, uint64_t count) {
    AddTile(first, offset, count);
  });
}

Result<Magnitudes> PairWorker::CountMagnitudes(uint64_t chunk) {
  Magnitudes magnitudes;
  TDUMP_RETURN_IF_ERROR(ForEachTile(chunk, [&](uint64_t, uint64_t offset, uint64_t count) {
    magnitudes.Add(a_.Floats(offset, count), b_.Floats(offset, count));
  }));
  return magnitudes;
}

Result<uint64_t> PairWorker::CountOutside(uint64_t chunk, double absolute) {
  uint64_t outside = 0;
  TDUMP_RETURN_IF_ERROR(ForEachTile(chunk, [&](uint64_t, uint64_t offset, uint64_t count) {
    outside += OutsideOfTile(offset, count, absolute);
  }));
  return outside;
}

void PairWorker::AddTile(uint64_t first, uint64_t offset, uint64_t count) {
  const std::span<const std::byte> x = a_.Bytes(offset, count), y = b_.Bytes(offset, count);
  const bool equal = plan_.same_dtype && std::memcmp(x.data(), y.data(), x.size()) == 0;
  const bool all_count = plan_.huge_from == kNothingHuge;
  if (plan_.path == Path::kReal && all_count && AsTheyLie(count)) {
    if (equal && adder_.AddEqualTile(a_.Numbers(offset), count)) return;
    if (!equal && AddNumbers(first, offset, count)) return;
  }
  if (plan_.same_dtype) CountEqualBits(x, y, first, count, equal);
  if (!all_count) return AddAllButHuge(first, offset, count);
  switch (plan_.path) {
    case Path::kBits:
      return;
    case Path::kInteger:
      return adder_.AddIntegers(a_.Integers(offset, count), b_.Integers(offset, count), first);
    case Path::kReal:
      return adder_.AddReals(a_.Floats(offset, count), b_.Floats(offset, count), first);
    case Path::kWideReal:
      return adder_.AddWide(a_.Wide(offset, count), b_.Wide(offset, count), first);
    case Path::kComplex:
      return adder_.AddComplexes(a_.Complex(offset, count), b_.Complex(offset, count), first);
  }
}

// As zeros, which add nothing to any sum.
void PairWorker::AddAllButHuge(uint64_t first, uint64_t offset, uint64_t count) {
  const std::span<const double> a = a_.Floats(offset, count), b = b_.Floats(offset, count);
  std::vector<double> left(a.begin(), a.end()), right(b.begin(), b.end());
  uint64_t huge = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] != right[i] || std::abs(left[i]) < plan_.huge_from || std::isinf(left[i])) continue;
    left[i] = right[i] = 0;
    ++huge;
  }
  adder_.AddReals(left, right, first);
  adder_.LeaveOut(huge);
}

bool PairWorker::AddNumbers(uint64_t first, uint64_t offset, uint64_t count) {
  PairSums& sums = adder_.sums();
  const uint64_t zero_errors = adder_.zero_errors(), opposite_zeros = sums.zero_sign_mismatch;
  if (!adder_.AddTile(a_.Numbers(offset), b_.Numbers(offset), count, first)) return false;
  if (!plan_.same_dtype) return true;
  // A finite number has one pattern, but for zero.
  const uint64_t other_zeros = sums.zero_sign_mismatch - opposite_zeros;
  sums.bits_equal += adder_.zero_errors() - zero_errors - other_zeros;
  // Where no number differs, the first zero of the other sign is what is shown.
  if (other_zeros != 0 && sums.first_bits == PairSums::kNowhere) {
    const EqualUnits units =
        CompareUnits(a_.Bytes(offset, count).data(), b_.Bytes(offset, count).data(),
                     BytesOf(*a_.vector_type()), count);
    sums.first_bits = first + units.first_other;
  }
  return true;
}

void PairWorker::CountEqualBits(std::span<const std::byte> x, std::span<const std::byte> y,
                                uint64_t first, uint64_t count, bool equal) {
  PairSums& sums = adder_.sums();
  if (equal) {
    sums.bits_equal += count;
    return;
  }
  const DType& dtype = a_.dtype();
  const EqualUnits units = a_.elements_per_unit() == 1
                               ? CompareUnits(x.data(), y.data(), dtype.unit_bytes(), count)
                               : CompareParts(dtype, x.data(), y.data(), count);
  sums.bits_equal += units.equal;
  sums.first_bits = std::min(sums.first_bits, first + units.first_other);
}

uint64_t PairWorker::OutsideOfTile(uint64_t offset, uint64_t count, double absolute) {
  const double relative = plan_.bound;
  if (plan_.path == Path::kComplex)
    return CountOutsideComplexes(a_.Complex(offset, count), b_.Complex(offset, count), relative,
                                 absolute);
  if (plan_.path == Path::kWideReal)
    return CountOutsideWide(a_.Wide(offset, count), b_.Wide(offset, count), relative, absolute);
  if (AsTheyLie(count))
    return compare::CountOutside(a_.Numbers(offset), b_.Numbers(offset), count, relative, absolute);
  return CountOutsideReals(a_.Floats(offset, count), b_.Floats(offset, count), relative, absolute);
}

}  // namespace tdump::compare
