// The content hash of payloads: XXH3-128 over the concatenated XXH3-128 digests of consecutive
// 16 KiB tiles, the last tile possibly shorter (docs/format.md, "Hashes and checksums"). Digests
// are in xxHash's canonical big-endian form. The hash of nothing is the XXH3-128 of zero digests.
// Any tile can be checked alone, so where a payload is kept its digests are its checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/format.h"
#include "io/records.h"

namespace tdump::io {

inline constexpr uint64_t kDigestBytes = 16;

// Number of tiles of a payload.
inline constexpr uint64_t TileCount(uint64_t bytes) { return (bytes + kHashTile - 1) / kHashTile; }

// Digest of one tile (at most kHashTile bytes).
Hash128 TileDigest(std::span<const std::byte> tile);
// Appends the digest of every tile of `payload`.
void AppendTileDigests(std::span<const std::byte> payload, std::vector<uint8_t>* digests);
// From digests to the hash.
Hash128 HashOfDigests(std::span<const uint8_t> digests);
Hash128 HashPayload(std::span<const std::byte> payload);
// What a payload frame's header has as body checksum: the low 64 bits of the hash.
uint64_t LowWord(const Hash128& hash);

// The same, fed in pieces of any size. Not thread-safe.
class TileHasher {
 public:
  TileHasher();
  ~TileHasher();
  void Update(std::span<const std::byte> bytes);
  // The hash of everything fed; leaves the hasher empty. `digests`, when given,
  // is replaced by the tiles' digests.
  Hash128 Finish(std::vector<uint8_t>* digests = nullptr);

 private:
  void EndTile();

  struct State;
  std::unique_ptr<State> state_;
  uint64_t in_tile_ = 0;
  std::vector<uint8_t> digests_;
};

}  // namespace tdump::io
