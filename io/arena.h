// Arena: room for entries on their way to the writer (io/capture_entry.h), one mapping of the cap,
// taken from the system once. Taking and giving back are lock-free and allocate nothing.
//
//   Granules (4-64 KiB) are tracked by a bitmap of atomic words, first fit from the low end: a
//   writer that keeps up makes producers reuse the same few cache-warm pages, and pages never
//   needed are never touched.
//   A large room is a run of granules. A run is claimed word by word; where another thread was
//   faster, the words claimed so far are given back and the search goes on.
//   Small rooms are cut from a few shared blocks ("stripes"; a thread keeps to one). The whole
//   state of a stripe is one word {block, offset, rooms handed out}, advanced by compare-and-swap.
//   Per block one counter: a room given back subtracts one, retiring the block adds the rooms
//   handed out; whoever makes it zero frees the block. So the memory held is bounded whatever the
//   number of threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tdump::io {

class Arena {
 public:
  // The cap; at least 64 KiB are taken. Nothing is mapped before Map().
  explicit Arena(uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;

  // Where the system refuses the whole (ulimit -v), half is asked for, down to a mebibyte. False:
  // nothing was given, every Take() fails. Once, before any Take() of another thread.
  bool Map();

  // Room of `bytes` > 0, aligned to 64, a large one (more than 64 KiB) to 4096; nullptr when there
  // is none now.
  std::byte* Take(uint64_t bytes) noexcept;
  // `bytes` as for Take(). Any thread.
  void Give(std::byte* room, uint64_t bytes) noexcept;

  uint64_t capacity() const { return uint64_t{granules_} * granule_; }
  // Bytes of the granules taken, partly used blocks included.
  uint64_t used() const { return uint64_t{used_.load(std::memory_order_relaxed)} * granule_; }

 private:
  static constexpr size_t kMaxStripes = 8;
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct alignas(64) Stripe {
    std::atomic<uint64_t> word;
  };

  bool is_small(uint64_t bytes) const { return bytes <= small_limit_; }
  uint32_t GranulesOf(uint64_t bytes) const {
    return static_cast<uint32_t>((bytes + granule_ - 1) / granule_);
  }
  void Divide(uint64_t bytes);
  std::byte* TakeSmall(Stripe* stripe, uint64_t units, bool new_block);
  uint32_t TakeRun(uint32_t count, uint32_t align);  // kNone: there is none
  uint32_t FirstTaken(uint32_t from, uint32_t end) const;
  bool Claim(uint32_t first, uint32_t count);
  void Unclaim(uint32_t first, uint32_t count);
  void GiveRun(uint32_t first, uint32_t count);
  void Settle(uint32_t block, int32_t rooms);

  std::byte* base_ = nullptr;
  uint64_t granule_ = 0;
  uint32_t granules_ = 0;
  uint32_t block_granules_ = 1;
  uint64_t small_limit_ = 0;
  size_t stripes_used_ = 1;
  std::unique_ptr<std::atomic<uint64_t>[]> map_;  // bit set: taken
  std::unique_ptr<std::atomic<int32_t>[]> live_;  // by first granule of a block
  std::array<Stripe, kMaxStripes> stripes_;
  alignas(64) std::atomic<uint32_t> used_{0};  // granules
};

}  // namespace tdump::io
