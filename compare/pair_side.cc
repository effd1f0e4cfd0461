#include "compare/pair_side.h"

#include <algorithm>

#include "io/value.h"

namespace tdump::compare {

std::optional<RealType> VectorType(const NumberFormat& format) {
  if (format.kind != NumberKind::kFloat) return std::nullopt;
  if (format.bits == 64) return RealType::kFloat64;
  if (format.bits == 32) return RealType::kFloat32;
  if (format.bits == 16)
    return format.exponent_bits == 8 ? RealType::kBFloat16 : RealType::kFloat16;
  return std::nullopt;
}

std::vector<bool> StoredOnceByBoth(const io::Record& a, const io::Record& b) {
  if (a.sizes != b.sizes) return {};
  std::vector<bool> once = StoredOnce(a);
  const std::vector<bool> other = StoredOnce(b);
  for (size_t i = 0; i < once.size(); ++i) once[i] = once[i] && other[i];
  return once;
}

std::vector<uint64_t> PositionOf(uint64_t element, const std::vector<uint64_t>& shape,
                                 const std::vector<bool>& once) {
  std::vector<uint64_t> position(shape.size(), 0);
  for (size_t i = shape.size(); i-- > 0;) {
    if (i < once.size() && once[i]) continue;
    position[i] = element % shape[i];
    element /= shape[i];
  }
  return position;
}

PairSide::PairSide(const io::Record& record, ReadBytes read, const std::vector<bool>& skip)
    : dtype_(record.dtype),
      format_(FormatOf(dtype_)),
      vector_type_(VectorType(format_)),
      elements_per_unit_(std::max<uint64_t>(1, dtype_.elements_per_unit)),
      view_(record, std::move(read), skip) {
  if (format_.kind == NumberKind::kFloat && format_.bits <= 8 && elements_per_unit_ == 1)
    table_ = SmallTable(format_);
}

Status PairSide::Load(uint64_t first, uint64_t count) {
  bytes_.Resize(count / elements_per_unit_ * dtype_.unit_bytes());
  return view_.Read(first / elements_per_unit_, {bytes_.data(), bytes_.size()});
}

std::span<const std::byte> PairSide::Bytes(uint64_t offset, uint64_t count) const {
  const uint64_t unit_bytes = dtype_.unit_bytes();
  const uint64_t units = (count + elements_per_unit_ - 1) / elements_per_unit_;
  return std::span(bytes_.data(), bytes_.size())
      .subspan(offset / elements_per_unit_ * unit_bytes, units * unit_bytes);
}

Reals PairSide::Numbers(uint64_t offset) const {
  return {*vector_type_, bytes_.data() + offset * BytesOf(*vector_type_)};
}

std::span<const double> PairSide::Floats(uint64_t offset, uint64_t count) {
  floats_.resize(count * (format_.kind == NumberKind::kComplex ? 2 : 1));
  if (vector_type_) {
    DecodeReal(Numbers(offset), floats_);
  } else if (table_) {
    const std::byte* codes = bytes_.data() + offset;
    for (uint64_t i = 0; i < count; ++i) floats_[i] = (*table_)[static_cast<uint8_t>(codes[i])];
  } else {
    DecodeFloat(dtype_, format_, Bytes(offset, count), floats_);
  }
  return floats_;
}

std::span<const double> PairSide::Complex(uint64_t offset, uint64_t count) {
  const std::span<const double> numbers = Floats(offset, count);
  if (format_.kind == NumberKind::kComplex) return numbers;
  complex_.assign(count * 2, 0.0);
  for (uint64_t i = 0; i < count; ++i) complex_[2 * i] = numbers[i];
  return complex_;
}

std::span<const __int128> PairSide::Integers(uint64_t offset, uint64_t count) {
  integers_.resize(count);
  DecodeInteger(dtype_, format_, Bytes(offset, count), integers_);
  return integers_;
}

std::span<const long double> PairSide::Wide(uint64_t offset, uint64_t count) {
  wide_.resize(count);
  if (format_.kind == NumberKind::kInteger) {
    const std::span<const __int128> numbers = Integers(offset, count);
    std::copy(numbers.begin(), numbers.end(), wide_.begin());
  } else {
    const std::span<const double> numbers = Floats(offset, count);
    std::copy(numbers.begin(), numbers.end(), wide_.begin());
  }
  return wide_;
}

Result<std::string> PairSide::Text(uint64_t element) {
  std::vector<std::byte> unit(dtype_.unit_bytes());
  TDUMP_RETURN_IF_ERROR(view_.Read(element / elements_per_unit_, unit));
  return io::ValueDecoder(dtype_).Text(unit, static_cast<uint32_t>(element % elements_per_unit_));
}

}  // namespace tdump::compare
