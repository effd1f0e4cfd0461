// The kernels of tdump: gather a strided tensor into its canonical form; digests and statistics of
// a payload in one pass over it. Compiled by NVRTC on first use (collectors/cuda/compiler.h), and
// by a test for the host, where threads are played one after another (tests/collectors/cuda).
//
// Digests are XXH3-128 (seed 0, the default secret) as the xxHash specification defines it, in
// canonical order; one warp works on a 16 KiB tile: lane 8 g + i adds up accumulator i over every
// fourth 64-byte stripe from g on. Statistics follow core/statistics_tile.h, operation by
// operation.
#include "collectors/cuda/kernel_arguments.h"
#include "core/statistics_tile.h"

// What a block looks at; its size is given at the launch.
#if defined(__CUDACC__)
extern __shared__ __align__(16) unsigned long long tdump_region[];
#else
static unsigned long long tdump_region[32768 / 8] __align__(16);
#endif

namespace tdump::collectors {

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 kWarp = 32;
constexpr u32 kFull = 0xffffffffu;
constexpr u32 kTileBytes = 16384;

// ---- XXH3-128 ----

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

// ---- values ----

__device__ double FromBits64(u64 bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return __builtin_bit_cast(double, bits);
#endif
}
__device__ float FromBits32(u32 bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}
__device__ u32 ToBits32(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(u32, value);
#endif
}

// A small float as the bits of the float32 of the same value: sign, `exponent_bits`,
// `mantissa_bits`. `special`: 0 IEEE, 1 only all ones is NaN (fn), 2 only -0 is NaN (fnuz).
__device__ __noinline__ u32 FromSmall(u32 bits, u32 exponent_bits, u32 mantissa_bits, int bias,
                                      int special) {
  const u32 width = exponent_bits + mantissa_bits;
  const u32 sign = (bits >> width & 1) << 31;
  const u32 magnitude = bits & ((1u << width) - 1);
  const u32 exponent = magnitude >> mantissa_bits;
  const u32 mantissa = magnitude & ((1u << mantissa_bits) - 1);
  constexpr u32 kNan = 0x7fc00000, kInfinity = 0x7f800000;
  if (special == 2 && sign != 0 && magnitude == 0) return kNan;
  if (special == 1 && magnitude == (1u << width) - 1) return kNan;
  if (special == 0 && exponent == (1u << exponent_bits) - 1)
    return mantissa != 0 ? kNan : sign | kInfinity;
  if (exponent != 0) {
    const u32 wide = static_cast<u32>(static_cast<int>(exponent) - bias + 127) << 23;
    return sign | wide | mantissa << (23 - mantissa_bits);
  }
  // A subnormal: a small integer times a power of two that is a normal float32.
  const u32 unit = static_cast<u32>(1 - bias - static_cast<int>(mantissa_bits) + 127) << 23;
  return sign | ToBits32(static_cast<float>(mantissa) * FromBits32(unit));
}
__device__ u32 FromFloat8(u32 bits, KernelType type) {
  switch (type) {
    case KernelType::kFloat8E4m3fn:
      return FromSmall(bits, 4, 3, 7, 1);
    case KernelType::kFloat8E5m2:
      return FromSmall(bits, 5, 2, 15, 0);
    case KernelType::kFloat8E4m3fnuz:
      return FromSmall(bits, 4, 3, 8, 2);
    default:
      return FromSmall(bits, 5, 2, 16, 2);
  }
}

// The element types: `Bits` order and class a value, all exact. Those of up to 32 bits are taken
// as the float32 of the same value.
struct AsFloat32 {
  using Bits = u32;
  using Key = int;
  static constexpr Bits kSign = 0x80000000, kInfinity = 0x7f800000;
  static __device__ double Value(Bits bits) { return static_cast<double>(FromBits32(bits)); }
  static __device__ u32 Bin(Bits magnitude) { return magnitude >> 26; }  // 8 exponents
};
struct Float32 : AsFloat32 {
  static constexpr u32 kBytes = 4;
  static __device__ Bits At(const u64* payload, const u32*, u32 index) {
    return reinterpret_cast<const u32*>(payload)[index];
  }
};
struct Bfloat16 : AsFloat32 {
  static constexpr u32 kBytes = 2;
  static __device__ Bits At(const u64* payload, const u32*, u32 index) {
    return static_cast<u32>(reinterpret_cast<const unsigned short*>(payload)[index]) << 16;
  }
};
struct Float16 : AsFloat32 {
  static constexpr u32 kBytes = 2;
  static __device__ Bits At(const u64* payload, const u32*, u32 index) {
    const unsigned short bits = reinterpret_cast<const unsigned short*>(payload)[index];
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return __float_as_uint(value);
#else
    return FromSmall(bits, 5, 10, 15, 0);
#endif
  }
};
struct Float8 : AsFloat32 {  // by a table of all 256
  static constexpr u32 kBytes = 1;
  static __device__ Bits At(const u64* payload, const u32* table, u32 index) {
    return table[reinterpret_cast<const u8*>(payload)[index]];
  }
};
struct Float64 {
  using Bits = u64;
  using Key = long long;
  static constexpr u32 kBytes = 8;
  static constexpr Bits kSign = 0x8000000000000000, kInfinity = 0x7ff0000000000000;
  static __device__ Bits At(const u64* payload, const u32*, u32 index) { return payload[index]; }
  static __device__ double Value(Bits bits) { return FromBits64(bits); }
  static __device__ u32 Bin(Bits magnitude) {
    return static_cast<u32>(HistogramBin(FromBits64(magnitude)));
  }
};

// Integers in the order of the values, -0 below 0; its own inverse on bits.
template <class E>
__device__ typename E::Key OrderOf(typename E::Bits bits) {
  const typename E::Key key = static_cast<typename E::Key>(bits);
  return key ^ (key >> (8 * sizeof(key) - 1) & static_cast<typename E::Key>(~E::kSign));
}

// ---- statistics of a region ----

constexpr u32 kWarps = ReduceArguments::kThreads / kWarp;
constexpr u32 kMaxTiles = 4;  // of one-byte elements in a region

struct RegionState {
  double lanes[3][kMaxTiles][kTileLanes];
  TileMoments tiles[kMaxTiles];
  double min[kMaxTiles][kWarps], max[kMaxTiles][kWarps];
  u32 finite[kMaxTiles][kWarps];
  u32 again[kMaxTiles];  // the deviations have to be summed
  u32 counts[5][kWarps];
  u32 histogram[kWarps][kHistogramBins];
  u32 table[256];  // Float8
};

__device__ u32 WarpSum(u32 x) {
  for (u32 width = kWarp / 2; width > 0; width /= 2) x += __shfl_xor_sync(kFull, x, width);
  return x;
}

// Counts, and finite, min and max of each tile: exact in any order, so all threads take part.
template <class E>
__device__ void Classify(const u64* payload, u32 elements, u32 thread, RegionState* state) {
  using Key = typename E::Key;
  const u32 lane = thread % kWarp, warp = thread / kWarp;
  u32* const histogram = state->histogram[warp];
  u32 nan = 0, positive = 0, negative = 0, zeros = 0, negative_zeros = 0;
  histogram[lane] = 0;
  __syncwarp();
#pragma unroll 1
  for (u32 tile = 0; tile * kTileElements < elements; ++tile) {
    const u32 end = min(elements, (tile + 1) * kTileElements);
    constexpr Key kLargest = static_cast<Key>(~E::kSign);
    Key low = kLargest, high = -kLargest - 1;
    u32 finite = 0;
#pragma unroll 4
    for (u32 i = tile * kTileElements + thread; i < end; i += ReduceArguments::kThreads) {
      const typename E::Bits bits = E::At(payload, state->table, i);
      const typename E::Bits magnitude = bits & ~E::kSign;
      if (magnitude < E::kInfinity) {
        const Key key = OrderOf<E>(bits);
        low = key < low ? key : low;
        high = key > high ? key : high;
        ++finite;
        if (magnitude != 0) {
          atomicAdd(&histogram[E::Bin(magnitude)], 1u);
        } else {
          ++zeros;
          negative_zeros += bits != 0 ? 1 : 0;
        }
      } else if (magnitude > E::kInfinity) {
        ++nan;
      } else if (bits == magnitude) {
        ++positive;
      } else {
        ++negative;
      }
    }
    finite = WarpSum(finite);
    for (u32 width = kWarp / 2; width > 0; width /= 2) {
      const Key other_low = __shfl_xor_sync(kFull, low, width);
      const Key other_high = __shfl_xor_sync(kFull, high, width);
      low = other_low < low ? other_low : low;
      high = other_high > high ? other_high : high;
    }
    if (lane == 0) {
      using Bits = typename E::Bits;
      state->finite[tile][warp] = finite;
      state->min[tile][warp] =
          finite == 0 ? TileInfinity()
                      : E::Value(static_cast<Bits>(OrderOf<E>(static_cast<Bits>(low))));
      state->max[tile][warp] =
          finite == 0 ? -TileInfinity()
                      : E::Value(static_cast<Bits>(OrderOf<E>(static_cast<Bits>(high))));
    }
  }
  const u32 counts[5] = {nan, positive, negative, zeros, negative_zeros};
  for (u32 i = 0; i < 5; ++i) {
    const u32 sum = WarpSum(counts[i]);
    if (lane == 0) state->counts[i][warp] = sum;
  }
}

// Step 1 and 2 of core/statistics_tile.h for one tile.
__device__ __noinline__ void StartTile(u32 tile, RegionState* state) {
  TileMoments moments;
  for (u32 warp = 0; warp < kWarps; ++warp) {
    moments.finite += state->finite[tile][warp];
    moments.min = state->min[tile][warp] < moments.min ? state->min[tile][warp] : moments.min;
    moments.max = state->max[tile][warp] > moments.max ? state->max[tile][warp] : moments.max;
  }
  if (moments.finite != 0) {
    moments.min = TileAdd(moments.min, 0);
    moments.max = TileAdd(moments.max, 0);
    moments.scale = TileScale(moments.min, moments.max);
  }
  state->tiles[tile] = moments;
  state->again[tile] = 0;
}

// One lane of one tile: its elements that are finite, scaled, in order.
template <class E, class Each>
__device__ void ForLane(const u64* payload, u32 elements, u32 tile, u32 lane,
                        const RegionState& state, const Each& each) {
  const double factor = TileFactor(state.tiles[tile].scale);
  const u32 begin = tile * kTileElements, end = min(elements, begin + kTileElements);
  if (factor == 1 && state.tiles[tile].finite == end - begin) {  // times 1 is as it is
#pragma unroll 8
    for (u32 i = begin + lane; i < end; i += kTileLanes)
      each(E::Value(E::At(payload, state.table, i)));
    return;
  }
#pragma unroll 1
  for (u32 i = begin + lane; i < end; i += kTileLanes) {
    const typename E::Bits bits = E::At(payload, state.table, i);
    if ((bits & ~E::kSign) < E::kInfinity) each(TileMultiply(E::Value(bits), factor));
  }
}

// Step 3: one lane of one tile.
template <class E>
__device__ void SumLane(const u64* payload, u32 elements, u32 tile, u32 lane, RegionState* state) {
  double sum = 0, l1 = 0, squares = 0;
  ForLane<E>(payload, elements, tile, lane, *state, [&](double x) {
    sum = TileAdd(sum, x);
    l1 = TileAdd(l1, TileAbs(x));
    squares = TileAdd(squares, TileMultiply(x, x));
  });
  state->lanes[0][tile][lane] = sum;
  state->lanes[1][tile][lane] = l1;
  state->lanes[2][tile][lane] = squares;
}

// Step 4, first part.
__device__ __noinline__ void FinishTile(u32 tile, RegionState* state) {
  TileMoments& moments = state->tiles[tile];
  if (moments.finite == 0) return;
  const double sum = LaneSum(state->lanes[0][tile]);
  moments.l1 = LaneSum(state->lanes[1][tile]);
  moments.squares = LaneSum(state->lanes[2][tile]);
  moments.mean = TileDivide(sum, moments.finite);
  state->again[tile] = !DeviationsFromSums(sum, moments.mean, moments.squares, &moments.m2);
}

// Step 4, second part.
template <class E>
__device__ __noinline__ void SumDeviations(const u64* payload, u32 elements, u32 tile, u32 lane,
                                           RegionState* state) {
  const double mean = state->tiles[tile].mean;
  double sum = 0;
  ForLane<E>(payload, elements, tile, lane, *state, [&](double x) {
    const double d = TileAdd(x, -mean);
    sum = TileAdd(sum, TileMultiply(d, d));
  });
  state->lanes[0][tile][lane] = sum;
}

__device__ __noinline__ void AddCounts(u32 thread, const RegionState& state, ValueCounts* counts) {
  u64* const fields[5] = {&counts->nan, &counts->positive_inf, &counts->negative_inf,
                          &counts->zeros, &counts->negative_zeros};
  if (thread < 5) {
    u64 sum = 0;
    for (u32 warp = 0; warp < kWarps; ++warp) sum += state.counts[thread][warp];
    if (sum != 0) atomicAdd(fields[thread], sum);
  } else if (thread >= kWarp && thread < kWarp + kHistogramBins) {
    u64 sum = 0;
    for (u32 warp = 0; warp < kWarps; ++warp) sum += state.histogram[warp][thread - kWarp];
    if (sum != 0) atomicAdd(&counts->histogram[thread - kWarp], sum);
  }
}

template <class E>
__device__ void ReduceRegion(const u64* payload, u32 bytes, u32 thread, RegionState* state,
                             ValueCounts* counts, TileMoments* out) {
  const u32 elements = bytes / E::kBytes;
  const u32 tiles = (elements + kTileElements - 1) / kTileElements;
  Classify<E>(payload, elements, thread, state);
  __syncthreads();
  if (thread < tiles) StartTile(thread, state);
  AddCounts(thread, *state, counts);
  __syncthreads();
  const u32 tile = thread / kTileLanes, lane = thread % kTileLanes;
  if (tile < tiles) SumLane<E>(payload, elements, tile, lane, state);
  __syncthreads();
  if (thread < tiles) FinishTile(thread, state);
  __syncthreads();
  if (tile < tiles && state->again[tile] != 0)
    SumDeviations<E>(payload, elements, tile, lane, state);
  __syncthreads();
  if (thread < tiles) {
    TileMoments moments = state->tiles[thread];
    if (state->again[thread] != 0) moments.m2 = LaneSum(state->lanes[0][thread]);
    out[thread] = moments;
  }
}

__device__ u32 BytesOf(KernelType type) {
  switch (type) {
    case KernelType::kFloat64:
      return 8;
    case KernelType::kFloat32:
      return 4;
    case KernelType::kBfloat16:
    case KernelType::kFloat16:
      return 2;
    default:
      return 1;
  }
}

__device__ void ReduceTyped(KernelType type, const u64* payload, u32 bytes, u32 thread,
                            RegionState* state, ValueCounts* counts, TileMoments* out) {
  switch (type) {
    case KernelType::kFloat64:
      return ReduceRegion<Float64>(payload, bytes, thread, state, counts, out);
    case KernelType::kFloat32:
      return ReduceRegion<Float32>(payload, bytes, thread, state, counts, out);
    case KernelType::kBfloat16:
      return ReduceRegion<Bfloat16>(payload, bytes, thread, state, counts, out);
    case KernelType::kFloat16:
      return ReduceRegion<Float16>(payload, bytes, thread, state, counts, out);
    default:
      for (u32 i = thread; i < 256; i += ReduceArguments::kThreads)
        state->table[i] = FromFloat8(i, type);
      __syncthreads();
      return ReduceRegion<Float8>(payload, bytes, thread, state, counts, out);
  }
}

struct alignas(16) Words {
  u64 low, high;
};

__device__ void LoadRegion(u64 from, u32 bytes, u32 thread, u64* region) {
  u32 done = 0;
  if (from % 16 == 0) {
    done = bytes / 16 * 16;
#pragma unroll 8
    for (u32 i = thread; i < bytes / 16; i += ReduceArguments::kThreads)
      reinterpret_cast<Words*>(region)[i] = reinterpret_cast<const Words*>(from)[i];
  }
  u8* bytewise = reinterpret_cast<u8*>(region);
  for (u32 i = done + thread; i < bytes; i += ReduceArguments::kThreads)
    bytewise[i] = reinterpret_cast<const u8*>(from)[i];
}

}  // namespace tdump::collectors

// Moments, and digests too where they are wanted: each block looks at its region once.
extern "C" __global__ void __launch_bounds__(tdump::collectors::ReduceArguments::kThreads,
                                             tdump::collectors::ReduceArguments::kBlocks)
    tdump_reduce(tdump::collectors::ReduceArguments a) {
  using namespace tdump;
  using namespace tdump::collectors;
  __shared__ u64 state_memory[(sizeof(RegionState) + 7) / 8];  // no constructor runs
  RegionState& state = *reinterpret_cast<RegionState*>(state_memory);
  const u32 thread = threadIdx.x, warp = thread / kWarp, most = a.region;
  const u64 begin = static_cast<u64>(blockIdx.x) * most;
  const u32 bytes = static_cast<u32>(min(a.bytes - begin, static_cast<u64>(most)));

  LoadRegion(a.from + begin, bytes, thread, tdump_region);
  __syncthreads();
  if (a.moments != 0) {
    const u64 first = begin / BytesOf(a.type) / kTileElements;
    ReduceTyped(a.type, tdump_region, bytes, thread, &state,
                reinterpret_cast<ValueCounts*>(a.counts),
                reinterpret_cast<TileMoments*>(a.moments) + first);
  }
  if (a.digests != 0 && warp * kTileBytes < bytes) {
    u8* out = reinterpret_cast<u8*>(a.digests) + (begin / kTileBytes + warp) * 16;
    HashTile(tdump_region + warp * (kTileBytes / 8), min(bytes - warp * kTileBytes, kTileBytes),
             thread % kWarp, out);
  }
}

// Digests alone, of a payload aligned to 8: one warp a tile, from where it lies.
extern "C" __global__ void __launch_bounds__(128)
    tdump_digest(tdump::collectors::ReduceArguments a) {
  using namespace tdump::collectors;
  const u64 tile = (static_cast<u64>(blockIdx.x) * ReduceArguments::kThreads + threadIdx.x) / kWarp;
  const u64 begin = tile * kTileBytes;
  if (begin >= a.bytes) return;
  HashTile(reinterpret_cast<const u64*>(a.from + begin),
           static_cast<u32>(min(a.bytes - begin, static_cast<u64>(kTileBytes))),
           threadIdx.x % kWarp, reinterpret_cast<u8*>(a.digests) + tile * 16);
}

// ---- gather ----

namespace tdump::collectors {

struct Unit16 {
  u64 low, high;
};

template <class Index>
__device__ u64 OffsetOf(const GatherArguments& a, u64 unit) {
  Index rest = static_cast<Index>(unit), offset = 0;
#pragma unroll 1
  for (u32 i = a.dimensions; i-- > 0;) {
    const Index size = static_cast<Index>(a.sizes[i]), next = rest / size;
    offset += (rest - next * size) * static_cast<Index>(a.strides[i]);
    rest = next;
  }
  return offset;
}

template <class Unit>
__device__ void GatherUnits(const GatherArguments& a) {
  const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
  for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count; i += step) {
    const u64 offset =
        a.narrow != 0 ? OffsetOf<u32>(a, a.first + i) : OffsetOf<u64>(a, a.first + i);
    Unit value = reinterpret_cast<const Unit*>(a.from)[offset];
    if (a.negate != 0) value = static_cast<Unit>(0 - value);
    reinterpret_cast<Unit*>(a.to)[i] = static_cast<Unit>(value ^ static_cast<Unit>(a.flip[0]));
  }
}
__device__ void GatherUnits16(const GatherArguments& a) {
  const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
  for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count; i += step) {
    const u64 offset =
        a.narrow != 0 ? OffsetOf<u32>(a, a.first + i) : OffsetOf<u64>(a, a.first + i);
    const Unit16 value = reinterpret_cast<const Unit16*>(a.from)[offset];
    reinterpret_cast<Unit16*>(a.to)[i] = {value.low ^ a.flip[0], value.high ^ a.flip[1]};
  }
}

}  // namespace tdump::collectors

extern "C" __global__ void tdump_gather(tdump::collectors::GatherArguments a) {
  using namespace tdump::collectors;
  switch (a.unit_bytes) {
    case 1:
      return GatherUnits<u8>(a);
    case 2:
      return GatherUnits<unsigned short>(a);
    case 4:
      return GatherUnits<u32>(a);
    case 8:
      return GatherUnits<u64>(a);
    case 16:
      return GatherUnits16(a);
  }
}
