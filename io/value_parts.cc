#include "io/value_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace tdump::io {
namespace {

void Append(__int128 value, std::vector<uint64_t>* words) {
  words->push_back(static_cast<uint64_t>(value));
  words->push_back(static_cast<uint64_t>(value >> 64));
}

__int128 Wide(const std::vector<uint64_t>& words, size_t at) {
  return static_cast<__int128>(static_cast<unsigned __int128>(words[at + 1]) << 64 | words[at]);
}

// Fields of the same meaning; a section holds a double as its bits.
template <class T>
using SameField = std::pair<T Statistics::*, uint64_t StatisticsSection::*>;
constexpr SameField<uint64_t> kCounts[] = {
    {&Statistics::count, &StatisticsSection::count},
    {&Statistics::finite, &StatisticsSection::finite},
    {&Statistics::nan, &StatisticsSection::nan},
    {&Statistics::positive_inf, &StatisticsSection::positive_inf},
    {&Statistics::negative_inf, &StatisticsSection::negative_inf},
    {&Statistics::zeros, &StatisticsSection::zeros},
    {&Statistics::negative_zeros, &StatisticsSection::negative_zeros},
};
constexpr SameField<double> kReals[] = {
    {&Statistics::min, &StatisticsSection::min},
    {&Statistics::max, &StatisticsSection::max},
    {&Statistics::mean, &StatisticsSection::mean},
    {&Statistics::std, &StatisticsSection::std},
    {&Statistics::mean_abs, &StatisticsSection::mean_abs},
    {&Statistics::l1, &StatisticsSection::l1},
    {&Statistics::l2, &StatisticsSection::l2},
};

bool StoredOnce(std::span<const int64_t> strides, size_t dim) {
  return dim < strides.size() && strides[dim] == 0;
}

// Runs of a slice in the canonical payload, outermost dimension first.
class SlicePicker final : public BytePicker {
 public:
  SlicePicker(std::span<const SliceRange> slice, std::span<const int64_t> sizes,
              std::span<const int64_t> strides, uint64_t unit) {
    uint64_t step = unit;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      const SlicedDim part = ResolveDim(slice, dim, sizes[dim]);
      if (part.size == 0) empty_ = true;
      if (StoredOnce(strides, dim)) continue;
      dims_.insert(dims_.begin(), {part, step, 0});
      step *= static_cast<uint64_t>(sizes[dim]);
    }
    run_bytes_ = unit;
    // Whole or contiguous inner dimensions are one run.
    while (!dims_.empty() && dims_.back().part.step == 1) {
      const Dim& inner = dims_.back();
      const uint64_t whole = inner.step;
      if (whole != run_bytes_) break;
      first_ += static_cast<uint64_t>(inner.part.begin) * inner.step;
      run_bytes_ = static_cast<uint64_t>(inner.part.size) * inner.step;
      dims_.pop_back();
    }
    expected_ = empty_ ? 0 : run_bytes_;
    for (const Dim& dim : dims_) expected_ *= static_cast<uint64_t>(dim.part.size);
  }
  // Everything passed by.
  bool complete() const { return picked_.size() == expected_; }

 private:
  struct Dim {
    SlicedDim part;
    uint64_t step = 0;  // bytes in the payload from one index to the next
    int64_t at = 0;
  };
  Run Next() override {
    if (empty_) return {};
    uint64_t offset = first_;
    for (const Dim& dim : dims_)
      offset += static_cast<uint64_t>(dim.part.begin + dim.at * dim.part.step) * dim.step;
    size_t dim = dims_.size();
    for (; dim > 0; --dim) {
      if (++dims_[dim - 1].at < dims_[dim - 1].part.size) break;
      dims_[dim - 1].at = 0;
    }
    empty_ = dim == 0;
    return {offset, run_bytes_};
  }

  std::vector<Dim> dims_;
  uint64_t first_ = 0, run_bytes_ = 0, expected_ = 0;
  bool empty_ = false;  // no more
};

// The units of a sample, by their place in the payload; put into the sample's order at the end.
class SamplePicker final : public BytePicker {
 public:
  SamplePicker(uint64_t wanted, std::span<const int64_t> sizes, std::span<const int64_t> strides,
               uint64_t unit)
      : unit_(unit) {
    uint64_t numel = 1;
    for (int64_t size : sizes) numel *= static_cast<uint64_t>(size);
    const uint64_t count = SampleSize(wanted, numel);
    places_.reserve(count);
    for (uint64_t k = 0; k < count; ++k)
      places_.push_back(PlaceOf(SampleIndex(k, count, numel), sizes, strides) * unit);
    sorted_ = places_;
    std::sort(sorted_.begin(), sorted_.end());
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
  }
  bool complete() const { return picked_.size() == sorted_.size() * unit_; }
  std::vector<uint8_t> InOrder() {
    const std::vector<std::byte> picked = TakePicked();
    std::vector<uint8_t> units;
    for (uint64_t place : places_) {
      const size_t at = std::lower_bound(sorted_.begin(), sorted_.end(), place) - sorted_.begin();
      const auto* from = reinterpret_cast<const uint8_t*>(picked.data()) + at * unit_;
      units.insert(units.end(), from, from + unit_);
    }
    return units;
  }

 private:
  // Unit of the payload that holds a logical element.
  static uint64_t PlaceOf(uint64_t index, std::span<const int64_t> sizes,
                          std::span<const int64_t> strides) {
    uint64_t place = 0, step = 1;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      const auto size = static_cast<uint64_t>(sizes[dim]);
      const uint64_t at = index % size;
      index /= size;
      if (StoredOnce(strides, dim)) continue;
      place += at * step;
      step *= size;
    }
    return place;
  }
  Run Next() override { return next_ < sorted_.size() ? Run{sorted_[next_++], unit_} : Run{}; }

  const uint64_t unit_;
  std::vector<uint64_t> places_, sorted_;
  size_t next_ = 0;
};

SliceSection DescribeSlice(std::span<const SliceRange> slice, std::span<const int64_t> sizes) {
  SliceSection section;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    const SlicedDim part = ResolveDim(slice, dim, sizes[dim]);
    section.begins.push_back(part.begin);
    section.sizes.push_back(part.size);
    section.steps.push_back(part.step);
  }
  return section;
}

Parts PartsIn(Content content, Parts parts) {
  switch (content) {
    case Content::kWhole:
      break;
    case Content::kSlice:
      return parts & kPartSlice;
    case Content::kSample:
      return parts & kPartSample;
  }
  return parts & (kPartStats | kPartSample | kPartSlice);
}

}  // namespace

StatisticsSection ToSection(const Statistics& statistics) {
  StatisticsSection section;
  section.kind = static_cast<uint8_t>(statistics.kind);
  for (const auto& [ours, stored] : kCounts) section.*stored = statistics.*ours;
  for (const auto& [ours, stored] : kReals)
    section.*stored = std::bit_cast<uint64_t>(statistics.*ours);
  const auto& bins = statistics.histogram;
  const auto is_used = [](uint64_t count) { return count != 0; };
  const auto first = std::find_if(bins.begin(), bins.end(), is_used);
  const auto last = std::find_if(bins.rbegin(), bins.rend(), is_used).base();
  if (first != bins.end()) {
    section.first_bin = static_cast<uint8_t>(first - bins.begin());
    section.histogram.assign(first, last);
  }
  if (statistics.kind == StatisticsKind::kInteger) {
    Append(statistics.exact_min, &section.exact);
    Append(statistics.exact_max, &section.exact);
    Append(statistics.exact_sum, &section.exact);
  }
  return section;
}

Result<Statistics> FromSection(const StatisticsSection& section) {
  Statistics out;
  out.kind = static_cast<StatisticsKind>(section.kind);
  for (const auto& [ours, stored] : kCounts) out.*ours = section.*stored;
  for (const auto& [ours, stored] : kReals) out.*ours = std::bit_cast<double>(section.*stored);
  if (section.finite > section.count) {
    return Corrupt(
        fmt::format("statistics: {} finite of {} elements", section.finite, section.count));
  }
  if (section.first_bin + section.histogram.size() > out.histogram.size()) {
    return Corrupt(fmt::format("statistics: histogram of {} bins from bin {}, expected at most {}",
                               section.histogram.size(), section.first_bin, out.histogram.size()));
  }
  std::copy(section.histogram.begin(), section.histogram.end(),
            out.histogram.begin() + section.first_bin);
  if (out.kind == StatisticsKind::kInteger) {
    if (section.exact.size() != 6) {
      return Corrupt(
          fmt::format("statistics: {} words of exact integers, expected 6", section.exact.size()));
    }
    out.exact_min = Wide(section.exact, 0);
    out.exact_max = Wide(section.exact, 2);
    out.exact_sum = Wide(section.exact, 4);
  }
  return out;
}

Record SliceAsRecord(const Record& record) {
  Record part = record;
  const Slice& slice = *record.slice;
  part.sizes = slice.sizes;
  // The strides stay: readers of the payload ask only which dimensions are stored once.
  part.payload = slice.payload;
  part.hash = slice.hash;
  part.tile_digests = slice.tile_digests;
  part.parts_kept = kLevelFull;
  part.statistics.reset();
  part.sample.reset();
  part.slice.reset();
  return part;
}

void BytePicker::Update(std::span<const std::byte> bytes) {
  if (!started_) run_ = Next();
  started_ = true;
  const uint64_t end = position_ + bytes.size();
  while (run_.bytes != 0 && run_.offset < end) {
    const uint64_t from = std::max(run_.offset, position_);
    const uint64_t to = std::min(run_.offset + run_.bytes, end);
    const auto piece = bytes.subspan(from - position_, to - from);
    picked_.insert(picked_.end(), piece.begin(), piece.end());
    if (run_.offset + run_.bytes > end) break;
    run_ = Next();
  }
  position_ = end;
}

struct PartsBuilder::Impl {
  std::optional<StatisticsAccumulator> statistics;
  std::optional<SamplePicker> sample;
  std::optional<SlicePicker> slice;
  std::optional<SliceSection> slice_section;
  bool is_part = false;  // the bytes are the part
  std::vector<std::byte> part;
  Parts parts = kPartNone;
};

PartsBuilder::PartsBuilder(const Keep& keep, Content content, const DType& dtype,
                           std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  Parts parts = PartsIn(content, keep.parts);
  if ((keep.parts & kPartPayload) != 0) parts &= ~kPartSlice;  // which is in the payload
  if (parts == kPartNone) return;
  impl_ = std::make_unique<Impl>();
  impl_->parts = parts;
  impl_->is_part = content != Content::kWhole;
  const uint64_t unit = dtype.unit_bytes();
  if ((parts & kPartStats) != 0) impl_->statistics.emplace(dtype);
  if ((parts & kPartSlice) != 0) impl_->slice_section = DescribeSlice(keep.slice, sizes);
  if (impl_->is_part) return;
  if ((parts & kPartSample) != 0) impl_->sample.emplace(keep.sample, sizes, strides, unit);
  if ((parts & kPartSlice) != 0) impl_->slice.emplace(keep.slice, sizes, strides, unit);
}

PartsBuilder::~PartsBuilder() = default;
PartsBuilder::PartsBuilder(PartsBuilder&&) noexcept = default;
PartsBuilder& PartsBuilder::operator=(PartsBuilder&&) noexcept = default;

void PartsBuilder::Update(std::span<const std::byte> bytes) {
  if (impl_ == nullptr) return;
  if (impl_->is_part) impl_->part.insert(impl_->part.end(), bytes.begin(), bytes.end());
  if (impl_->statistics) impl_->statistics->Update(bytes);
  if (impl_->sample) impl_->sample->Update(bytes);
  if (impl_->slice) impl_->slice->Update(bytes);
}

ValueParts PartsBuilder::Finish() {
  ValueParts out;
  if (impl_ == nullptr) return out;
  if (impl_->statistics) out.statistics = ToSection(impl_->statistics->Finish());
  // Bytes that never came (a device made the statistics alone) leave the part out.
  if (impl_->sample && impl_->sample->complete())
    out.sample = SampleSection{impl_->sample->InOrder()};
  if (impl_->slice && impl_->slice->complete()) {
    out.slice = std::move(impl_->slice_section);
    out.slice_bytes = impl_->slice->TakePicked();
  }
  if (!impl_->is_part) return out;
  if ((impl_->parts & kPartSlice) != 0) {
    out.slice = std::move(impl_->slice_section);
    out.slice_bytes = std::move(impl_->part);
  } else {
    out.sample.emplace();
    const auto* units = reinterpret_cast<const uint8_t*>(impl_->part.data());
    out.sample->units.assign(units, units + impl_->part.size());
  }
  return out;
}

ValueParts PartsOf(const Keep& keep, Content content, const DType& dtype,
                   std::span<const int64_t> sizes, std::span<const int64_t> strides,
                   std::span<const std::byte> payload, const Statistics* given) {
  Keep wanted = keep;
  const bool ready = given != nullptr && (wanted.parts & kPartStats) != 0;
  if (ready) wanted.parts &= ~kPartStats;
  PartsBuilder builder(wanted, content, dtype, sizes, strides);
  builder.Update(payload);
  ValueParts parts = builder.Finish();
  if (ready) parts.statistics = ToSection(*given);
  return parts;
}

}  // namespace tdump::io
