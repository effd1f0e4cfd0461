#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "compare/box_grid.h"
#include "compare/read_ahead.h"
#include "compare/tensor_source.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kReadAheadBytes = 64 << 20;  // of all sources
constexpr uint64_t kMostAhead = 256 * 1024, kLeastAhead = 16 * 1024;
// Of a window: the least where reads jump; it doubles as long as windows follow each other.
constexpr uint64_t kLeastWindow = 256 * 1024, kMostWindow = 16 << 20;
constexpr uint64_t kRows = 32;  // that are transposed together
// Pieces shorter than this are not copied one by one.
constexpr uint64_t kShortRunBytes = 64;

Status CheckBox(const Shape& shape, const std::vector<Source>& sources, const Box& box) {
  if (box.begin.size() != shape.size() || box.size.size() != shape.size() ||
      box.stride.size() != shape.size() || box.source >= sources.size())
    return InvalidArgument("a piece has another number of dimensions than the tensor");
  if (std::find(box.size.begin(), box.size.end(), 0u) != box.size.end()) return {};
  const TensorSource& source = *sources[box.source];
  uint64_t last = box.offset;
  bool inside = true;
  for (size_t i = 0; i < shape.size(); ++i) {
    uint64_t reach = 0;
    inside = inside && !__builtin_mul_overflow(box.size[i] - 1, box.stride[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
  }
  if (inside && last < source.units()) return {};
  return InvalidArgument(fmt::format("a piece of size [{}] reaches beyond its shard, which is [{}]",
                                     fmt::join(box.size, ", "), fmt::join(source.shape(), ", ")));
}

Status CheckSources(const std::vector<Source>& sources) {
  if (sources.empty()) return InvalidArgument("no shard was given");
  for (const Source& source : sources) {
    if (source->dtype() != sources.front()->dtype())
      return InvalidArgument(fmt::format("shards of different dtypes: {} and {}",
                                         sources.front()->dtype().view(), source->dtype().view()));
  }
  return {};
}

// From which dimension on the units of a box follow each other in the tensor and in the source.
size_t InnerOf(const Shape& shape, const Box& box) {
  size_t inner = shape.size();
  uint64_t step = 1;
  while (inner > 0 && (box.stride[inner - 1] == step || box.size[inner - 1] == 1)) {
    --inner;
    step *= box.size[inner];
    if (box.size[inner] != shape[inner]) break;
  }
  return inner;
}

uint64_t ProductFrom(const Shape& sizes, size_t dim) {
  uint64_t product = 1;
  for (size_t i = dim; i < sizes.size(); ++i) product *= sizes[i];
  return product;
}

// `rows` runs of `count` units each, one behind another, into columns: run r goes to `to` + r, its
// units `stride` apart.
template <size_t kBytes>
void Transpose(const std::byte* from, uint64_t rows, uint64_t count, std::byte* to,
               uint64_t stride) {
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t r = 0; r < rows; ++r)
      std::memcpy(to + (i * stride + r) * kBytes, from + (r * count + i) * kBytes, kBytes);
  }
}

void TransposeUnits(const std::byte* from, uint64_t rows, uint64_t count, std::byte* to,
                    uint64_t stride, uint64_t unit_bytes) {
  switch (unit_bytes) {
    case 1:
      return Transpose<1>(from, rows, count, to, stride);
    case 2:
      return Transpose<2>(from, rows, count, to, stride);
    case 4:
      return Transpose<4>(from, rows, count, to, stride);
    case 8:
      return Transpose<8>(from, rows, count, to, stride);
    default:
      for (uint64_t i = 0; i < count; ++i) {
        for (uint64_t r = 0; r < rows; ++r)
          std::memcpy(to + (i * stride + r) * unit_bytes, from + (r * count + i) * unit_bytes,
                      unit_bytes);
      }
  }
}

// A dimension of the part of a box that lies in the window.
struct Walk {
  uint64_t size, from, to;  // strides in units: of the source, of the window
};

}  // namespace

struct AssembledTensor::Impl {
  std::vector<Box> boxes;
  std::vector<size_t> inner;    // InnerOf each
  std::vector<uint64_t> units;  // of the innermost run of each
  std::vector<ReadAhead> sources;
  BoxGrid grid;
  uint64_t unit_bytes = 1;
  size_t last_box = 0;
  // Where runs are short: a range of the tensor, filled in the order of the sources.
  bool windowed = false;
  uint64_t window_first = 0, window_bytes = kLeastWindow;
  std::vector<std::byte> window, block;

  size_t BoxAt(const Shape& index) {
    const Box& last = boxes[last_box];
    for (size_t i = 0; i < index.size(); ++i) {
      if (index[i] < last.begin[i] || index[i] - last.begin[i] >= last.size[i])
        return last_box = grid.BoxAt(index);
    }
    return last_box;
  }

  // Where `index` lies in the source of `box`, and how many units follow there as in the tensor.
  void Locate(const Box& box, size_t inner_dim, const Shape& index, uint64_t* offset,
              uint64_t* within) const {
    *offset = box.offset;
    *within = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      *offset += (index[i] - box.begin[i]) * box.stride[i];
      if (i >= inner_dim) *within = *within * box.size[i] + (index[i] - box.begin[i]);
    }
  }

  Status Fill(const Shape& shape, uint64_t unit);
  Status Copy(const Box& box, const Shape& begin, const Shape& size);
  Status CopyAll(ReadAhead& source, const std::vector<Walk>& walks, const Walk& rows,
                 const Walk& run, uint64_t from, uint64_t to);
  Status CopyRows(ReadAhead& source, const Walk& rows, const Walk& run, uint64_t from, uint64_t to);
};

Result<Source> AssembledTensor::Make(Shape shape, std::vector<Source> sources,
                                     std::vector<Box> boxes) {
  TDUMP_RETURN_IF_ERROR(CheckSources(sources));
  uint64_t units = 0;
  if (!UnitsOf(shape, &units)) return InvalidArgument("the tensor has more than 2^64 elements");
  for (const Box& box : boxes) TDUMP_RETURN_IF_ERROR(CheckBox(shape, sources, box));
  std::erase_if(boxes, [](const Box& box) {
    return std::find(box.size.begin(), box.size.end(), 0u) != box.size.end();
  });
  auto impl = std::make_unique<Impl>();
  if (units > 0) {
    TDUMP_ASSIGN_OR_RETURN(impl->grid, BoxGrid::Make(shape, boxes));
  } else if (!boxes.empty()) {
    return InvalidArgument("a piece with elements of a tensor without any");
  }
  const DType dtype = sources.front()->dtype();
  impl->unit_bytes = dtype.unit_bytes();
  for (const Box& box : boxes) {
    impl->inner.push_back(InnerOf(shape, box));
    impl->units.push_back(ProductFrom(box.size, impl->inner.back()));
    impl->windowed |= impl->units.back() * impl->unit_bytes < kShortRunBytes &&
                      impl->units.back() < ProductFrom(box.size, 0);
  }
  const uint64_t ahead = std::clamp(kReadAheadBytes / sources.size(), kLeastAhead, kMostAhead);
  for (Source& source : sources) impl->sources.emplace_back(std::move(source), ahead);
  impl->boxes = std::move(boxes);
  return Source(new AssembledTensor(dtype, std::move(shape), std::move(impl)));
}

AssembledTensor::AssembledTensor(DType dtype, Shape shape, std::unique_ptr<Impl> impl)
    : TensorSource(dtype, std::move(shape)), impl_(std::move(impl)) {}

AssembledTensor::~AssembledTensor() = default;

Status AssembledTensor::Read(uint64_t first, std::span<std::byte> out) {
  return impl_->windowed ? ReadWindows(first, out) : ReadRuns(first, out);
}

Status AssembledTensor::ReadRuns(uint64_t first, std::span<std::byte> out) {
  Shape index(shape().size());
  while (!out.empty()) {
    IndexOf(first, shape(), &index);
    const size_t at = impl_->BoxAt(index);
    const Box& box = impl_->boxes[at];
    uint64_t offset = 0, within = 0;
    impl_->Locate(box, impl_->inner[at], index, &offset, &within);
    const uint64_t count =
        std::min<uint64_t>(impl_->units[at] - within, out.size() / impl_->unit_bytes);
    TDUMP_RETURN_IF_ERROR(
        impl_->sources[box.source].Read(offset, out.first(count * impl_->unit_bytes)));
    out = out.subspan(count * impl_->unit_bytes);
    first += count;
  }
  return {};
}

Status AssembledTensor::ReadWindows(uint64_t first, std::span<std::byte> out) {
  const uint64_t unit_bytes = impl_->unit_bytes;
  while (!out.empty()) {
    const uint64_t end = impl_->window_first + impl_->window.size() / unit_bytes;
    if (first < impl_->window_first || first >= end) {
      impl_->window_bytes =
          first == end ? std::min(kMostWindow, impl_->window_bytes * 2) : kLeastWindow;
      const Status status = impl_->Fill(shape(), first);
      if (!status.ok()) impl_->window.clear();
      TDUMP_RETURN_IF_ERROR(status);
    }
    const uint64_t at = (first - impl_->window_first) * unit_bytes;
    const uint64_t count = std::min<uint64_t>(out.size(), impl_->window.size() - at);
    std::memcpy(out.data(), impl_->window.data() + at, count);
    out = out.subspan(count);
    first += count / unit_bytes;
  }
  return {};
}

// The window: a range of one dimension, at one index of those before it, with all of those behind.
Status AssembledTensor::Impl::Fill(const Shape& shape, uint64_t unit) {
  const uint64_t most = std::max<uint64_t>(1, window_bytes / unit_bytes);
  size_t dim = shape.size() - 1;
  while (dim > 0 && shape[dim] <= most / ProductFrom(shape, dim + 1)) --dim;
  const uint64_t behind = ProductFrom(shape, dim + 1);
  const uint64_t range = std::min(shape[dim], most / behind);
  Shape begin(shape.size()), size = shape;
  IndexOf(unit, shape, &begin);
  std::fill(begin.begin() + static_cast<ptrdiff_t>(dim) + 1, begin.end(), 0);
  std::fill(size.begin(), size.begin() + static_cast<ptrdiff_t>(dim), 1);
  size[dim] = std::min(range, shape[dim] - begin[dim]);
  window_first = UnitAt(begin, shape);
  window.resize(ProductFrom(size, 0) * unit_bytes);
  for (const Box& box : boxes) TDUMP_RETURN_IF_ERROR(Copy(box, begin, size));
  return {};
}

// The part of a box that lies in the window, in the order in which its source has it, but that
// neighbours of the window are taken together.
Status AssembledTensor::Impl::Copy(const Box& box, const Shape& begin, const Shape& size) {
  std::vector<Walk> walks;
  uint64_t from = box.offset, to = 0, step = 1;
  for (size_t i = size.size(); i-- > 0;) {
    const uint64_t low = std::max(begin[i], box.begin[i]);
    const uint64_t high = std::min(begin[i] + size[i], box.begin[i] + box.size[i]);
    if (low >= high) return {};
    from += (low - box.begin[i]) * box.stride[i];
    to += (low - begin[i]) * step;
    if (high - low > 1) walks.push_back({high - low, box.stride[i], step});
    step *= size[i];
  }
  std::stable_sort(walks.begin(), walks.end(),
                   [](const Walk& x, const Walk& y) { return x.from < y.from; });
  const Walk run = walks.empty() || walks[0].from != 1 ? Walk{1, 1, 1} : walks[0];
  if (!walks.empty() && walks[0].from == 1) walks.erase(walks.begin());
  Walk rows{1, 0, 1};
  const auto neighbours =
      std::find_if(walks.begin(), walks.end(), [](const Walk& walk) { return walk.to == 1; });
  if (run.to != 1 && neighbours != walks.end()) {
    rows = *neighbours;
    walks.erase(neighbours);
  }
  return CopyAll(sources[box.source], walks, rows, run, from, to);
}

// Runs at every index of `walks`.
Status AssembledTensor::Impl::CopyAll(ReadAhead& source, const std::vector<Walk>& walks,
                                      const Walk& rows, const Walk& run, uint64_t from,
                                      uint64_t to) {
  std::vector<uint64_t> at(walks.size(), 0);
  for (;;) {
    TDUMP_RETURN_IF_ERROR(CopyRows(source, rows, run, from, to));
    size_t i = 0;
    for (; i < walks.size(); ++i) {
      from += walks[i].from;
      to += walks[i].to;
      if (++at[i] < walks[i].size) break;
      from -= walks[i].size * walks[i].from;
      to -= walks[i].size * walks[i].to;
      at[i] = 0;
    }
    if (i == walks.size()) return {};
  }
}

Status AssembledTensor::Impl::CopyRows(ReadAhead& source, const Walk& rows, const Walk& run,
                                       uint64_t from, uint64_t to) {
  const uint64_t bytes = run.size * unit_bytes;
  if (run.to == 1 && rows.size == 1)
    return source.Read(from, {window.data() + to * unit_bytes, bytes});
  for (uint64_t first = 0; first < rows.size; first += kRows) {
    const uint64_t count = std::min(kRows, rows.size - first);
    block.resize(count * bytes);
    for (uint64_t r = 0; r < count; ++r)
      TDUMP_RETURN_IF_ERROR(
          source.Read(from + (first + r) * rows.from, std::span(block).subspan(r * bytes, bytes)));
    TransposeUnits(block.data(), count, run.size, window.data() + (to + first) * unit_bytes, run.to,
                   unit_bytes);
  }
  return {};
}

}  // namespace tdump::compare
