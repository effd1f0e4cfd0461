#include "compare/find_scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "compare/element.h"
#include "compare/metrics.h"
#include "compare/roles.h"
#include "io/hash.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kMostScales = 64 << 20;             // numbers kept for one tensor
constexpr uint64_t kMostRepeats = 64;                  // of a scale that is stored once
constexpr uint64_t kMostElements = uint64_t{1} << 48;  // of a tensor: as floats it has more bytes

// All numbers of a small tensor.
Result<std::vector<double>> ReadNumbers(const StepView& view, const io::Record& record) {
  const NumberFormat format = FormatOf(record.dtype);
  if (!record.payload || format.kind == NumberKind::kOpaque ||
      format.kind == NumberKind::kComplex || record.numel() > kMostScales ||
      record.numel() / kMostRepeats > record.payload->logical_bytes)
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

Key Beside(Key key, std::string arg, Role role) {
  key.arg = std::move(arg);
  key.role = role;
  return key;
}
Key ComponentKey(const Key& key, const char* name) {
  return Beside(key, key.arg.empty() ? name : key.arg + "." + name, key.role);
}

double Largest(const std::vector<double>& scales) {
  double largest = 0;
  for (const double scale : scales) {
    if (!std::isfinite(scale)) return scale;
    largest = std::max(largest, std::abs(scale));
  }
  return largest;
}

class Finder {
 public:
  explicit Finder(const StepView& view) : view_(view) {}

  Result<QuantisedTensors> Run() {
    std::vector<io::Record> wanted;
    TDUMP_RETURN_IF_ERROR(view_.ForEachTensor([&](const io::Record& record) {
      if (MayBeQuantised(record)) wanted.push_back(record);
      return true;
    }));
    QuantisedTensors found;
    if (wanted.empty()) return found;
    TDUMP_RETURN_IF_ERROR(view_.ForEachTensor([&](const io::Record& record) {
      if (record.payload && IsOfScales(record.key.arg)) ids_.emplace(ToText(record.key), record.id);
      return true;
    }));
    for (const io::Record& record : wanted) {
      if (auto quantised = Of(record)) found.tensors.emplace(record.id, std::move(*quantised));
    }
    return found;
  }

 private:
  std::optional<uint64_t> Find(const Key& key) const {
    const auto found = ids_.find(ToText(key));
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<uint64_t> Component(const Key& key, const char* name) const {
    return Find(ComponentKey(key, name));
  }
  std::optional<uint64_t> ScalesOf(const Key& key) const {
    for (const Key& scales : ScaleKeys(key)) {
      if (const auto id = Find(scales)) return id;
    }
    return std::nullopt;
  }

  // None where it has no scales that fit. A damaged one is told where it is compared itself.
  std::optional<Quantised> Of(const io::Record& record) const {
    const auto id = ScalesOf(record.key);
    if (!id) return std::nullopt;
    const auto scales = view_.Get(*id);
    if (!scales.ok()) return std::nullopt;
    auto numbers = ReadNumbers(view_, *scales);
    if (!numbers.ok()) return std::nullopt;
    Quantised quantised;
    quantised.scales = std::move(*numbers);
    quantised.largest_scale = Largest(quantised.scales);
    quantised.used.push_back(*id);
    std::optional<uint64_t> axis;
    if (const auto at = Component(record.key, "axis")) {
      const auto value = NumbersOf(*at);
      if (!value.ok() || value->size() != 1 || !((*value)[0] >= 0 && (*value)[0] < 64))
        return std::nullopt;
      axis = static_cast<uint64_t>((*value)[0]);
      quantised.used.push_back(*at);
    }
    if (const auto at = Component(record.key, "zero_points")) {
      auto zeros = NumbersOf(*at);
      if (!zeros.ok() || (zeros->size() != 1 && zeros->size() != quantised.scales.size()))
        return std::nullopt;
      quantised.zero_points = std::move(*zeros);
      quantised.used.push_back(*at);
    }
    const auto grid = ScaleGrid::Fit(ElementShape(record), ElementShape(*scales), axis);
    if (!grid) return std::nullopt;
    quantised.grid = *grid;
    if (record.hash) quantised.hash = HashOf(*record.hash, quantised.scales, quantised.zero_points);
    return quantised;
  }

  Result<std::vector<double>> NumbersOf(uint64_t id) const {
    TDUMP_ASSIGN_OR_RETURN(const io::Record record, view_.Get(id));
    return ReadNumbers(view_, record);
  }

  const StepView& view_;
  std::map<std::string, uint64_t> ids_;  // by key: what may hold scales
};

}  // namespace

std::set<uint64_t> QuantisedTensors::used() const {
  std::set<uint64_t> ids;
  for (const auto& [id, quantised] : tensors)
    ids.insert(quantised.used.begin(), quantised.used.end());
  return ids;
}

bool MayBeQuantised(const io::Record& record) {
  if (!record.payload || record.layout != Layout::kStrided || record.numel() > kMostElements)
    return false;
  const NumberFormat format = FormatOf(record.dtype);
  if (format.is_bool || format.kind == NumberKind::kOpaque || format.kind == NumberKind::kComplex)
    return false;
  return format.bits <= 8 || record.dtype.view().starts_with("q");
}

bool IsOfScales(std::string_view arg) {
  for (const char* end : {"scales", "zero_points", "axis", "_scale", "_scale_inv", ".scale"}) {
    if (arg.ends_with(end)) return true;
  }
  return false;
}

std::vector<Key> ScaleKeys(const Key& tensor) {
  std::vector<Key> keys = {ComponentKey(tensor, "scales")};
  if (!IsWeight(tensor.role)) return keys;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const char* suffix : {"_scale", "_scale_inv", ".scale"})
      keys.push_back(Beside(tensor, tensor.arg + suffix, role));
  }
  return keys;
}

Result<QuantisedTensors> FindQuantised(const StepView& view) { return Finder(view).Run(); }

}  // namespace tdump::compare
