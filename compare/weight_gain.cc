#include "compare/weight_gain.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "compare/bounds.h"
#include "compare/dequantised.h"
#include "compare/ordered_work.h"
#include "compare/pair_side.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;
constexpr uint64_t kChunkElements = uint64_t{1} << 20;  // of one thread
constexpr uint64_t kMostGroups = uint64_t{1} << 20;     // of neighbouring scales
constexpr double kChance = 6;                           // (2)

bool IsInteger(const NumberFormat& format) { return format.kind == NumberKind::kInteger; }

// The largest that is no larger than a positive number; 0 of subnormal ones, which are next to it.
double PowerOfTwoIn(double number) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(number) & 0x7FF0'0000'0000'0000);
}

// Of numbers that are not subnormal; of integers more than any float's.
double Coarseness(const NumberFormat& format) {
  return IsInteger(format) ? 1 : format.UnitRoundoff();
}

// What is rounded on the way (1), relative to the number.
double OnTheWay(const NumberFormat& coarser) {
  if (IsInteger(coarser) || coarser.bits <= 8) return 0x1p-7;
  return coarser.UnitRoundoff() >= 0x1p-8 ? 0x1p-11 : 0;
}

double LargestNumber(const NumberFormat& format) {
  if (format.bits > 8) {
    const int exponent = (1 << format.exponent_bits) - 2 - format.bias;
    return std::ldexp(2 - std::ldexp(1.0, -format.mantissa_bits), exponent);
  }
  double largest = 0;
  for (const double number : SmallTable(format))
    if (std::isfinite(number)) largest = std::max(largest, number);
  return largest;
}

// What is stored from where on outwards is cut off. Integers are cut off at -127 or at -128.
struct Ends {
  explicit Ends(const NumberFormat& format) {
    constexpr double kNearly = 1 - 0x1p-12, kPart = 0.25;
    if (!IsInteger(format)) {
      high = kNearly * LargestNumber(format);
      low = -high;
      return;
    }
    const double half = std::ldexp(1.0, format.bits - 1);
    high = (format.is_signed ? half : 2 * half) - 1 - kPart;
    low = format.is_signed ? 1 - half + kPart : kPart;
  }
  double low, high;
};

// The numbers that a format has under one scale.
class Grid {
 public:
  Grid(const NumberFormat& format, const Ends& ends, double scale, double zero, bool is_scaled)
      : ends_(ends),
        scale_(scale),
        inverse_(scale == 0 ? 0 : 1 / scale),
        zero_(zero),
        unit_(format.UnitRoundoff() * std::abs(scale)),
        least_normal_(std::ldexp(1.0, 1 - format.bias)),
        is_integer_(IsInteger(format)),
        may_cut_off_(format.bits <= 16 && scale != 0),
        may_flush_(!is_scaled && format.bits > 8) {}

  // At one of its numbers.
  double HalfStep(double number) const {
    // A product with a scale of float64 was rounded: a power of two may lie just below itself.
    constexpr double kUp = 1 + 0x1p-20;
    if (is_integer_) return std::abs(scale_) / 2;
    return std::max(PowerOfTwoIn(std::abs(number * inverse_) * kUp), least_normal_) * unit_;
  }
  // Whether `other` lies farther out than anything that the format has.
  bool IsCutOff(double number, double other) const {
    if (!may_cut_off_) return false;
    const double stored = number * inverse_ + zero_;
    if (stored > ends_.low && stored < ends_.high) return false;
    const double outwards = (scale_ < 0 ? -1 : 1) * (other - number);
    return stored >= ends_.high ? outwards > 0 : outwards < 0;
  }
  bool IsFlushed(double number, double other) const {
    return may_flush_ && number == 0 && std::abs(other) < least_normal_;
  }

 private:
  Ends ends_;
  double scale_, inverse_, zero_;
  double unit_, least_normal_;
  bool is_integer_, may_cut_off_, may_flush_;
};

// One side's numbers, a tile at a time, and the grids that they lie on.
class GridSide {
 public:
  // `read`: of side.numbers. The side outlives it.
  GridSide(const RoundedSide& side, ReadBytes read)
      : format_(side.format),
        scales_(side.scales),
        ends_(side.format),
        numbers_(*side.numbers.record, std::move(read), {}) {}

  uint64_t elements() const { return numbers_.elements(); }
  Status Load(uint64_t first, uint64_t count) {
    TDUMP_RETURN_IF_ERROR(numbers_.Load(first, count));
    tile_ = numbers_.Floats(0, count);
    scale_of_.assign(count, 0);
    if (HasSeveralScales()) scales_->grid.Indices(first, scale_of_);
    return {};
  }

  // Of element i of the tile.
  double Number(size_t i) const { return tile_[i]; }
  uint64_t ScaleOf(size_t i) const { return scale_of_[i]; }
  Grid GridOf(size_t i) const {
    if (scales_ == nullptr) return {format_, ends_, 1, 0, false};
    const std::vector<double>& zeros = scales_->zero_points;
    const double zero = zeros.empty() ? 0 : zeros.size() == 1 ? zeros[0] : zeros[scale_of_[i]];
    return {format_, ends_, scales_->scales[scale_of_[i]], zero, true};
  }
  // Where another scale begins.
  size_t EndOfScale(size_t i) const {
    if (!HasSeveralScales()) return scale_of_.size();
    const uint64_t scale = scale_of_[i];
    while (++i < scale_of_.size() && scale_of_[i] == scale) {
    }
    return i;
  }

 private:
  bool HasSeveralScales() const { return scales_ != nullptr && scales_->scales.size() > 1; }

  const NumberFormat format_;
  const Quantised* const scales_;
  const Ends ends_;
  PairSide numbers_;
  std::span<const double> tile_;
  std::vector<uint64_t> scale_of_;
};

struct GainSums {
  uint64_t elements = 0;
  uint64_t beyond = 0, not_cut = 0;  // not rounded to nearest, not cut off
  double product = 0, square = 0;    // sums of f e, f^2
  double steps = 0, chance = 0;      // of squares: h, and f h

  // `half_f`, `half_c`: half a step of each.
  void AddElement(double f, double c, double half_f, double half_c, double on_the_way) {
    const double e = c - f, size = std::abs(e);
    const double half = half_f + half_c, way = on_the_way * std::abs(f);
    ++elements;
    beyond += size > half + way;
    // A scale may be off by its own rounding.
    const double inwards = std::abs(f) + half_f + way + 0x1p-22 * std::abs(f);
    not_cut += std::abs(c) > inwards || c * f < 0 || size > 2 * half + way;
    product += f * e;
    square += f * f;
    steps += half * half;
    chance += f * f * half * half;
  }
  void Add(const GainSums& other) {
    elements += other.elements;
    beyond += other.beyond;
    not_cut += other.not_cut;
    product += other.product;
    square += other.square;
    steps += other.steps;
    chance += other.chance;
  }

  double gain() const { return product / square; }
  double Explained(double more) const {
    return more + (steps + kChance * std::sqrt(chance)) / square;
  }
  // How many times the gain is what is explained; at most 1 where rounding explains it.
  double Times(double more) const {
    if (beyond == 0 || not_cut == 0 || square == 0) return 0;
    const double times = std::abs(gain()) / Explained(more);
    return std::isnan(times) ? 0 : times;
  }
};

uint64_t ScalesOf(const RoundedSide& side) {
  return side.scales == nullptr ? 1 : std::max<uint64_t>(1, side.scales->scales.size());
}

class GainPass {
 public:
  GainPass(const RoundedSide& a, const RoundedSide& b)
      : a_(a),
        b_(b),
        a_is_finer_(Coarseness(a.format) <= Coarseness(b.format)),
        by_a_(ScalesOf(a) > ScalesOf(b)),
        scales_(std::max(ScalesOf(a), ScalesOf(b))),
        group_((scales_ + kMostGroups - 1) / kMostGroups),
        on_the_way_(OnTheWay(a_is_finer_ ? b.format : a.format)),
        sums_((scales_ + group_ - 1) / group_) {}

  Status Run(unsigned threads) {
    std::vector<std::unique_ptr<Sides>> sides;
    sides.push_back(std::make_unique<Sides>(*this, a_.numbers.read, b_.numbers.read));
    const uint64_t elements = sides[0]->a.elements();
    const uint64_t chunks = (elements + kChunkElements - 1) / kChunkElements;
    if (!a_.numbers.open || !b_.numbers.open) threads = 1;
    threads = static_cast<unsigned>(std::min<uint64_t>(threads, std::max<uint64_t>(1, chunks)));
    while (sides.size() < threads) {
      TDUMP_ASSIGN_OR_RETURN(ReadBytes a, a_.numbers.open());
      TDUMP_ASSIGN_OR_RETURN(ReadBytes b, b_.numbers.open());
      sides.push_back(std::make_unique<Sides>(*this, std::move(a), std::move(b)));
    }
    Status status;
    RunInOrder(
        chunks, threads,
        [&](unsigned thread, uint64_t chunk) {
          const uint64_t first = chunk * kChunkElements;
          return AddUp(first, std::min(kChunkElements, elements - first), sides[thread].get());
        },
        [&](uint64_t, Chunk&& done) {
          status = std::move(done.status);
          for (size_t i = 0; i < done.sums.size(); ++i) sums_[done.first + i].Add(done.sums[i]);
          return status.ok();
        });
    return status;
  }

  std::optional<WrongGain> Find(double more) const {
    GainSums all;
    const GainSums* worst = &all;
    uint64_t wrong = 0;
    for (const GainSums& sums : sums_) {
      all.Add(sums);
      if (sums.Times(more) <= 1) continue;
      ++wrong;
      if (worst == &all || sums.Times(more) > worst->Times(more)) worst = &sums;
    }
    const bool few = wrong > 0 && 2 * wrong <= sums_.size();
    if (all.Times(more) > 1 && !few) return Told(all, more);
    if (wrong == 0) return std::nullopt;
    WrongGain told = Told(*worst, more);
    told.wrong_scales = wrong * group_;
    told.all_scales = scales_;
    told.scale = static_cast<uint64_t>(worst - sums_.data()) * group_;
    return told;
  }

 private:
  struct Sides {
    Sides(const GainPass& pass, ReadBytes read_a, ReadBytes read_b)
        : a(pass.a_, std::move(read_a)), b(pass.b_, std::move(read_b)) {}
    GridSide a, b;
  };
  // Of groups of scales from `first` on.
  struct Chunk {
    Status status;
    uint64_t first = 0;
    std::vector<GainSums> sums;
  };

  Chunk AddUp(uint64_t first, uint64_t count, Sides* sides) const {
    Chunk chunk;
    for (const uint64_t end = first + count; first < end; first += kTileElements) {
      const uint64_t elements = std::min(kTileElements, end - first);
      chunk.status = sides->a.Load(first, elements);
      if (chunk.status.ok()) chunk.status = sides->b.Load(first, elements);
      if (!chunk.status.ok()) return chunk;
      for (size_t i = 0; i < elements;) {
        const size_t next = std::min(sides->a.EndOfScale(i), sides->b.EndOfScale(i));
        SumsOf((by_a_ ? sides->a : sides->b).ScaleOf(i) / group_, &chunk)
            ->Add(SumsOfRun(*sides, i, next));
        i = next;
      }
    }
    return chunk;
  }

  // Of elements of one scale, on each side.
  GainSums SumsOfRun(const Sides& sides, size_t first, size_t end) const {
    const GridSide &f = a_is_finer_ ? sides.a : sides.b, &c = a_is_finer_ ? sides.b : sides.a;
    const Grid of_f = f.GridOf(first), of_c = c.GridOf(first);
    GainSums sums;
    for (size_t i = first; i < end; ++i) {
      const double x = f.Number(i), y = c.Number(i);
      if (!std::isfinite(x) || !std::isfinite(y) || of_f.IsFlushed(x, y) || of_c.IsFlushed(y, x) ||
          of_f.IsCutOff(x, y) || of_c.IsCutOff(y, x))
        continue;
      sums.AddElement(x, y, of_f.HalfStep(x), of_c.HalfStep(y), on_the_way_);
    }
    return sums;
  }

  static GainSums* SumsOf(uint64_t group, Chunk* chunk) {
    std::vector<GainSums>& sums = chunk->sums;
    if (sums.empty()) chunk->first = group;
    if (group < chunk->first) {
      sums.insert(sums.begin(), chunk->first - group, GainSums());
      chunk->first = group;
    }
    const uint64_t at = group - chunk->first;
    if (at >= sums.size()) sums.resize(at + 1);
    return &sums[at];
  }

  WrongGain Told(const GainSums& sums, double more) const {
    const double of_coarser = 1 + sums.gain();
    return {.factor = a_is_finer_ ? of_coarser : 1 / of_coarser,
            .explained = sums.Explained(more),
            .elements = sums.elements};
  }

  const RoundedSide& a_;
  const RoundedSide& b_;
  const bool a_is_finer_;
  const bool by_a_;  // whose scales sums are kept for: those of the side that has more
  const uint64_t scales_, group_;
  const double on_the_way_;
  std::vector<GainSums> sums_;  // of groups
};

// What cutting off at the largest number of a format takes away at most, of scales that are powers
// of two (OCP Microscaling Formats v1.0, 6.3): up to the next one, relative to it.
double MostCutOff(const NumberFormat& format) {
  if (format.bits > 8) return 0;
  const double largest =
      IsInteger(format) ? std::ldexp(1.0, format.bits - 1) - 1 : LargestNumber(format);
  return 1 - largest / std::exp2(std::floor(std::log2(largest)) + 1);
}

// Of noise alone: 6 deviations, its elements' sizes being alike. And where the density of the
// numbers falls from step to step of a float's grid, rounding to nearest has a gain of up to 3
// times its power.
double ChanceOf(const Metrics& m) {
  constexpr double kOfNoise = 4;
  const double noise = LevelOf(m).noise();
  return kOfNoise * noise + kChance * std::sqrt(noise / static_cast<double>(m.compared));
}

// Two digits of what it is off by, and four at least.
std::string FactorText(double factor) {
  constexpr int kLeast = 4, kMost = 15;
  const double off = std::abs(factor - 1);
  const double digits = off == 0 ? kLeast : 2 + std::ceil(-std::log10(off));
  return fmt::format("{:.{}g}", factor,
                     static_cast<int>(std::clamp<double>(digits, kLeast, kMost)));
}

bool IsReal(const DType& dtype) {
  const NumberFormat format = FormatOf(dtype);
  return format.kind == NumberKind::kFloat && format.specials != Specials::kScale;
}

// Finer ones round by less than what a number is given in.
bool IsCoarse(const DType& dtype) { return FormatOf(dtype).UnitRoundoff() >= 0x1p-11; }

bool HasGain(const Metrics& m) {
  return m.cosine && m.rms_a > 0 && m.rms_b > 0 && m.compared > 0 && m.max_abs > 0;
}

}  // namespace

bool IsHeldToRounding(const io::Record& a, const io::Record& b) {
  const bool has_scales = !DequantisedText(a).empty() || !DequantisedText(b).empty();
  const bool is_cast = a.key.role == Role::kParam && RecordedDType(a) != RecordedDType(b) &&
                       (IsCoarse(RecordedDType(a)) || IsCoarse(RecordedDType(b)));
  return (has_scales || is_cast) && IsReal(a.dtype) && IsReal(b.dtype);
}

std::string TextOf(const WrongGain& gain) {
  std::string text = fmt::format("B is {} times A, within {:.2g} explained",
                                 FactorText(gain.factor), gain.explained);
  if (gain.wrong_scales == 0) return text;
  text += fmt::format(": {} of scale {} of {}", Plural(gain.elements, "element"), gain.scale,
                      gain.all_scales);
  if (gain.wrong_scales > 1)
    text += fmt::format(", and {} more", Plural(gain.wrong_scales - 1, "scale"));
  return text;
}

void HoldGain(double explained, Comparison* comparison) {
  constexpr double kSpread = 3, kAlike = 64;  // as of outputs (compare/explain.cc)
  const Metrics m = comparison->metrics;
  if (comparison->verdict.tolerance != Answer::kSame || !m.cosine || m.rms_a == 0) return;
  const ErrorLevel error = LevelOf(m);
  const double counted = static_cast<double>(m.elements) / kAlike;
  if (counted < 1) return;  // of few elements noise has a factor too
  const double most = explained + kSpread * std::sqrt(error.noise() / counted);
  if (error.gain <= most) return;
  comparison->verdict.tolerance = Answer::kDiffers;
  comparison->notes.push_back(TextOf({.factor = *m.cosine * m.rms_b / m.rms_a, .explained = most}));
}

bool MayBeScaled(const Metrics& m, double more) {
  return HasGain(m) && LevelOf(m).gain > more + ChanceOf(m);
}

Result<std::optional<WrongGain>> FindWrongGain(const RoundedSide& a, const RoundedSide& b,
                                               double more, unsigned threads) {
  GainPass pass(a, b);
  TDUMP_RETURN_IF_ERROR(pass.Run(threads));
  return pass.Find(more);
}

std::optional<WrongGain> FindLargeGain(const Metrics& m, const NumberFormat& a,
                                       const NumberFormat& b, double half_step, double more) {
  if (!HasGain(m)) return std::nullopt;
  double explained = more + ChanceOf(m) + half_step / std::min(m.rms_a, m.rms_b);
  for (const NumberFormat& format : {a, b})
    explained += (IsInteger(format) ? 0 : format.UnitRoundoff()) + MostCutOff(format);
  if (LevelOf(m).gain <= explained) return std::nullopt;
  return WrongGain{
      .factor = *m.cosine * m.rms_b / m.rms_a, .explained = explained, .elements = m.compared};
}

}  // namespace tdump::compare
