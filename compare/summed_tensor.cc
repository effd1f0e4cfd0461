#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compare/element.h"
#include "compare/encode.h"
#include "compare/tensor_source.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileBytes = 64 * 1024;

bool CanBeSummed(const DType& dtype) {
  const NumberFormat format = FormatOf(dtype);
  return format.kind != NumberKind::kOpaque && format.specials != Specials::kScale;
}

}  // namespace

Result<Source> SummedTensor::Make(std::vector<Source> sources, uint64_t divisor) {
  if (sources.empty()) return InvalidArgument("no summand was given");
  const TensorSource& first = *sources.front();
  if (!CanBeSummed(first.dtype()))
    return InvalidArgument(
        fmt::format("partial results of dtype {} cannot be summed", first.dtype().view()));
  if (divisor != 1 && FormatOf(first.dtype()).kind == NumberKind::kInteger)
    return InvalidArgument(fmt::format("the mean of partial results of dtype {}: of floats only",
                                       first.dtype().view()));
  for (const Source& source : sources) {
    if (source->dtype() != first.dtype())
      return InvalidArgument(fmt::format("partial results of different dtypes: {} and {}",
                                         first.dtype().view(), source->dtype().view()));
    if (source->shape() != first.shape())
      return InvalidArgument(fmt::format("partial results of different shapes: [{}] and [{}]",
                                         fmt::join(first.shape(), ", "),
                                         fmt::join(source->shape(), ", ")));
  }
  return Source(new SummedTensor(std::move(sources), divisor));
}

SummedTensor::SummedTensor(std::vector<Source> sources, uint64_t divisor)
    : TensorSource(sources.front()->dtype(), sources.front()->shape()),
      sources_(std::move(sources)),
      divisor_(divisor) {}

Status SummedTensor::Read(uint64_t first, std::span<std::byte> out) {
  const uint64_t unit_bytes = dtype().unit_bytes();
  while (!out.empty()) {
    const uint64_t units =
        std::min<uint64_t>(out.size() / unit_bytes, std::max<uint64_t>(1, kTileBytes / unit_bytes));
    TDUMP_RETURN_IF_ERROR(ReadTile(first, out.first(units * unit_bytes)));
    out = out.subspan(units * unit_bytes);
    first += units;
  }
  return {};
}

Status SummedTensor::ReadTile(uint64_t first, std::span<std::byte> out) {
  const NumberFormat format = FormatOf(dtype());
  const bool exact = format.kind == NumberKind::kInteger;
  const size_t count =
      out.size() / dtype().unit_bytes() * static_cast<size_t>(NumbersPerUnit(dtype(), format));
  bytes_.resize(out.size());
  sums_.assign(exact ? 0 : count, -0.0);  // the sum of zeros keeps their sign
  numbers_.resize(exact ? 0 : count);
  integer_sums_.assign(exact ? count : 0, 0);
  integers_.resize(exact ? count : 0);
  for (const Source& source : sources_) {
    TDUMP_RETURN_IF_ERROR(source->Read(first, bytes_));
    if (exact) {
      DecodeInteger(dtype(), format, bytes_, integers_);
      for (size_t i = 0; i < count; ++i) integer_sums_[i] += integers_[i];
    } else {
      DecodeFloat(dtype(), format, bytes_, numbers_);
      for (size_t i = 0; i < count; ++i) sums_[i] += numbers_[i];
    }
  }
  if (divisor_ != 1) {
    for (double& sum : sums_) sum /= static_cast<double>(divisor_);
  }
  if (exact)
    EncodeInteger(dtype(), format, integer_sums_, out);
  else
    EncodeFloat(dtype(), format, sums_, out);
  return {};
}

}  // namespace tdump::compare
