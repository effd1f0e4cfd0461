#include "io/hash.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
// Puts functions that choose by the processor's vectors in the place of those below.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif

#include <algorithm>
#include <cstring>

namespace tdump::io {
namespace {

Hash128 Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Hash128 out;
  static_assert(sizeof(canonical.digest) == sizeof(out));
  std::memcpy(out.data(), canonical.digest, sizeof(out));
  return out;
}

}  // namespace

Hash128 TileDigest(std::span<const std::byte> tile) {
  return Canonical(XXH3_128bits(tile.data(), tile.size()));
}

void AppendTileDigests(std::span<const std::byte> payload, std::vector<uint8_t>* digests) {
  const size_t start = digests->size();
  digests->resize(start + TileCount(payload.size()) * kDigestBytes);
  uint8_t* out = digests->data() + start;
  for (size_t at = 0; at < payload.size(); at += kHashTile, out += kDigestBytes) {
    const Hash128 digest =
        TileDigest(payload.subspan(at, std::min<size_t>(kHashTile, payload.size() - at)));
    std::memcpy(out, digest.data(), kDigestBytes);
  }
}

Hash128 HashOfDigests(std::span<const uint8_t> digests) {
  return Canonical(XXH3_128bits(digests.data(), digests.size()));
}

Hash128 HashPayload(std::span<const std::byte> payload) {
  std::vector<uint8_t> digests;
  AppendTileDigests(payload, &digests);
  return HashOfDigests(digests);
}

uint64_t LowWord(const Hash128& hash) {
  uint64_t word = 0;
  for (size_t i = 8; i < 16; ++i) word = word << 8 | hash[i];
  return word;
}

struct TileHasher::State {
  XXH3_state_t xxh;
};

TileHasher::TileHasher() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }
TileHasher::~TileHasher() = default;

void TileHasher::Update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t take = std::min<size_t>(bytes.size(), kHashTile - in_tile_);
    XXH3_128bits_update(&state_->xxh, bytes.data(), take);
    in_tile_ += take;
    bytes = bytes.subspan(take);
    if (in_tile_ == kHashTile) EndTile();
  }
}

void TileHasher::EndTile() {
  const Hash128 digest = Canonical(XXH3_128bits_digest(&state_->xxh));
  digests_.insert(digests_.end(), digest.begin(), digest.end());
  XXH3_128bits_reset(&state_->xxh);
  in_tile_ = 0;
}

Hash128 TileHasher::Finish(std::vector<uint8_t>* digests) {
  if (in_tile_ != 0) EndTile();
  const Hash128 hash = HashOfDigests(digests_);
  if (digests != nullptr) *digests = digests_;
  digests_.clear();
  return hash;
}

}  // namespace tdump::io
