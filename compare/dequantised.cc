#include "compare/dequantised.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "compare/element.h"
#include "compare/metrics.h"
#include "io/hash.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTile = 4096;            // elements decoded at a time
constexpr uint64_t kMostScales = 64 << 20;  // numbers kept for one tensor

// Of a record's subclass: "dequantised from NAME BITS, SCALES".
constexpr std::string_view kMark = "dequantised from ";

// What could be quantised: not wider than 8 bits, or a qint32.
bool MayBeQuantised(const io::Record& record) {
  if (!record.payload || record.layout != Layout::kStrided) return false;
  const NumberFormat format = FormatOf(record.dtype);
  if (format.is_bool || format.kind == NumberKind::kOpaque || format.kind == NumberKind::kComplex)
    return false;
  return format.bits <= 8 || record.dtype.view().starts_with("q");
}

bool IsWeight(Role role) { return role == Role::kParam || role == Role::kState; }

std::string Component(const std::string& arg, const char* name) {
  return arg.empty() ? name : arg + "." + name;
}

// All numbers of a small tensor.
Result<std::vector<double>> ReadNumbers(const StepView& view, const io::Record& record) {
  const NumberFormat format = FormatOf(record.dtype);
  if (!record.payload || format.kind == NumberKind::kOpaque ||
      format.kind == NumberKind::kComplex || record.numel() > kMostScales)
    return Status(StatusCode::kUnsupported, "scales without numbers");
  TDUMP_ASSIGN_OR_RETURN(ReadBytes read, view.Open(record));
  PayloadView payload(record, std::move(read), {});
  std::vector<std::byte> bytes(payload.units() * record.dtype.unit_bytes());
  TDUMP_RETURN_IF_ERROR(payload.Read(0, bytes));
  std::vector<double> numbers(payload.units() *
                              static_cast<uint64_t>(NumbersPerUnit(record.dtype, format)));
  DecodeFloat(record.dtype, format, bytes, numbers);
  return numbers;
}

// Equal for equal integers with equal scales.
io::Hash128 HashOf(const io::Hash128& integers, const std::vector<double>& scales,
                   const std::vector<double>& zero_points) {
  std::vector<std::byte> bytes(integers.size() +
                               (scales.size() + zero_points.size()) * sizeof(double));
  std::byte* at = bytes.data();
  const auto add = [&at](const void* from, size_t count) {
    if (count > 0) std::memcpy(at, from, count);
    at += count;
  };
  add(integers.data(), integers.size());
  add(scales.data(), scales.size() * sizeof(double));
  add(zero_points.data(), zero_points.size() * sizeof(double));
  return io::HashPayload(bytes);
}

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

std::optional<ScaleGrid> ScaleGrid::Fit(const std::vector<uint64_t>& tensor,
                                        const std::vector<uint64_t>& scales,
                                        std::optional<uint64_t> axis) {
  const uint64_t count =
      std::accumulate(scales.begin(), scales.end(), uint64_t{1}, std::multiplies<>());
  ScaleGrid grid;
  grid.sizes_ = tensor;
  grid.block_ = tensor;  // one block is everything
  for (uint64_t& block : grid.block_) block = std::max<uint64_t>(1, block);
  grid.step_.assign(tensor.size(), 0);
  grid.text_ = "per tensor";
  if (count == 1) return grid;
  if (count == 0 || tensor.empty()) return std::nullopt;
  std::vector<uint64_t> shape = scales;
  if (axis || shape.size() == 1) {
    const size_t first = axis.value_or(0);
    if (first >= tensor.size() || (axis && count != tensor[first])) return std::nullopt;
    size_t at = first;
    if (count != tensor[first]) at = tensor.size() - 1;
    if (count != tensor[at]) return std::nullopt;
    shape.assign(tensor.size(), 1);
    shape[at] = count;
    grid.text_ = fmt::format("per channel {}", at);
  }
  if (shape.size() != tensor.size()) return std::nullopt;
  uint64_t step = 1;
  for (size_t i = tensor.size(); i-- > 0;) {
    if (shape[i] == 0 || shape[i] > tensor[i]) return std::nullopt;
    grid.block_[i] = (tensor[i] + shape[i] - 1) / shape[i];
    if ((tensor[i] + grid.block_[i] - 1) / grid.block_[i] != shape[i]) return std::nullopt;
    if (shape[i] > 1) grid.step_[i] = step;
    step *= shape[i];
  }
  if (grid.text_ == "per tensor")
    grid.text_ = fmt::format("in blocks of [{}]", fmt::join(grid.block_, ", "));
  return grid;
}

void ScaleGrid::Indices(uint64_t first, std::span<uint64_t> indices) const {
  std::vector<uint64_t> at(sizes_.size(), 0);
  for (size_t i = sizes_.size(); i-- > 0;) {
    at[i] = first % std::max<uint64_t>(1, sizes_[i]);
    first /= std::max<uint64_t>(1, sizes_[i]);
  }
  for (uint64_t& index : indices) {
    index = 0;
    for (size_t i = 0; i < at.size(); ++i) index += at[i] / block_[i] * step_[i];
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < sizes_[i]) break;
      at[i] = 0;
    }
  }
}

Result<std::unique_ptr<StepView>> DequantisedView::Wrap(std::unique_ptr<StepView> view) {
  std::unique_ptr<DequantisedView> wrapped(new DequantisedView(std::move(view)));
  TDUMP_RETURN_IF_ERROR(wrapped->FindAll());
  if (wrapped->quantised_.empty()) return std::move(wrapped->view_);
  return std::unique_ptr<StepView>(std::move(wrapped));
}

Status DequantisedView::FindAll() {
  std::vector<io::Record> wanted;
  TDUMP_RETURN_IF_ERROR(view_->ForEachTensor([&](const io::Record& record) {
    if (MayBeQuantised(record)) wanted.push_back(record);
    return true;
  }));
  if (wanted.empty()) return {};
  std::map<std::string, uint64_t> ids;  // by key: what may hold scales
  TDUMP_RETURN_IF_ERROR(view_->ForEachTensor([&](const io::Record& record) {
    const std::string& arg = record.key.arg;
    const bool named = arg.ends_with("scales") || arg.ends_with("zero_points") ||
                       arg.ends_with("axis") || arg.ends_with("_scale") ||
                       arg.ends_with("_scale_inv") || arg.ends_with(".scale");
    if (named && record.payload) ids.emplace(ToText(record.key), record.id);
    return true;
  }));
  const auto find = [&](const io::Record& record, const std::string& arg,
                        Role role) -> std::optional<uint64_t> {
    Key key = record.key;
    key.arg = arg;
    key.role = role;
    const auto found = ids.find(ToText(key));
    return found == ids.end() ? std::nullopt : std::optional(found->second);
  };
  for (const io::Record& record : wanted) {
    const std::string& arg = record.key.arg;
    std::optional<uint64_t> scales = find(record, Component(arg, "scales"), record.key.role);
    if (!scales && IsWeight(record.key.role)) {
      for (const Role role : {Role::kParam, Role::kState}) {
        for (const char* suffix : {"_scale", "_scale_inv", ".scale"}) {
          if (!scales) scales = find(record, arg + suffix, role);
        }
      }
    }
    if (!scales) continue;
    std::vector<uint64_t> used = {*scales};
    const auto numbers = [&](uint64_t id) -> Result<std::vector<double>> {
      TDUMP_ASSIGN_OR_RETURN(const io::Record of, view_->Get(id));
      return ReadNumbers(*view_, of);
    };
    const auto values = numbers(*scales);
    if (!values.ok()) continue;  // a damaged scale is told where it is compared itself
    Quantised quantised;
    quantised.dtype = record.dtype;
    quantised.scales = *values;
    std::optional<uint64_t> axis;
    if (const auto id = find(record, Component(arg, "axis"), record.key.role)) {
      const auto value = numbers(*id);
      if (!value.ok() || value->size() != 1 || !((*value)[0] >= 0 && (*value)[0] < 64)) continue;
      axis = static_cast<uint64_t>((*value)[0]);
      used.push_back(*id);
    }
    if (const auto id = find(record, Component(arg, "zero_points"), record.key.role)) {
      const auto value = numbers(*id);
      if (!value.ok() || (value->size() != 1 && value->size() != quantised.scales.size())) continue;
      quantised.zero_points = *value;
      used.push_back(*id);
    }
    TDUMP_ASSIGN_OR_RETURN(const io::Record of, view_->Get(*scales));
    const auto grid = ScaleGrid::Fit(ElementShape(record), ElementShape(of), axis);
    if (!grid) continue;
    quantised.grid = *grid;
    if (record.hash) quantised.hash = HashOf(*record.hash, quantised.scales, quantised.zero_points);
    quantised_.emplace(record.id, std::move(quantised));
    taken_.insert(used.begin(), used.end());
  }
  return {};
}

namespace {

// As the numbers it stands for: contiguous, and without what was kept of the integers.
io::Record AsFloat(io::Record record, const std::optional<io::Hash128>& hash,
                   const std::string& scales) {
  const std::vector<uint64_t> shape = ElementShape(record);
  record.subclass =
      fmt::format("{}{} {}, {}", kMark, record.dtype.view(), record.dtype.bits_per_element, scales);
  record.dtype = MakeDType("float32", 32);
  record.sizes.assign(shape.begin(), shape.end());
  record.strides = ContiguousStrides(record.sizes);
  record.hash = hash;
  record.tile_digests.clear();
  record.statistics.reset();
  record.sample.reset();
  record.slice.reset();
  const uint64_t bytes = record.numel() * sizeof(float);
  record.payload = io::PayloadRef{.stored_bytes = bytes, .logical_bytes = bytes};
  return record;
}

}  // namespace

Status DequantisedView::ForEachTensor(const VisitTensor& visit) const {
  return view_->ForEachTensor([&](const io::Record& record) {
    if (taken_.contains(record.id)) return true;
    const auto found = quantised_.find(record.id);
    return visit(found == quantised_.end()
                     ? record
                     : AsFloat(record, found->second.hash, found->second.grid.text()));
  });
}

Result<io::Record> DequantisedView::Get(uint64_t id) const {
  TDUMP_ASSIGN_OR_RETURN(io::Record record, view_->Get(id));
  const auto found = quantised_.find(id);
  return found == quantised_.end()
             ? std::move(record)
             : AsFloat(std::move(record), found->second.hash, found->second.grid.text());
}

Result<ReadBytes> DequantisedView::Open(const io::Record& record) const {
  const auto found = quantised_.find(record.id);
  if (found == quantised_.end()) return view_->Open(record);
  // The reader refers to the record of the integers, which must stay where it is.
  struct State {
    io::Record record;
    std::unique_ptr<PayloadView> payload;
    uint64_t per_unit = 1;
    NumberFormat format;
    std::vector<std::byte> units;
    std::vector<double> numbers;
    std::vector<uint64_t> scale;
    std::vector<float> tile;
    uint64_t first = 0;  // element of the tile
  };
  auto state = std::make_shared<State>();
  TDUMP_ASSIGN_OR_RETURN(state->record, view_->Get(record.id));
  TDUMP_ASSIGN_OR_RETURN(ReadBytes read, view_->Open(state->record));
  state->payload =
      std::make_unique<PayloadView>(state->record, std::move(read), std::vector<bool>());
  state->format = FormatOf(state->record.dtype);
  state->per_unit = std::max<uint64_t>(1, state->record.dtype.elements_per_unit);
  const Quantised* quantised = &found->second;
  const auto load = [state, quantised](uint64_t element) -> Status {
    State& s = *state;
    const uint64_t all = s.payload->units() * s.per_unit;
    if (element >= all) return Corrupt("payload is shorter than its shape needs");
    s.first = element / kTile * kTile;  // a multiple of what a unit holds
    const uint64_t count = std::min(kTile, all - s.first);
    s.units.resize(count / s.per_unit * s.record.dtype.unit_bytes());
    s.tile.clear();
    TDUMP_RETURN_IF_ERROR(s.payload->Read(s.first / s.per_unit, s.units));
    s.numbers.resize(count);
    DecodeFloat(s.record.dtype, s.format, s.units, s.numbers);
    s.scale.resize(count);
    quantised->grid.Indices(s.first, s.scale);
    s.tile.resize(count);
    for (uint64_t i = 0; i < count; ++i) {
      const std::vector<double>& zeros = quantised->zero_points;
      const double zero = zeros.empty() ? 0 : zeros.size() == 1 ? zeros[0] : zeros[s.scale[i]];
      s.tile[i] = static_cast<float>((s.numbers[i] - zero) * quantised->scales[s.scale[i]]);
    }
    return {};
  };
  return ReadBytes([state, load](uint64_t offset, std::span<std::byte> out) -> Status {
    while (!out.empty()) {
      const uint64_t element = offset / sizeof(float);
      if (element < state->first || element >= state->first + state->tile.size())
        TDUMP_RETURN_IF_ERROR(load(element));
      const uint64_t at = offset - state->first * sizeof(float);
      const uint64_t count =
          std::min<uint64_t>(out.size(), state->tile.size() * sizeof(float) - at);
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(state->tile.data()) + at, count);
      out = out.subspan(count);
      offset += count;
    }
    return {};
  });
}

}  // namespace tdump::compare
