// Digests of tiles on the device: XXH3-128 (seed 0, the default secret) as the xxHash specification
// defines it, in canonical order. One warp works on a 16 KiB tile: lane 8 g + i adds up accumulator
// i over every fourth 64-byte stripe from g on.
#pragma once

#include "collectors/cuda/kernel_words.h"

namespace tdump::collectors {

constexpr u64 kPrime32_1 = 0x9E3779B1, kPrime32_2 = 0x85EBCA77, kPrime32_3 = 0xC2B2AE3D;
constexpr u64 kPrime64_1 = 0x9E3779B185EBCA87, kPrime64_2 = 0xC2B2AE3D27D4EB4F,
              kPrime64_3 = 0x165667B19E3779F9, kPrime64_4 = 0x85EBCA77C2B2AE63,
              kPrime64_5 = 0x27D4EB2F165667C5;
constexpr u64 kMix1 = 0x165667919E3779F9, kMix2 = 0x9FB21C651E98DF25;

// The 192 bytes of the default secret as little-endian words.
__constant__ const u64 kSecret[24] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
};

struct Digest {
  u64 low, high;
};

__device__ __noinline__ u64 Secret(u32 byte) {  // 8 bytes from any place
  const u32 word = byte / 8, shift = byte % 8 * 8;
  if (shift == 0) return kSecret[word];
  return kSecret[word] >> shift | kSecret[word + 1] << (64 - shift);
}
__device__ __noinline__ u64 Load(const u8* from, u32 bytes) {
  u64 value = 0;
  for (u32 i = 0; i < bytes; ++i) value |= static_cast<u64>(from[i]) << (8 * i);
  return value;
}
__device__ u64 Load64(const u8* from) { return Load(from, 8); }
__device__ __noinline__ u64 Swap64(u64 x) {
  u64 out = 0;
  for (u32 i = 0; i < 8; ++i) out |= (x >> (8 * i) & 255) << (56 - 8 * i);
  return out;
}
__device__ __noinline__ u64 HighProduct(u64 a, u64 b) {
  const u64 al = static_cast<u32>(a), ah = a >> 32, bl = static_cast<u32>(b), bh = b >> 32;
  const u64 low = al * bl, cross = ah * bl + (low >> 32), other = al * bh + static_cast<u32>(cross);
  return ah * bh + (cross >> 32) + (other >> 32);
}
__device__ u64 Fold(u64 a, u64 b) { return a * b ^ HighProduct(a, b); }
__device__ u64 Avalanche(u64 h) {
  h = (h ^ h >> 37) * kMix1;
  return h ^ h >> 32;
}
__device__ u64 AvalancheOf64(u64 h) {
  h = (h ^ h >> 33) * kPrime64_2;
  h = (h ^ h >> 29) * kPrime64_3;
  return h ^ h >> 32;
}

__device__ Digest HashUpTo3(const u8* in, u32 length) {
  const u32 low = static_cast<u32>(in[0]) << 16 | static_cast<u32>(in[length >> 1]) << 24 |
                  in[length - 1] | length << 8;
  const u32 swapped = static_cast<u32>(Swap64(low) >> 32);
  const u32 high = swapped << 13 | swapped >> 19;
  const u64 flip_low = static_cast<u32>(kSecret[0]) ^ kSecret[0] >> 32;
  const u64 flip_high = static_cast<u32>(kSecret[1]) ^ kSecret[1] >> 32;
  return {AvalancheOf64(low ^ flip_low), AvalancheOf64(high ^ flip_high)};
}
__device__ Digest HashUpTo8(const u8* in, u32 length) {
  const u64 keyed = (Load(in, 4) + (Load(in + length - 4, 4) << 32)) ^ kSecret[2] ^ kSecret[3];
  const u64 factor = kPrime64_1 + (length << 2);
  Digest h{keyed * factor, HighProduct(keyed, factor)};
  h.high += h.low << 1;
  h.low ^= h.high >> 3;
  h.low = (h.low ^ h.low >> 35) * kMix2;
  h.low ^= h.low >> 28;
  return {h.low, Avalanche(h.high)};
}
__device__ Digest HashUpTo16(const u8* in, u32 length) {
  const u64 first = Load64(in), last = Load64(in + length - 8);
  const u64 mixed = first ^ last ^ kSecret[4] ^ kSecret[5];
  u64 low = mixed * kPrime64_1, high = HighProduct(mixed, kPrime64_1);
  low += static_cast<u64>(length - 1) << 54;
  const u64 keyed = last ^ kSecret[6] ^ kSecret[7];
  high += keyed + static_cast<u64>(static_cast<u32>(keyed)) * (kPrime32_2 - 1);
  low ^= Swap64(high);
  return {Avalanche(low * kPrime64_2), Avalanche(HighProduct(low, kPrime64_2) + high * kPrime64_2)};
}

__device__ u64 Mix16(const u8* in, u32 secret) {
  return Fold(Load64(in) ^ Secret(secret), Load64(in + 8) ^ Secret(secret + 8));
}
__device__ __noinline__ void Mix32(Digest* h, const u8* first, const u8* second, u32 secret) {
  h->low = (h->low + Mix16(first, secret)) ^ (Load64(second) + Load64(second + 8));
  h->high = (h->high + Mix16(second, secret + 16)) ^ (Load64(first) + Load64(first + 8));
}
__device__ Digest FinishMixed(Digest h, u32 length) {
  const u64 low = h.low + h.high;
  const u64 high = h.low * kPrime64_1 + h.high * kPrime64_4 + length * kPrime64_2;
  return {Avalanche(low), 0 - Avalanche(high)};
}
__device__ Digest HashUpTo128(const u8* in, u32 length) {
  Digest h{length * kPrime64_1, 0};
  for (u32 i = (length - 1) / 32 + 1; i-- > 0;)
    Mix32(&h, in + 16 * i, in + length - 16 * (i + 1), 32 * i);
  return FinishMixed(h, length);
}
__device__ Digest HashUpTo240(const u8* in, u32 length) {
  Digest h{length * kPrime64_1, 0};
  for (u32 i = 0; i < 4; ++i) Mix32(&h, in + 32 * i, in + 32 * i + 16, 32 * i);
  h = {Avalanche(h.low), Avalanche(h.high)};
  for (u32 i = 4; i < length / 32; ++i) Mix32(&h, in + 32 * i, in + 32 * i + 16, 3 + 32 * (i - 4));
  Mix32(&h, in + length - 16, in + length - 32, 136 - 17 - 16);
  return FinishMixed(h, length);
}
__device__ __noinline__ Digest HashShort(const u8* in, u32 length) {
  if (length <= 3) return HashUpTo3(in, length);
  if (length <= 8) return HashUpTo8(in, length);
  if (length <= 16) return HashUpTo16(in, length);
  return length <= 128 ? HashUpTo128(in, length) : HashUpTo240(in, length);
}

__device__ __noinline__ u64 MergeAccumulators(const u64 acc[8], u32 secret, u64 start) {
  for (u32 i = 0; i < 4; ++i)
    start +=
        Fold(acc[2 * i] ^ Secret(secret + 16 * i), acc[2 * i + 1] ^ Secret(secret + 16 * i + 8));
  return Avalanche(start);
}

// What one stripe adds to accumulator `i`, but for the neighbour's data word, which the lane of
// accumulator i ^ 1 adds to *neighbour.
__device__ void Accumulate(u64 data, u64 secret, u64* own, u64* neighbour) {
  const u64 key = data ^ secret;
  *own += static_cast<u64>(static_cast<u32>(key)) * (key >> 32);
  *neighbour += data;
}
__device__ u64 SumOfGroups(u64 own, u64 neighbour) {
  own += __shfl_xor_sync(kFull, neighbour, 1);
  own += __shfl_xor_sync(kFull, own, 8);
  return own + __shfl_xor_sync(kFull, own, 16);
}

// More than 240 bytes, all lanes of a warp together. `tile` is aligned to 8.
__device__ __noinline__ Digest HashLong(const u64* tile, u32 length, u32 lane) {
  const u32 i = lane & 7, group = lane >> 3;
  const u64 start[8] = {kPrime32_3, kPrime64_1, kPrime64_2, kPrime64_3,
                        kPrime64_4, kPrime32_2, kPrime64_5, kPrime32_1};
  u64 secret[4];
  for (u32 k = 0; k < 4; ++k) secret[k] = kSecret[group + 4 * k + i];
  const u64 scramble = kSecret[16 + i];
  u64 acc = 0;
  for (u32 k = 0; k < 8; ++k) acc = k == i ? start[k] : acc;
  const u32 blocks = (length - 1) / 1024;
#pragma unroll 5
  for (u32 block = 0; block < blocks; ++block) {
    u64 own = 0, neighbour = 0;
    for (u32 k = 0; k < 4; ++k)
      Accumulate(tile[block * 128 + (group + 4 * k) * 8 + i], secret[k], &own, &neighbour);
    acc += SumOfGroups(own, neighbour);
    acc = (acc ^ acc >> 47 ^ scramble) * kPrime32_1;
  }
  const u32 stripes = (length - 1 - blocks * 1024) / 64;
  u64 own = 0, neighbour = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 stripe = group + 4 * k;
    if (stripe < stripes)
      Accumulate(tile[blocks * 128 + stripe * 8 + i], secret[k], &own, &neighbour);
  }
  const u8* last = reinterpret_cast<const u8*>(tile) + length - 64;
  if (group == 0) Accumulate(Load64(last + 8 * i), Secret(192 - 64 - 7 + 8 * i), &own, &neighbour);
  acc += SumOfGroups(own, neighbour);
  u64 all[8];
  for (u32 k = 0; k < 8; ++k) all[k] = __shfl_sync(kFull, acc, k);
  return {MergeAccumulators(all, 11, length * kPrime64_1),
          MergeAccumulators(all, 192 - 64 - 11, ~(length * kPrime64_2))};
}

// Of the tile in shared memory, by one warp.
__device__ void HashTile(const u64* tile, u32 length, u32 lane, u8* out) {
  Digest digest{0, 0};
  if (length > 240)
    digest = HashLong(tile, length, lane);
  else if (lane == 0)
    digest = HashShort(reinterpret_cast<const u8*>(tile), length);
  if (lane != 0) return;
  u64* words = reinterpret_cast<u64*>(out);
  words[0] = Swap64(digest.high);
  words[1] = Swap64(digest.low);
}

}  // namespace tdump::collectors
