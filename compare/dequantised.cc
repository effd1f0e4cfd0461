#include "compare/dequantised.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "compare/element.h"
#include "compare/metrics.h"
#include "compare/pair_side.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;  // decoded at a time

// Of a record's subclass: "dequantised from NAME BITS LARGEST_SCALE, SCALES".
constexpr std::string_view kMark = "dequantised from ";

// As the numbers it stands for: contiguous, and without what was kept of the integers.
io::Record AsFloat(io::Record record, const Quantised& quantised) {
  const std::vector<uint64_t> shape = ElementShape(record);
  record.subclass =
      fmt::format("{}{} {} {}, {}", kMark, record.dtype.view(), record.dtype.bits_per_element,
                  quantised.largest_scale, quantised.grid.text());
  record.dtype = MakeDType("float32", 32);
  record.sizes.assign(shape.begin(), shape.end());
  record.strides = ContiguousStrides(record.sizes);
  record.hash = quantised.hash;
  record.tile_digests.clear();
  record.statistics.reset();
  record.sample.reset();
  record.slice.reset();
  const uint64_t bytes = record.numel() * sizeof(float);
  record.payload = io::PayloadRef{.stored_bytes = bytes, .logical_bytes = bytes};
  return record;
}

double LargestScale(const io::Record& record) {
  std::string_view text = record.subclass;
  if (!text.starts_with(kMark)) return 0;
  text = text.substr(kMark.size(), text.find(',') - kMark.size());
  return std::atof(std::string(text.substr(text.rfind(' ') + 1)).c_str());
}

double RoundoffOf(const Precision& precision) {
  return std::max(precision.operands, precision.others);
}

// The coarser of the two words.
std::string_view IntegerPrecision(const io::Record& a, const io::Record& b) {
  const std::string_view left = compare::IntegerPrecision(a), right = compare::IntegerPrecision(b);
  return left == "int4" || right.empty() ? left : right;
}

// A tensor as float32, decoded a tile at a time. For one thread at a time.
class FloatReader {
 public:
  // `record`: as captured. `quantised` outlives the reader.
  FloatReader(io::Record record, ReadBytes read, const Quantised& quantised)
      : record_(std::move(record)), stored_(record_, std::move(read), {}), quantised_(quantised) {}
  FloatReader(const FloatReader&) = delete;
  FloatReader& operator=(const FloatReader&) = delete;

  // Bytes from `offset` on.
  Status Read(uint64_t offset, std::span<std::byte> out) {
    while (!out.empty()) {
      const uint64_t element = offset / sizeof(float);
      if (element < first_ || element >= first_ + tile_.size())
        TDUMP_RETURN_IF_ERROR(Load(element));
      const std::span<const std::byte> bytes = std::as_bytes(std::span(tile_));
      const uint64_t at = offset - first_ * sizeof(float);
      const uint64_t count = std::min<uint64_t>(out.size(), bytes.size() - at);
      std::memcpy(out.data(), bytes.data() + at, count);
      out = out.subspan(count);
      offset += count;
    }
    return {};
  }

 private:
  // The tile that holds an element.
  Status Load(uint64_t element) {
    if (element >= stored_.elements()) return Corrupt("payload is shorter than its shape needs");
    first_ = element / kTileElements * kTileElements;  // a multiple of what a unit holds
    const uint64_t count = std::min(kTileElements, stored_.elements() - first_);
    tile_.clear();
    TDUMP_RETURN_IF_ERROR(stored_.Load(first_, count));
    const std::span<const double> numbers = stored_.Floats(0, count);
    scale_of_.resize(count);
    quantised_.grid.Indices(first_, scale_of_);
    const std::vector<double>& zeros = quantised_.zero_points;
    tile_.resize(count);
    for (uint64_t i = 0; i < count; ++i) {
      const double zero = zeros.empty() ? 0 : zeros.size() == 1 ? zeros[0] : zeros[scale_of_[i]];
      tile_[i] = static_cast<float>((numbers[i] - zero) * quantised_.scales[scale_of_[i]]);
    }
    return {};
  }

  const io::Record record_;
  PairSide stored_;
  const Quantised& quantised_;
  std::vector<uint64_t> scale_of_;  // each element of the tile
  std::vector<float> tile_;
  uint64_t first_ = 0;  // element of the tile
};

}  // namespace

DType RecordedDType(const io::Record& record) {
  std::string_view text = record.subclass;
  if (!text.starts_with(kMark)) return record.dtype;
  text.remove_prefix(kMark.size());
  const size_t name = text.find(' '), bits = text.find(',');
  if (name == std::string_view::npos || bits == std::string_view::npos || bits < name)
    return record.dtype;
  return MakeDType(text.substr(0, name), std::atoi(std::string(text.substr(name)).c_str()));
}

std::string DequantisedText(const io::Record& record) {
  const std::string_view text = record.subclass;
  if (!text.starts_with(kMark)) return "";
  const size_t comma = text.find(',');
  return fmt::format("{}{}{}", kMark, RecordedDType(record).view(),
                     comma == std::string_view::npos ? "" : text.substr(comma));
}

DType NumberDType(const io::Record& record) {
  const DType recorded = RecordedDType(record);
  return FormatOf(recorded).UnitRoundoff() > 0 ? recorded : record.dtype;
}

std::string_view IntegerPrecision(const io::Record& record) {
  const DType recorded = RecordedDType(record);
  const NumberFormat format = FormatOf(recorded);
  if (recorded == record.dtype || format.kind != NumberKind::kInteger || format.bits > 8) return "";
  return format.bits == 8 ? "int8" : "int4";
}

double HalfStep(const io::Record& a, const io::Record& b) {
  if (RecordedDType(a) == RecordedDType(b)) return 0;
  double steps = 0;
  for (const io::Record* record : {&a, &b})
    if (!IntegerPrecision(*record).empty()) steps += LargestScale(*record);
  return std::isfinite(steps) ? steps / 2 : 0;
}

std::string_view PrecisionFor(const io::Record& a, const io::Record& b) {
  const std::string_view floats = PrecisionFor(NumberDType(a), NumberDType(b));
  const std::string_view integers = IntegerPrecision(a, b);
  if (floats.empty() || integers.empty()) return floats;
  const bool is_coarser =
      RoundoffOf(*ParsePrecision(integers)) >= RoundoffOf(*ParsePrecision(floats));
  return is_coarser ? integers : floats;
}

bool Explains(const Precision& precision, const io::Record& a, const io::Record& b) {
  if (!Explains(precision, NumberDType(a), NumberDType(b))) return false;
  const std::string_view integers = IntegerPrecision(a, b);
  return integers.empty() || RoundoffOf(precision) >= RoundoffOf(*ParsePrecision(integers));
}

Precision ResultPrecision(const Precision* given, const io::Record& a, const io::Record& b) {
  Precision precision = given == nullptr ? Precision{} : *given;
  if (const std::string_view integers = IntegerPrecision(a, b); !integers.empty())
    precision.others = std::max(precision.others, ParsePrecision(integers)->operands);
  return precision;
}

Result<std::unique_ptr<StepView>> DequantisedView::Wrap(std::unique_ptr<StepView> view) {
  TDUMP_ASSIGN_OR_RETURN(QuantisedTensors quantised, FindQuantised(*view));
  if (quantised.tensors.empty()) return view;
  return std::unique_ptr<StepView>(new DequantisedView(std::move(view), std::move(quantised)));
}

const Quantised* DequantisedView::Find(uint64_t id) const {
  const auto found = quantised_.tensors.find(id);
  return found == quantised_.tensors.end() ? nullptr : &found->second;
}

void DequantisedView::ShowStored(const std::function<bool(const io::Record& stored)>& picks) {
  std::erase_if(quantised_.tensors, [&](const auto& quantised) {
    const auto stored = view().Get(quantised.first);
    return stored.ok() && picks(*stored);
  });
  hidden_ = quantised_.used();
}

Status DequantisedView::ForEachTensor(const VisitTensor& visit) const {
  return view().ForEachTensor([&](const io::Record& record) {
    if (hidden_.contains(record.id)) return true;
    const Quantised* quantised = Find(record.id);
    return quantised == nullptr ? visit(record) : visit(AsFloat(record, *quantised));
  });
}

Result<io::Record> DequantisedView::Get(uint64_t id) const {
  TDUMP_ASSIGN_OR_RETURN(io::Record record, view().Get(id));
  const Quantised* quantised = Find(id);
  return quantised == nullptr ? std::move(record) : AsFloat(std::move(record), *quantised);
}

Result<ReadBytes> DequantisedView::Open(const io::Record& record) const {
  const Quantised* quantised = Find(record.id);
  if (quantised == nullptr) return view().Open(record);
  TDUMP_ASSIGN_OR_RETURN(io::Record found, view().Get(record.id));
  // What reads its bytes may refer to it.
  const auto stored = std::make_shared<const io::Record>(std::move(found));
  TDUMP_ASSIGN_OR_RETURN(ReadBytes read, view().Open(*stored));
  auto reader = std::make_shared<FloatReader>(*stored, std::move(read), *quantised);
  return ReadBytes([stored, reader = std::move(reader)](uint64_t offset, std::span<std::byte> out) {
    return reader->Read(offset, out);
  });
}

}  // namespace tdump::compare
