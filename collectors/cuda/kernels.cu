// The kernels of tdump: gather a strided tensor into its canonical form; digests and statistics of
// a payload in one pass over it. Compiled by NVRTC on first use (collectors/cuda/compiler.h), and
// by a test for the host, where threads are played one after another (tests/collectors/cuda).
//
// Statistics follow core/statistics_tile.h, operation by operation; digests are those of
// kernel_digest.h.
#include "collectors/cuda/kernel_arguments.h"
#include "collectors/cuda/kernel_digest.h"
#include "collectors/cuda/kernel_elements.h"
#include "core/statistics_tile.h"

// What a block looks at; its size is given at the launch.
#if defined(__CUDACC__)
extern __shared__ __align__(16) unsigned long long tdump_region[];
#else
static unsigned long long tdump_region[32768 / 8] __align__(16);
#endif

namespace tdump::collectors {

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
