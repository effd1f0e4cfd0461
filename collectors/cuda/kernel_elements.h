// The element types of payloads on the device: how their bits are read, ordered and classed. Every
// value is exact.
#pragma once

#include "collectors/cuda/kernel_arguments.h"
#include "collectors/cuda/kernel_words.h"
#include "core/statistics_tile.h"

namespace tdump::collectors {

#if defined(__CUDA_ARCH__)
__device__ double FromBits64(u64 bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
__device__ float FromBits32(u32 bits) { return __uint_as_float(bits); }
__device__ u32 ToBits32(float value) { return __float_as_uint(value); }
#else
__device__ double FromBits64(u64 bits) { return __builtin_bit_cast(double, bits); }
__device__ float FromBits32(u32 bits) { return __builtin_bit_cast(float, bits); }
__device__ u32 ToBits32(float value) { return __builtin_bit_cast(u32, value); }
#endif

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

#if defined(__CUDA_ARCH__)
__device__ u32 FromFloat16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return ToBits32(value);
}
#else
__device__ u32 FromFloat16(unsigned short bits) { return FromSmall(bits, 5, 10, 15, 0); }
#endif

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
    return FromFloat16(reinterpret_cast<const unsigned short*>(payload)[index]);
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

}  // namespace tdump::collectors
