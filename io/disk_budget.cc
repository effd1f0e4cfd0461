#include "io/disk_budget.h"

#include <fmt/format.h>

#include <algorithm>

namespace tdump::io {
namespace {

constexpr uint64_t kMaxSetAside = 16 << 20;
constexpr uint64_t kLeastCheck = 64 << 10;
constexpr uint64_t kWriters = 16;  // of one disk, which do not know of each other
constexpr uint64_t kUnlimited = ~uint64_t{0};

}  // namespace

uint64_t PayloadLimit(uint64_t limit_bytes) {
  return limit_bytes - std::min(limit_bytes / 16, kMaxSetAside);
}

DiskBudget::DiskBudget(Env* env, std::string directory, uint64_t limit_bytes,
                       uint64_t min_free_bytes)
    : env_(env),
      directory_(std::move(directory)),
      limit_(limit_bytes == 0 ? kUnlimited : limit_bytes),
      min_free_(min_free_bytes),
      check_every_(std::clamp<uint64_t>(min_free_bytes / 4, kLeastCheck, 16 << 20)),
      soft_limit_(limit_ == kUnlimited ? kUnlimited : PayloadLimit(limit_)) {}

bool DiskBudget::MakeRoom(uint64_t bytes) {
  if (!make_room_) return false;
  const uint64_t freed = std::min(make_room_(bytes), used_);
  used_ -= freed;
  return freed != 0;
}

void DiskBudget::BeginPass() {
  if (!make_room_) return;
  exhausted_ = false;
  check_after_ = 0;
}

// The next look is due before this process and others like it can have used up what is left over.
void DiskBudget::CheckFree(uint64_t bytes) {
  const uint64_t wanted = min_free_ + bytes;
  Result<uint64_t> free = env_->FreeBytes(directory_);
  if (free.ok() && *free < wanted && MakeRoom(wanted - *free + kLeastCheck))
    free = env_->FreeBytes(directory_);
  unchecked_ = 0;
  check_after_ = check_every_;
  if (!free.ok()) return;
  if (*free >= wanted) {
    check_after_ = std::clamp((*free - min_free_) / kWriters, kLeastCheck, check_every_);
    least_free_.reset();
    return;
  }
  exhausted_ = true;
  if (!least_free_) least_free_ = *free - std::min(*free / 4, kMaxSetAside);
  metadata_left_ = *free - std::min(*free, *least_free_);
  why_ = *free < min_free_
             ? fmt::format("only {} bytes are free on the disk, {} are left to the job", *free,
                           min_free_)
             : fmt::format("only {} bytes are free on the disk for {} more, {} are left to the job",
                           *free, bytes, min_free_);
}

bool DiskBudget::Allow(uint64_t bytes, bool payload) {
  if (exhausted_ && MakeRoom(bytes)) BeginPass();
  if (!exhausted_ && min_free_ != 0 && unchecked_ + bytes >= check_after_) CheckFree(bytes);
  if (!exhausted_ && used_ + bytes > soft_limit_) MakeRoom(used_ + bytes - soft_limit_);
  if (!exhausted_ && (used_ >= soft_limit_ || bytes > soft_limit_ - used_)) {
    exhausted_ = true;
    metadata_left_ = limit_ > used_ ? limit_ - used_ : 0;
    why_ = fmt::format("the limit of {} bytes is reached", limit_);
  }
  if (!exhausted_) return true;
  if (payload || bytes > metadata_left_) return false;
  metadata_left_ -= bytes;
  return true;
}

}  // namespace tdump::io
