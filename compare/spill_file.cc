#include "compare/spill_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/temporary_directory.h"

namespace tdump::compare {
namespace {

constexpr size_t kSize = sizeof(uint32_t);  // before each piece

// Other processes, also those of other containers, may make theirs in the same directory.
std::string NewName(Env* env) {
  static std::atomic<uint64_t> count{0};
  return fmt::format("tdump-{}-{:x}-{}.tmp", ::getpid(), env->WallNs(), count++);
}

}  // namespace

bool SpillFile::Open() {
  opened_ = true;
  Env* const env = options_.env;
  const std::string path = JoinPath(
      options_.directory.empty() ? TemporaryDirectory() : options_.directory, NewName(env));
  auto out = env->CreateExclusive(path, 0600);
  if (!out.ok()) return false;
  auto in = env->OpenRead(path);
  (void)env->Remove(path);  // else it stays, with what is in it
  if (!in.ok()) return false;
  out_ = std::move(*out);
  in_ = std::move(*in);
  return true;
}

bool SpillFile::WriteTail() {
  if (!opened_ && !Open()) return false;
  tail_.resize(kBlock);
  if (!out_->WriteAt(tail_offset_, std::as_bytes(std::span(tail_))).ok()) return false;
  tail_offset_ += kBlock;
  tail_.clear();
  return true;
}

std::optional<uint64_t> SpillFile::Add(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  const size_t needed = kSize + piece.size();
  if (full_ || needed > kBlock) return std::nullopt;
  if (left_in_memory_ > 0) {
    left_in_memory_ -= std::min<uint64_t>(left_in_memory_, needed);
    return std::nullopt;
  }
  if (tail_.size() + needed > kBlock && !WriteTail()) {
    full_ = true;
    return std::nullopt;
  }
  const uint64_t place = tail_offset_ + tail_.size();
  const auto size = static_cast<uint32_t>(piece.size());
  tail_.append(reinterpret_cast<const char*>(&size), kSize);
  tail_.append(piece);
  return place;
}

std::string SpillFile::Get(uint64_t place) const {
  const std::lock_guard lock(mutex_);
  const std::string* block = BlockAt(place / kBlock * kBlock);
  if (block == nullptr) return "";
  const uint64_t at = place % kBlock;
  uint32_t size = 0;
  std::memcpy(&size, block->data() + at, kSize);
  return block->substr(at + kSize, size);
}

const std::string* SpillFile::BlockAt(uint64_t offset) const {
  if (offset == tail_offset_) return &tail_;
  Block* oldest = &blocks_.front();
  for (Block& block : blocks_) {
    if (block.offset == offset) {
      block.used = ++uses_;
      return &block.bytes;
    }
    if (block.used < oldest->used) oldest = &block;
  }
  oldest->offset = ~uint64_t{0};
  oldest->bytes.resize(kBlock);
  const Result<size_t> got = in_->ReadAt(offset, std::as_writable_bytes(std::span(oldest->bytes)));
  if (!got.ok() || *got != kBlock) {
    if (status_.ok()) status_ = got.ok() ? Corrupt("it was cut") : Status(got.status());
    return nullptr;
  }
  oldest->offset = offset;
  oldest->used = ++uses_;
  return &oldest->bytes;
}

Status SpillFile::status() const {
  const std::lock_guard lock(mutex_);
  return Status(status_).Annotate("a temporary file (TMPDIR)");
}

}  // namespace tdump::compare
