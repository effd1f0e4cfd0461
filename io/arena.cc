#include "io/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "io/format.h"

namespace tdump::io {
namespace {

constexpr uint64_t kUnit = 64;  // of small rooms
constexpr uint64_t kLeastBytes = 64 << 10;
constexpr uint64_t kLeastMapping = 1 << 20;
constexpr uint64_t kMaxGranules = 1 << 16;

// A stripe's word.
struct Cut {
  uint32_t block;   // first granule; kNoBlock: none yet
  uint32_t offset;  // units handed out, in all
  uint32_t rooms;   // handed out
};
constexpr uint32_t kNoBlock = (1u << 24) - 1;
uint64_t Pack(Cut cut) {
  return uint64_t{cut.block} << 40 | uint64_t{cut.offset} << 20 | cut.rooms;
}
Cut Unpack(uint64_t word) {
  return {static_cast<uint32_t>(word >> 40), static_cast<uint32_t>(word >> 20) & 0xFFFFF,
          static_cast<uint32_t>(word) & 0xFFFFF};
}

void* MapAnonymous(uint64_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
}

// Spreads threads over stripes.
size_t ThreadNumber() {
  static std::atomic<size_t> next{0};
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// Bits [first, first + count) of the word they begin in, and how many those are.
struct WordPart {
  uint32_t word;
  uint64_t mask;
  uint32_t bits;
};
WordPart PartAt(uint32_t first, uint32_t count) {
  const uint32_t bit = first % 64, bits = std::min(count, 64 - bit);
  return {first / 64, (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1) << bit, bits};
}

}  // namespace

Arena::Arena(uint64_t bytes) { Divide(std::max(bytes, kLeastBytes)); }

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, capacity());
}

void Arena::Divide(uint64_t bytes) {
  granule_ = std::clamp<uint64_t>(std::bit_floor(bytes / 8192), 4 << 10, 64 << 10);
  while (bytes / granule_ > kMaxGranules) granule_ *= 2;
  granules_ = static_cast<uint32_t>(bytes / granule_);
  const uint64_t block = std::clamp<uint64_t>(std::bit_floor(bytes / 64), granule_, 256 << 10);
  block_granules_ = GranulesOf(block);
  small_limit_ = std::min<uint64_t>(block / 4, 64 << 10);
  stripes_used_ = std::clamp<uint64_t>(granules_ / (8 * block_granules_), 1, kMaxStripes);
}

bool Arena::Map() {
  if (base_ != nullptr) return true;
  uint64_t bytes = capacity();
  void* base = MapAnonymous(bytes);
  while (base == MAP_FAILED && bytes / 2 >= kLeastMapping) {
    Divide(bytes / 2);
    base = MapAnonymous(bytes = capacity());
  }
  if (base == MAP_FAILED) return false;
  const uint32_t words = (granules_ + 63) / 64;
  map_.reset(new std::atomic<uint64_t>[words]());
  live_.reset(new std::atomic<int32_t>[granules_]());
  for (Stripe& stripe : stripes_) stripe.word.store(Pack({kNoBlock, 0, 0}));
  if (granules_ % 64 != 0) map_[words - 1].store(~uint64_t{0} << (granules_ % 64));
  (void)::madvise(base, bytes, MADV_HUGEPAGE);
  (void)::madvise(base, bytes, MADV_DONTFORK);  // a forked data loader neither copies nor keeps it
  base_ = static_cast<std::byte*>(base);
  return true;
}

std::byte* Arena::Take(uint64_t bytes) noexcept {
  if (base_ == nullptr || bytes > capacity()) return nullptr;
  if (!is_small(bytes)) {
    const uint32_t first = TakeRun(GranulesOf(bytes), 1);
    return first == kNone ? nullptr : base_ + first * granule_;
  }
  const uint64_t units = (bytes + kUnit - 1) / kUnit;
  const size_t mine = ThreadNumber() % stripes_used_;
  if (std::byte* room = TakeSmall(&stripes_[mine], units, true)) return room;
  // No granule is free, but another stripe's block may have room left.
  for (size_t i = 0; i < stripes_used_; ++i) {
    if (std::byte* room = TakeSmall(&stripes_[i], units, false)) return room;
  }
  return nullptr;
}

std::byte* Arena::TakeSmall(Stripe* stripe, uint64_t units, bool new_block) {
  const uint64_t block_units = block_granules_ * granule_ / kUnit;
  uint64_t word = stripe->word.load(std::memory_order_acquire);
  for (;;) {
    const Cut cut = Unpack(word);
    if (cut.block != kNoBlock && cut.offset + units <= block_units) {
      const Cut next{cut.block, cut.offset + static_cast<uint32_t>(units), cut.rooms + 1};
      if (stripe->word.compare_exchange_weak(word, Pack(next), std::memory_order_acq_rel,
                                             std::memory_order_acquire))
        return base_ + cut.block * granule_ + cut.offset * kUnit;
      continue;
    }
    if (!new_block) return nullptr;
    const uint32_t block = TakeRun(block_granules_, block_granules_);
    if (block == kNone) return nullptr;
    if (stripe->word.compare_exchange_strong(word, Pack({block, static_cast<uint32_t>(units), 1}),
                                             std::memory_order_acq_rel,
                                             std::memory_order_acquire)) {
      if (cut.block != kNoBlock) Settle(cut.block, static_cast<int32_t>(cut.rooms));
      return base_ + block * granule_;
    }
    GiveRun(block, block_granules_);
  }
}

void Arena::Settle(uint32_t block, int32_t rooms) {
  if (live_[block].fetch_add(rooms, std::memory_order_acq_rel) + rooms == 0)
    GiveRun(block, block_granules_);
}

void Arena::Give(std::byte* room, uint64_t bytes) noexcept {
  const auto granule = static_cast<uint32_t>(static_cast<uint64_t>(room - base_) / granule_);
  if (is_small(bytes))
    Settle(granule / block_granules_ * block_granules_, -1);
  else
    GiveRun(granule, GranulesOf(bytes));
}

uint32_t Arena::TakeRun(uint32_t count, uint32_t align) {
  if (used_.load(std::memory_order_relaxed) + count > granules_) return kNone;
  uint32_t first = 0;
  while (first + count <= granules_) {
    const uint32_t taken = FirstTaken(first, first + count);
    if (taken == kNone) {
      if (Claim(first, count)) {
        used_.fetch_add(count, std::memory_order_relaxed);
        return first;
      }
      continue;  // another thread was faster: what it took is seen now
    }
    // On to the next free granule.
    uint32_t next = taken;
    while (next < granules_) {
      const uint64_t word = map_[next / 64].load(std::memory_order_relaxed) >> (next % 64);
      const auto ones = static_cast<uint32_t>(std::countr_one(word));
      const uint32_t left = 64 - next % 64;
      next += std::min(ones, left);
      if (ones < left) break;
    }
    first = (next + align - 1) / align * align;
  }
  return kNone;
}

uint32_t Arena::FirstTaken(uint32_t from, uint32_t end) const {
  while (from < end) {
    const WordPart part = PartAt(from, end - from);
    const uint64_t taken = map_[part.word].load(std::memory_order_acquire) & part.mask;
    if (taken != 0) return part.word * 64 + static_cast<uint32_t>(std::countr_zero(taken));
    from += part.bits;
  }
  return kNone;
}

bool Arena::Claim(uint32_t first, uint32_t count) {
  for (uint32_t claimed = 0; claimed < count;) {
    const WordPart part = PartAt(first + claimed, count - claimed);
    uint64_t old = map_[part.word].load(std::memory_order_relaxed);
    do {
      if ((old & part.mask) != 0) {
        Unclaim(first, claimed);
        return false;
      }
    } while (!map_[part.word].compare_exchange_weak(old, old | part.mask, std::memory_order_acquire,
                                                    std::memory_order_relaxed));
    claimed += part.bits;
  }
  return true;
}

void Arena::Unclaim(uint32_t first, uint32_t count) {
  for (uint32_t given = 0; given < count;) {
    const WordPart part = PartAt(first + given, count - given);
    map_[part.word].fetch_and(~part.mask, std::memory_order_release);
    given += part.bits;
  }
}

void Arena::GiveRun(uint32_t first, uint32_t count) {
  used_.fetch_sub(count, std::memory_order_relaxed);
  Unclaim(first, count);
}

}  // namespace tdump::io
