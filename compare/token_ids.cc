#include "compare/token_ids.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "compare/element.h"
#include "compare/payload_view.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kMostIntegers = uint64_t{1} << 23;  // that are read
constexpr size_t kWindow = 4096;                       // integers; a multiple of those in a unit

// The integers of a record, in order, a window at a time.
class Integers {
 public:
  // Nothing where they were not kept in full, or cannot be read.
  static std::optional<Integers> Open(const StepView& view, const io::Record& record) {
    if (!record.payload || record.numel() > kMostIntegers) return std::nullopt;
    auto read = view.Open(record);
    if (!read.ok()) return std::nullopt;
    return Integers(record, *std::move(read));
  }

  uint64_t count() const { return payload_.units() * per_unit_; }

  // At most kWindow, from the multiple of it `first` on; empty where they cannot be read.
  std::span<const __int128> Read(uint64_t first) {
    const uint64_t units = std::min<uint64_t>(kWindow, count() - first) / per_unit_;
    bytes_.resize(units * dtype_.unit_bytes());
    if (!payload_.Read(first / per_unit_, bytes_).ok()) return {};
    numbers_.resize(units * per_unit_);
    DecodeInteger(dtype_, format_, bytes_, numbers_);
    return numbers_;
  }

 private:
  Integers(const io::Record& record, ReadBytes read)
      : dtype_(record.dtype),
        format_(FormatOf(record.dtype)),
        per_unit_(static_cast<uint64_t>(NumbersPerUnit(record.dtype, format_))),
        payload_(record, std::move(read), {}) {}

  DType dtype_;
  NumberFormat format_;
  uint64_t per_unit_;
  PayloadView payload_;
  std::vector<std::byte> bytes_;
  std::vector<__int128> numbers_;
};

}  // namespace

bool IsOfIntegers(const DType& dtype) {
  const NumberFormat format = FormatOf(dtype);
  return format.kind == NumberKind::kInteger && !format.is_bool;
}

std::vector<int64_t> IntegersOf(const StepView& view, const io::Record& record) {
  auto integers = Integers::Open(view, record);
  if (!integers) return {};
  std::vector<int64_t> all;
  while (all.size() < integers->count()) {
    const auto window = integers->Read(all.size());
    if (window.empty()) return {};
    all.insert(all.end(), window.begin(), window.end());
  }
  return all;
}

bool AreEqualIntegers(const StepView& view_a, const io::Record& a, const StepView& view_b,
                      const io::Record& b) {
  if (!IsOfIntegers(a.dtype) || !IsOfIntegers(b.dtype) || a.numel() != b.numel()) return false;
  auto of_a = Integers::Open(view_a, a), of_b = Integers::Open(view_b, b);
  if (!of_a || !of_b || of_a->count() == 0 || of_a->count() != of_b->count()) return false;
  for (uint64_t first = 0; first < of_a->count(); first += kWindow) {
    const auto left = of_a->Read(first), right = of_b->Read(first);
    if (left.empty() || !std::equal(left.begin(), left.end(), right.begin(), right.end()))
      return false;
  }
  return true;
}

}  // namespace tdump::compare
