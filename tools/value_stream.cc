#include "tools/value_stream.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/stored_once.h"
#include "tools/statistics_text.h"

namespace tdump::tools {
namespace {

constexpr uint64_t kWindowBytes = 1 << 20;

uint64_t Magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

class Measurer {
 public:
  void Add(const io::ValueDecoder& decoder, std::span<const std::byte> unit, uint32_t element) {
    const io::Value value = decoder.Decode(unit, element);
    switch (value.kind) {
      case io::ValueKind::kFloat:
        return AddReal(value.real);
      case io::ValueKind::kComplex:
        if (std::isnan(value.real) || std::isnan(value.imaginary)) {
          ++measure_.nan;
        } else {
          AddReal(std::hypot(value.real, value.imaginary));
        }
        return;
      case io::ValueKind::kSigned:
        return AddNatural(Magnitude(value.integer));
      case io::ValueKind::kUnsigned:
      case io::ValueKind::kBool:
        return AddNatural(value.natural);
      case io::ValueKind::kBits:
        return;
    }
  }

  Measure Finish() {
    if (finite_ != 0) measure_.rms = std::sqrt(squares_ / static_cast<double>(finite_));
    if (any_natural_) {
      measure_.absmax = static_cast<double>(natural_);
      measure_.absmax_text = std::to_string(natural_);
    } else if (measure_.absmax >= 0) {
      char text[32];
      std::snprintf(text, sizeof text, "%.9g", measure_.absmax);
      measure_.absmax_text = text;
    }
    return measure_;
  }

 private:
  void AddReal(double value) {
    if (std::isnan(value)) {
      ++measure_.nan;
      return;
    }
    if (std::isinf(value))
      ++measure_.infinite;
    else
      AddSquare(value);
    measure_.absmax = std::max(measure_.absmax, std::fabs(value));
  }
  void AddNatural(uint64_t value) {
    any_natural_ = true;
    natural_ = std::max(natural_, value);
    AddSquare(static_cast<double>(value));
  }

  void AddSquare(double value) {
    ++finite_;
    squares_ += value * value;
  }

  Measure measure_;
  uint64_t finite_ = 0;
  double squares_ = 0;
  bool any_natural_ = false;
  uint64_t natural_ = 0;
};

}  // namespace

ValueStream::ValueStream(const io::PassReader* reader, const io::Record* record)
    : reader_(reader), record_(record), decoder_(record->dtype), units_(record->numel()) {
  const size_t dims = record->sizes.size();
  bool repeats = false;
  for (size_t dim = 0; dim < dims; ++dim)
    repeats |= io::StoredOnce(*record, dim) && record->sizes[dim] > 1;
  if (!repeats || units_ == 0) return;
  position_.assign(dims, 0);
  stored_strides_.assign(dims, 0);
  uint64_t stride = 1;
  for (size_t dim = dims; dim-- > 0;) {
    if (io::StoredOnce(*record, dim)) continue;
    stored_strides_[dim] = stride;
    stride *= static_cast<uint64_t>(record->sizes[dim]);
  }
}

void ValueStream::Seek(uint64_t unit) {
  next_ = stored_index_ = unit;
  if (position_.empty()) return;
  stored_index_ = 0;
  for (size_t dim = position_.size(); dim-- > 0;) {
    const auto size = static_cast<uint64_t>(record_->sizes[dim]);
    position_[dim] = unit % size;
    unit /= size;
    stored_index_ += position_[dim] * stored_strides_[dim];
  }
}

void ValueStream::Advance() {
  ++next_;
  if (position_.empty()) {
    ++stored_index_;
    return;
  }
  for (size_t dim = position_.size(); dim-- > 0;) {
    stored_index_ += stored_strides_[dim];
    if (++position_[dim] < static_cast<uint64_t>(record_->sizes[dim])) return;
    stored_index_ -= stored_strides_[dim] * position_[dim];
    position_[dim] = 0;
  }
}

Status ValueStream::Load(uint64_t offset) {
  const uint64_t bytes = record_->payload->logical_bytes;
  const uint64_t unit = decoder_.unit_bytes();
  if (unit == 0 || offset + unit > bytes) {
    return Corrupt(reader_->path() + ": record " + std::to_string(record_->id) +
                   ": the payload is shorter than its shape");
  }
  if (offset >= window_begin_ && offset + unit <= window_begin_ + window_.size()) return {};
  window_begin_ = offset / kWindowBytes * kWindowBytes;
  // A unit may reach over the end of the window.
  window_.resize(std::min(kWindowBytes + unit, bytes - window_begin_));
  const Status status = reader_->ReadPayload(*record_, window_begin_, window_);
  if (!status.ok()) window_.clear();
  return status;
}

Result<std::span<const std::byte>> ValueStream::Next() {
  const uint64_t unit = decoder_.unit_bytes();
  const uint64_t offset = stored_index_ * unit;
  TDUMP_RETURN_IF_ERROR(Load(offset));
  Advance();
  return std::span<const std::byte>(window_).subspan(offset - window_begin_, unit);
}

std::string ValueStream::Text(std::span<const std::byte> unit) const {
  std::string text;
  for (uint32_t element = 0; element < decoder_.elements_per_unit(); ++element)
    text += (element == 0 ? "" : " ") + decoder_.Text(unit, element);
  return text;
}

Measure MeasureOf(const Statistics& statistics) {
  Measure measure;
  measure.nan = statistics.nan;
  measure.infinite = statistics.positive_inf + statistics.negative_inf;
  if (statistics.has_range()) {
    measure.absmax = statistics.absmax();
    measure.absmax_text = AbsmaxText(statistics);
    measure.rms = statistics.rms();
  }
  if (measure.infinite == 0) return measure;
  measure.absmax = std::numeric_limits<double>::infinity();
  measure.absmax_text = "inf";
  return measure;
}

Result<Measure> MeasureRecord(const io::PassReader& reader, const io::Record& record) {
  if (record.statistics) return MeasureOf(*record.statistics);
  Measurer measurer;
  if (!record.payload) return measurer.Finish();
  ValueStream values(&reader, &record);
  while (!values.done()) {
    TDUMP_ASSIGN_OR_RETURN(const auto unit, values.Next());
    for (uint32_t element = 0; element < values.decoder().elements_per_unit(); ++element)
      measurer.Add(values.decoder(), unit, element);
  }
  return measurer.Finish();
}

}  // namespace tdump::tools
