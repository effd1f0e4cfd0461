#include "io/statistics.h"

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/statistics_tree.h"
#include "io/statistics_tile.h"
#include "io/value.h"

namespace tdump::io {
namespace {

// Rounds to nearest, keeps subnormals, traps nothing: a job may have set its threads otherwise, and
// a thread inherits that.
class DefaultFloats {
 public:
  DefaultFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { std::fesetenv(&before_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t before_;
};

struct IntegerTotals {
  __int128 sum = 0;
  __int128 min = 0;
  __int128 max = 0;
  bool any = false;

  void Add(__int128 tile_sum, __int128 tile_min, __int128 tile_max) {
    sum += tile_sum;
    min = any ? std::min(min, tile_min) : tile_min;
    max = any ? std::max(max, tile_max) : tile_max;
    any = true;
  }
};

// One dtype's tiles: bytes of `elements` <= kTileElements elements.
class TileReader {
 public:
  virtual ~TileReader() = default;
  virtual TileMoments Read(const std::byte* bytes, int elements, ValueCounts* counts,
                           IntegerTotals* totals) = 0;
};

class RealTiles final : public TileReader {
 public:
  explicit RealTiles(RealType type) : type_(type) {}
  TileMoments Read(const std::byte* bytes, int elements, ValueCounts* counts,
                   IntegerTotals*) override {
    return TileOf(type_, bytes, elements, counts);
  }

 private:
  const RealType type_;
};

// Integers of at most 32 bits are exact as doubles, and so is the sum of a tile. Those of 64 bits
// are rounded for the moments only.
template <class T>
class IntegerTiles final : public TileReader {
 public:
  explicit IntegerTiles(bool is_bool = false) : is_bool_(is_bool) {}
  TileMoments Read(const std::byte* bytes, int elements, ValueCounts* counts,
                   IntegerTotals* totals) override {
    // 64-bit sums of halves of 64-bit values, and of whole smaller ones, cannot overflow.
    int64_t high = 0;
    uint64_t low = 0;
    T min = std::numeric_limits<T>::max(), max = std::numeric_limits<T>::lowest();
    std::array<double, kTileElements> values;
    for (int i = 0; i < elements; ++i) {
      T value;
      std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
      if (is_bool_) value = value != 0;
      min = std::min(min, value);
      max = std::max(max, value);
      if constexpr (sizeof(T) == 8) {
        low += static_cast<uint32_t>(value);
        high += static_cast<int64_t>(value >> 32);
      } else {
        high += value;
      }
      values[i] = static_cast<double>(value);
    }
    const __int128 sum = sizeof(T) == 8 ? (static_cast<__int128>(high) << 32) + low : high;
    totals->Add(sum, min, max);
    return TileOf(RealType::kFloat64, reinterpret_cast<const std::byte*>(values.data()), elements,
                  counts);
  }

 private:
  const bool is_bool_;
};

// Numbers of any dtype whose name says what they are: small floats, packed ones, odd integers.
class DecodedTiles final : public TileReader {
 public:
  explicit DecodedTiles(const DType& dtype) : decoder_(dtype) {
    if (decoder_.unit_bytes() != 1) return;
    for (int bits = 0; bits < 256; ++bits) {
      const auto unit = static_cast<std::byte>(bits);
      for (uint32_t k = 0; k < std::min<uint32_t>(decoder_.elements_per_unit(), 8); ++k)
        table_[k][bits] = decoder_.Decode({&unit, 1}, k);
    }
  }
  TileMoments Read(const std::byte* bytes, int elements, ValueCounts* counts,
                   IntegerTotals* totals) override {
    std::array<double, kTileElements> values;
    if (decoder_.kind() == ValueKind::kComplex)
      return ReadComplex(bytes, elements, counts, &values);
    const uint32_t per_unit = decoder_.elements_per_unit();
    __int128 sum = 0, min = 0, max = 0;
    for (int i = 0; i < elements; ++i) {
      const Value value = At(bytes, i / per_unit, i % per_unit);
      if (value.kind == ValueKind::kFloat) {
        values[i] = value.real;
        continue;
      }
      const bool is_signed = value.kind == ValueKind::kSigned;
      const __int128 exact = is_signed ? __int128{value.integer} : __int128{value.natural};
      values[i] =
          is_signed ? static_cast<double>(value.integer) : static_cast<double>(value.natural);
      sum += exact;
      min = i == 0 ? exact : std::min(min, exact);
      max = i == 0 ? exact : std::max(max, exact);
    }
    totals->Add(sum, min, max);
    return TileOf(RealType::kFloat64, reinterpret_cast<const std::byte*>(values.data()), elements,
                  counts);
  }

 private:
  Value At(const std::byte* bytes, uint32_t unit, uint32_t element) const {
    const uint32_t width = decoder_.unit_bytes();
    if (width == 1 && element < 8) return table_[element][static_cast<uint8_t>(bytes[unit])];
    return decoder_.Decode({bytes + size_t{unit} * width, width}, element);
  }
  // Counts what is special of a part; true if it is not finite.
  static bool Special(double part, ValueCounts* counts) {
    counts->negative_zeros += part == 0 && std::signbit(part);
    if (std::isfinite(part)) return false;
    ++(std::isnan(part) ? counts->nan : part > 0 ? counts->positive_inf : counts->negative_inf);
    return true;
  }
  TileMoments ReadComplex(const std::byte* bytes, int elements, ValueCounts* counts,
                          std::array<double, kTileElements>* values) const {
    ValueCounts of_magnitudes;
    for (int i = 0; i < elements; ++i) {
      const Value value = At(bytes, i, 0);
      const bool special = Special(value.real, counts) | Special(value.imaginary, counts);
      (*values)[i] = special ? std::numeric_limits<double>::quiet_NaN()
                             : Magnitude(value.real, value.imaginary);
    }
    const TileMoments tile =
        TileOf(RealType::kFloat64, reinterpret_cast<const std::byte*>(values->data()), elements,
               &of_magnitudes);
    counts->zeros += of_magnitudes.zeros;
    for (int bin = 0; bin < kHistogramBins; ++bin)
      counts->histogram[bin] += of_magnitudes.histogram[bin];
    return tile;
  }

  const ValueDecoder decoder_;
  std::array<std::array<Value, 256>, 8> table_{};
};

std::unique_ptr<TileReader> MakeReader(const DType& dtype) {
  const std::string_view name = dtype.view();
  const auto is = [&](std::string_view wanted, int bits) {
    return name == wanted && dtype.bits_per_element == bits && dtype.elements_per_unit == 1;
  };
  if (is("float32", 32)) return std::make_unique<RealTiles>(RealType::kFloat32);
  if (is("bfloat16", 16)) return std::make_unique<RealTiles>(RealType::kBFloat16);
  if (is("float16", 16)) return std::make_unique<RealTiles>(RealType::kFloat16);
  if (is("float64", 64)) return std::make_unique<RealTiles>(RealType::kFloat64);
  if (is("bool", 8)) return std::make_unique<IntegerTiles<uint8_t>>(true);
  if (is("uint8", 8)) return std::make_unique<IntegerTiles<uint8_t>>();
  if (is("int8", 8)) return std::make_unique<IntegerTiles<int8_t>>();
  if (is("uint16", 16)) return std::make_unique<IntegerTiles<uint16_t>>();
  if (is("int16", 16)) return std::make_unique<IntegerTiles<int16_t>>();
  if (is("uint32", 32)) return std::make_unique<IntegerTiles<uint32_t>>();
  if (is("int32", 32)) return std::make_unique<IntegerTiles<int32_t>>();
  if (is("uint64", 64)) return std::make_unique<IntegerTiles<uint64_t>>();
  if (is("int64", 64)) return std::make_unique<IntegerTiles<int64_t>>();
  return std::make_unique<DecodedTiles>(dtype);
}

// Nearest double of a quotient of integers.
double Quotient(__int128 sum, uint64_t count) {
  const __int128 whole = sum / static_cast<__int128>(count);
  const __int128 rest = sum % static_cast<__int128>(count);
  if (rest == 0) return static_cast<double>(whole);
  return static_cast<double>(sum) / static_cast<double>(count);
}

}  // namespace

StatisticsKind StatisticsKindOf(const DType& dtype) {
  switch (ValueDecoder(dtype).kind()) {
    case ValueKind::kFloat:
      return StatisticsKind::kReal;
    case ValueKind::kComplex:
      return StatisticsKind::kComplex;
    case ValueKind::kSigned:
    case ValueKind::kUnsigned:
    case ValueKind::kBool:
      return StatisticsKind::kInteger;
    case ValueKind::kBits:
      break;
  }
  return StatisticsKind::kBits;
}

class StatisticsAccumulator::Impl {
 public:
  explicit Impl(const DType& dtype)
      : kind_(StatisticsKindOf(dtype)),
        per_unit_(std::max<uint32_t>(1, dtype.elements_per_unit)),
        unit_bytes_(std::max<uint32_t>(1, dtype.unit_bytes())),
        tile_bytes_(kTileElements / per_unit_ * unit_bytes_),
        reader_(kind_ == StatisticsKind::kBits ? nullptr : MakeReader(dtype)) {}

  void Update(std::span<const std::byte> bytes) {
    bytes_ += bytes.size();
    if (reader_ == nullptr) return;
    const DefaultFloats floats;
    if (!partial_.empty()) {
      const size_t take = std::min(bytes.size(), tile_bytes_ - partial_.size());
      partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + take);
      bytes = bytes.subspan(take);
      if (partial_.size() < tile_bytes_) return;
      AddTile(partial_);
      partial_.clear();
    }
    for (; bytes.size() >= tile_bytes_; bytes = bytes.subspan(tile_bytes_))
      AddTile(bytes.first(tile_bytes_));
    partial_.assign(bytes.begin(), bytes.end());
  }

  Statistics Finish() {
    const DefaultFloats floats;
    const uint64_t count = bytes_ / unit_bytes_ * per_unit_;
    if (partial_.size() >= unit_bytes_) AddTile(partial_);
    Statistics statistics = FinishStatistics(kind_, count, counts_, tree_.Finish());
    if (kind_ == StatisticsKind::kInteger && statistics.has_range()) {
      statistics.exact_min = totals_.min;
      statistics.exact_max = totals_.max;
      statistics.exact_sum = totals_.sum;
      statistics.min = static_cast<double>(totals_.min);
      statistics.max = static_cast<double>(totals_.max);
      statistics.mean = Quotient(totals_.sum, statistics.finite);
    }
    counts_ = {};
    totals_ = {};
    partial_.clear();
    bytes_ = 0;
    return statistics;
  }

 private:
  void AddTile(std::span<const std::byte> bytes) {
    const auto elements = static_cast<int>(bytes.size() / unit_bytes_ * per_unit_);
    tree_.Add(reader_->Read(bytes.data(), elements, &counts_, &totals_));
  }

  const StatisticsKind kind_;
  const uint32_t per_unit_;
  const uint32_t unit_bytes_;
  const size_t tile_bytes_;
  const std::unique_ptr<TileReader> reader_;
  MomentsTree tree_;
  ValueCounts counts_;
  IntegerTotals totals_;
  std::vector<std::byte> partial_;  // of a tile
  uint64_t bytes_ = 0;
};

StatisticsAccumulator::StatisticsAccumulator(const DType& dtype)
    : impl_(std::make_unique<Impl>(dtype)) {}
StatisticsAccumulator::~StatisticsAccumulator() = default;
void StatisticsAccumulator::Update(std::span<const std::byte> bytes) { impl_->Update(bytes); }
Statistics StatisticsAccumulator::Finish() { return impl_->Finish(); }

Statistics StatisticsOf(const DType& dtype, std::span<const std::byte> payload) {
  StatisticsAccumulator accumulator(dtype);
  accumulator.Update(payload);
  return accumulator.Finish();
}

}  // namespace tdump::io
