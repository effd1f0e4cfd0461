#include "compare/payload_view.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "io/format.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kBufferBytes = 64 * 1024;
constexpr uint64_t kPiece = 256 * 1024;  // a multiple of the hash tile: each is verified once
constexpr uint64_t kDirect = 64 * 1024;  // whole tiles of at least this go straight to the caller

}  // namespace

ReadBytes FromMemory(std::span<const std::byte> payload) {
  return [payload](uint64_t offset, std::span<std::byte> out) -> Status {
    if (offset > payload.size() || out.size() > payload.size() - offset) {
      return Corrupt("payload has " + std::to_string(payload.size()) + " bytes, needed " +
                     std::to_string(offset + out.size()));
    }
    if (!out.empty()) std::memcpy(out.data(), payload.data() + offset, out.size());
    return {};
  };
}

ReadBytes InLargePieces(ReadBytes read, uint64_t total) {
  struct Piece {
    std::vector<std::byte> bytes;
    uint64_t offset = 0;
  };
  return [read = std::move(read), total, piece = std::make_shared<Piece>()](
             uint64_t offset, std::span<std::byte> out) -> Status {
    if (offset > total || out.size() > total - offset)
      return Corrupt("payload is shorter than its shape needs");
    while (!out.empty()) {
      const bool held = offset >= piece->offset && offset - piece->offset < piece->bytes.size();
      if (!held && offset % io::kHashTile == 0 && out.size() >= kDirect) {
        const bool to_the_end = offset + out.size() == total;
        const uint64_t count = to_the_end ? out.size() : out.size() / io::kHashTile * io::kHashTile;
        TDUMP_RETURN_IF_ERROR(read(offset, out.first(count)));
        out = out.subspan(count);
        offset += count;
        continue;
      }
      if (!held) {
        piece->offset = offset / kPiece * kPiece;
        piece->bytes.resize(std::min(kPiece, total - piece->offset));
        Status status = read(piece->offset, piece->bytes);
        if (!status.ok()) {
          piece->bytes.clear();
          return status;
        }
      }
      const size_t at = offset - piece->offset;
      const size_t count = std::min(out.size(), piece->bytes.size() - at);
      std::memcpy(out.data(), piece->bytes.data() + at, count);
      out = out.subspan(count);
      offset += count;
    }
    return {};
  };
}

std::vector<bool> StoredOnce(const io::Record& record) {
  std::vector<bool> once(record.sizes.size(), false);
  if (record.layout != Layout::kStrided) return once;
  for (size_t i = 0; i < record.sizes.size() && i < record.strides.size(); ++i) {
    once[i] = record.strides[i] == 0 && record.sizes[i] > 1;
  }
  return once;
}

std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  uint64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

PayloadView::PayloadView(const io::Record& record, ReadBytes read, const std::vector<bool>& skip)
    : unit_bytes_(record.dtype.unit_bytes()), read_(std::move(read)) {
  const std::vector<bool> once = StoredOnce(record);
  std::vector<Dim> dims;
  for (size_t i = 0; i < record.sizes.size(); ++i) {
    if (i < skip.size() && skip[i]) continue;
    dims.push_back({static_cast<uint64_t>(record.sizes[i]), once[i] ? uint64_t{0} : uint64_t{1}});
    units_ *= static_cast<uint64_t>(record.sizes[i]);
  }
  uint64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].step == 0) continue;
    dims[i].step = step;
    step *= dims[i].size;
  }
  // The innermost dimensions of one sort make the run.
  size_t inner = dims.size();
  if (inner > 0) repeat_ = dims[inner - 1].step == 0;
  while (inner > 0 && (dims[inner - 1].step == 0) == repeat_) run_ *= dims[--inner].size;
  outer_.assign(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(inner));
}

Status PayloadView::Read(uint64_t first, std::span<std::byte> out) {
  if (out.empty()) return {};
  if (outer_.empty() && !repeat_) return read_(first * unit_bytes_, out);
  while (!out.empty()) {
    const uint64_t run = first / run_;
    const uint64_t within = first % run_;
    const uint64_t count = std::min<uint64_t>(out.size() / unit_bytes_, run_ - within);
    TDUMP_RETURN_IF_ERROR(ReadRun(run, within, out.first(count * unit_bytes_)));
    out = out.subspan(count * unit_bytes_);
    first += count;
  }
  return {};
}

// Units [within, ...) of the `run`-th run.
Status PayloadView::ReadRun(uint64_t run, uint64_t within, std::span<std::byte> out) {
  uint64_t base = 0;
  for (size_t i = outer_.size(); i-- > 0;) {
    base += run % outer_[i].size * outer_[i].step;
    run /= outer_[i].size;
  }
  uint64_t offset = (base + (repeat_ ? 0 : within)) * unit_bytes_;
  if (!repeat_ && out.size() >= kBufferBytes) return read_(offset, out);
  const size_t step = repeat_ ? unit_bytes_ : out.size();
  while (!out.empty()) {
    const bool inside =
        offset >= buffer_offset_ && offset + unit_bytes_ <= buffer_offset_ + buffer_.size();
    if (!inside) TDUMP_RETURN_IF_ERROR(FillBuffer(offset));
    const size_t at = offset - buffer_offset_;
    const size_t count = std::min<size_t>({step, out.size(), buffer_.size() - at});
    std::memcpy(out.data(), buffer_.data() + at, count);
    out = out.subspan(count);
    if (!repeat_) offset += count;
  }
  return {};
}

// The payload's end is not known here: the buffer takes what one full piece from `offset`, or a
// single unit, gives.
Status PayloadView::FillBuffer(uint64_t offset) {
  uint64_t stored = unit_bytes_ * (repeat_ ? 1 : run_);
  for (const Dim& dim : outer_) stored = dim.step == 0 ? stored : stored * dim.size;
  const uint64_t start = offset;
  buffer_.resize(
      std::min(kBufferBytes / unit_bytes_ * unit_bytes_, stored - std::min(stored, start)));
  if (buffer_.size() < unit_bytes_) return Corrupt("payload ends before its last element");
  buffer_offset_ = start;
  Status status = read_(start, buffer_);
  if (!status.ok()) buffer_.clear();
  return status;
}

}  // namespace tdump::compare
