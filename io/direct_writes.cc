#include "io/direct_writes.h"

#include <algorithm>

#include "io/format.h"

namespace tdump::io {
namespace {

constexpr double kWorthTheCache = 4;
constexpr uint64_t kTrial = 4 << 20;
constexpr int64_t kTryAgainNs = 4'000'000'000;
constexpr uint64_t kRemembered = 64 << 20;  // bytes that a rate is of

static_assert(kLargePayloadAlign % kDirectAlign == 0);

}  // namespace

void DirectWrites::Way::Add(uint64_t written, int64_t took) {
  bytes += written;
  ns += took;
  if (bytes <= kRemembered) return;
  bytes /= 2;
  ns /= 2;
}

bool DirectWrites::IsDue(const Way& way, int64_t now) const {
  return way.used_ns == 0 || now - way.used_ns > kTryAgainNs;
}

Status DirectWrites::WriteAt(WritableFile* file, uint64_t offset,
                             std::span<const std::byte> bytes) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const bool may = allowed_ && bytes.size() > kLargePayload && offset % kDirectAlign == 0 &&
                   address % kDirectAlign == 0;
  if (!may) return file->WriteAt(offset, bytes);
  const int64_t now = env_->MonotonicNs();
  const bool direct = direct_.bytes > 0 && cached_.rate() <= kWorthTheCache * direct_.rate();
  Way* const other = direct ? &cached_ : &direct_;
  if (IsDue(*other, now)) {
    const auto trial = bytes.first(std::min<uint64_t>(bytes.size(), kTrial));
    *other = {};
    TDUMP_RETURN_IF_ERROR(Write(!direct, file, offset, trial));
    offset += trial.size();
    bytes = bytes.subspan(trial.size());
  }
  return bytes.empty() ? Status() : Write(direct && allowed_, file, offset, bytes);
}

Status DirectWrites::Write(bool direct, WritableFile* file, uint64_t offset,
                           std::span<const std::byte> bytes) {
  Way* const way = direct ? &direct_ : &cached_;
  way->used_ns = env_->MonotonicNs();
  if (direct) {
    TDUMP_ASSIGN_OR_RETURN(allowed_, file->WriteDirect(offset, bytes));
  } else {
    TDUMP_RETURN_IF_ERROR(file->WriteAt(offset, bytes));
  }
  way->Add(bytes.size(), env_->MonotonicNs() - way->used_ns);
  return Status();
}

}  // namespace tdump::io
