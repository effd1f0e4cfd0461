#include "compare/token_ids.h"

#include <cstddef>
#include <utility>

#include "compare/element.h"
#include "compare/payload_view.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kMostIntegers = uint64_t{1} << 23;  // that are read

}  // namespace

bool IsOfIntegers(const DType& dtype) {
  const NumberFormat format = FormatOf(dtype);
  return format.kind == NumberKind::kInteger && !format.is_bool;
}

std::vector<__int128> IntegersOf(const StepView& view, const io::Record& record) {
  if (!record.payload || record.numel() > kMostIntegers) return {};
  auto read = view.Open(record);
  if (!read.ok()) return {};
  PayloadView payload(record, std::move(*read), {});
  std::vector<std::byte> bytes(payload.units() * record.dtype.unit_bytes());
  if (!payload.Read(0, bytes).ok()) return {};
  const NumberFormat format = FormatOf(record.dtype);
  std::vector<__int128> numbers(payload.units() *
                                static_cast<uint64_t>(NumbersPerUnit(record.dtype, format)));
  DecodeInteger(record.dtype, format, bytes, numbers);
  return numbers;
}

bool AreEqualIntegers(const StepView& view_a, const io::Record& a, const StepView& view_b,
                      const io::Record& b) {
  if (!IsOfIntegers(a.dtype) || !IsOfIntegers(b.dtype) || a.numel() != b.numel()) return false;
  const std::vector<__int128> of_a = IntegersOf(view_a, a);
  return !of_a.empty() && of_a == IntegersOf(view_b, b);
}

}  // namespace tdump::compare
