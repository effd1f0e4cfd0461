#include "compare/read_ahead.h"

#include <algorithm>
#include <cstring>

namespace tdump::compare {
namespace {

constexpr uint64_t kLeastBytes = 16 * 1024;  // a tile of a pass file, which is verified as a whole
constexpr uint64_t kJumpBytes = 1024;        // reads that jump and are as long as this stand alone

}  // namespace

ReadAhead::ReadAhead(Source source, uint64_t most_bytes)
    : source_(std::move(source)),
      unit_bytes_(std::max<uint64_t>(1, source_->dtype().unit_bytes())),
      least_(std::max<uint64_t>(1, std::min(kLeastBytes, most_bytes) / unit_bytes_)),
      most_(std::max<uint64_t>(1, most_bytes / unit_bytes_)),
      piece_(least_) {}

Status ReadAhead::Read(uint64_t first, std::span<std::byte> out) {
  while (!out.empty()) {
    if (first < first_ || first >= end_) {
      const uint64_t wanted = out.size() / unit_bytes_;
      const bool jumps = first != end_;
      if (wanted >= most_ || (jumps && out.size() >= kJumpBytes)) {
        first_ = end_ = first + wanted;
        return source_->Read(first, out);
      }
      piece_ = jumps ? least_ : std::min(most_, piece_ * 2);
      TDUMP_RETURN_IF_ERROR(Fill(first, std::max(piece_, wanted)));
    }
    const uint64_t count = std::min<uint64_t>(out.size() / unit_bytes_, end_ - first);
    std::memcpy(out.data(), buffer_.data() + (first - first_) * unit_bytes_, count * unit_bytes_);
    out = out.subspan(count * unit_bytes_);
    first += count;
  }
  return {};
}

Status ReadAhead::Fill(uint64_t first, uint64_t units) {
  first_ = end_ = 0;
  units = std::min(units, source_->units() - first);
  buffer_.resize(units * unit_bytes_);
  TDUMP_RETURN_IF_ERROR(source_->Read(first, buffer_));
  first_ = first;
  end_ = first + units;
  return {};
}

}  // namespace tdump::compare
