#include "compare/tensor_source.h"

#include <mutex>

namespace tdump::compare {
namespace {

uint64_t UnitsOrZero(const Shape& shape) {
  uint64_t units = 0;
  return UnitsOf(shape, &units) ? units : 0;
}

Shape ShapeOf(const io::Record& record) { return Shape(record.sizes.begin(), record.sizes.end()); }

class RecordSource : public TensorSource {
 public:
  RecordSource(const io::Record& record, ReadBytes read)
      : TensorSource(record.dtype, ShapeOf(record)), view_(record, std::move(read), {}) {}
  Status Read(uint64_t first, std::span<std::byte> out) override { return view_.Read(first, out); }

 private:
  PayloadView view_;
};

class ReshapedSource : public TensorSource {
 public:
  ReshapedSource(Source source, Shape shape)
      : TensorSource(source->dtype(), std::move(shape)), source_(std::move(source)) {}
  Status Read(uint64_t first, std::span<std::byte> out) override {
    return source_->Read(first, out);
  }

 private:
  Source source_;
};

// A source that several threads read in turn.
struct Shared {
  explicit Shared(Source the_source) : source(std::move(the_source)) {}
  std::mutex mutex;
  Source source;
  std::vector<std::byte> units;

  Status Read(uint64_t offset, std::span<std::byte> out) {
    const std::lock_guard lock(mutex);
    const uint64_t unit_bytes = source->dtype().unit_bytes();
    const uint64_t bytes = source->units() * unit_bytes;
    if (offset > bytes || out.size() > bytes - offset)
      return InvalidArgument("a read beyond the end of the tensor");
    if (offset % unit_bytes == 0 && out.size() % unit_bytes == 0)
      return source->Read(offset / unit_bytes, out);
    const uint64_t first = offset / unit_bytes;
    const uint64_t end = (offset + out.size() + unit_bytes - 1) / unit_bytes;
    units.resize((end - first) * unit_bytes);
    TDUMP_RETURN_IF_ERROR(source->Read(first, units));
    std::copy_n(units.begin() + static_cast<ptrdiff_t>(offset - first * unit_bytes), out.size(),
                out.begin());
    return {};
  }
};

}  // namespace

bool UnitsOf(const Shape& shape, uint64_t* units) {
  *units = 1;
  bool fits = true;
  for (const uint64_t size : shape) {
    if (size == 0) {
      *units = 0;
      return true;
    }
    fits = fits && !__builtin_mul_overflow(*units, size, units);
  }
  return fits;
}

void IndexOf(uint64_t unit, const Shape& shape, Shape* index) {
  for (size_t i = shape.size(); i-- > 0; unit /= shape[i]) (*index)[i] = unit % shape[i];
}

uint64_t UnitAt(std::span<const uint64_t> index, const Shape& shape) {
  uint64_t unit = 0;
  for (size_t i = 0; i < shape.size(); ++i) unit = unit * shape[i] + index[i];
  return unit;
}

TensorSource::TensorSource(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), units_(UnitsOrZero(shape_)) {}

Source SourceOf(const io::Record& record, ReadBytes read) {
  return std::make_shared<RecordSource>(record, std::move(read));
}

ReadBytes BytesOf(Source source) {
  auto shared = std::make_shared<Shared>(std::move(source));
  return [shared](uint64_t offset, std::span<std::byte> out) { return shared->Read(offset, out); };
}

Source Reshaped(Source source, Shape shape) {
  if (source->shape() == shape) return source;
  return std::make_shared<ReshapedSource>(std::move(source), std::move(shape));
}

}  // namespace tdump::compare
