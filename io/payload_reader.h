// PayloadReader: the bytes of a record's payload, checked tile by tile.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "core/env.h"
#include "core/status.h"
#include "io/frame_file.h"
#include "io/records.h"

namespace tdump::io {

// Bytes of the number that a byte order applies to: 4 for float32, 4 for
// complex64 (two of them), 1 for packed types.
uint32_t SwapWidth(const DType& dtype);

// Thread-safe. Records given to it hold their own payload (PayloadRef::same_as == 0) and were
// checked by DecodeRecord.
class PayloadReader {
 public:
  PayloadReader(Env* env, const FrameFile& file) : env_(env), file_(file) {}

  // See PassReader::ReadPayload. Little-endian bytes, whatever the file's order.
  Status Read(const Record& owner, uint64_t offset, std::span<std::byte> out, bool verify) const;
  Result<std::span<const std::byte>> Map(const Record& owner) const;

 private:
  // Stored bytes [offset, offset + out.size()) of the payload, wherever it lies.
  Status ReadAt(const PayloadRef& payload, uint64_t offset, std::span<std::byte> out) const;
  struct ChunkPlace {
    uint64_t offset = 0, bytes = 0;  // in the stored bytes
  };
  Result<ChunkPlace> FindChunk(const Record& owner, uint64_t block) const;
  Status BadBlock(const Record& owner, uint64_t block, std::string_view what) const;
  Status ReadBlocks(const Record& owner, uint64_t offset, std::span<std::byte> out,
                    bool verify) const;
  Status ReadStored(const Record& owner, uint64_t offset, std::span<std::byte> out,
                    bool verify) const;
  Status CheckTiles(const Record& owner, uint64_t first_tile,
                    std::span<const std::byte> tiles) const;

  Env* env_;
  const FrameFile& file_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<MappedFile> map_;
};

}  // namespace tdump::io
