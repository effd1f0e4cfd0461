// SpillFile: pieces of some hundred bytes, millions of them, kept in a temporary file that has no
// name any more, so that they are not in memory.
//
//   1. The first ones are refused: what is small stays in memory. Then pieces are gathered in a
//      block, and blocks are written one after the other. No piece lies in two blocks.
//   2. A piece is read with its whole block, of which the last few are kept: reading in about the
//      order of adding is fast.
//   3. Where a file cannot be made or the disk is full, pieces are refused from then on. Those of
//      the block that could not be written stay where they are, in memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/env.h"
#include "core/status.h"

namespace tdump::compare {

struct SpillOptions {
  Env* env = Env::Posix();
  std::string directory;            // "": TemporaryDirectory
  uint64_t in_memory = 4ull << 20;  // bytes that are refused first
};

// Thread-safe. Memory: some blocks.
class SpillFile {
 public:
  static constexpr uint64_t kBlock = 32 * 1024;

  explicit SpillFile(SpillOptions options)
      : options_(std::move(options)), left_in_memory_(options_.in_memory) {}

  // Where the piece lies; none: it is the caller's to keep.
  std::optional<uint64_t> Add(std::string_view piece);
  // A piece that was added. "" where the file cannot be read: see status().
  std::string Get(uint64_t place) const;

  // Of reading; what could not be written is no error.
  Status status() const;

 private:
  struct Block {
    uint64_t offset = ~uint64_t{0};
    uint64_t used = 0;  // the larger, the later
    std::string bytes;
  };
  bool Open();
  bool WriteTail();
  const std::string* BlockAt(uint64_t offset) const;

  const SpillOptions options_;
  mutable std::mutex mutex_;
  uint64_t left_in_memory_;
  bool opened_ = false, full_ = false;
  std::unique_ptr<WritableFile> out_;
  std::unique_ptr<ReadableFile> in_;
  uint64_t tail_offset_ = 0;
  std::string tail_;  // the block that is gathered
  mutable std::array<Block, 8> blocks_;
  mutable uint64_t uses_ = 0;
  mutable Status status_;
};

}  // namespace tdump::compare
