// What the kernels are given, as the host and kernels.cu see it. Includes nothing: kernels.cu is
// compiled at run time, where there are no headers.
#pragma once

namespace tdump::collectors {

// Units [first, first + count) of the canonical form of a strided tensor.
struct GatherArguments {
  static constexpr unsigned kMaxDimensions = 16;
  unsigned long long to, from, first, count;
  unsigned long long sizes[kMaxDimensions], strides[kMaxDimensions];  // units
  unsigned long long flip[2];  // bits of a unit that are turned, low 8 bytes first
  unsigned dimensions, unit_bytes;
  unsigned negate;  // two's complement
  unsigned narrow;  // every index and offset fits 32 bits
};

// What the elements are; values whose statistics the kernel knows.
enum class KernelType : unsigned {
  kNone = 0,
  kFloat64,
  kFloat32,
  kBfloat16,
  kFloat16,
  kFloat8E4m3fn,
  kFloat8E5m2,
  kFloat8E4m3fnuz,
  kFloat8E5m2fnuz,
};

// Digests and moments of one payload. Each block takes a region of it: whole tiles of
// the hash (16 KiB) and of statistics (4,096 elements).
struct ReduceArguments {
  static constexpr unsigned kRegion = 16384;      // bytes, also of shared memory at the launch
  static constexpr unsigned kWideRegion = 32768;  // of elements of 8 bytes
  static constexpr unsigned kThreads = 128;
  static constexpr unsigned kBlocks = 8;  // at least, on a multiprocessor
  unsigned long long from, bytes;
  unsigned long long digests;  // 16 bytes for each 16 KiB; 0: not wanted
  unsigned long long moments;  // TileMoments for each 4,096 elements; 0: not wanted
  unsigned long long counts;   // one ValueCounts, zeroed before
  KernelType type;
  unsigned region;
};

}  // namespace tdump::collectors
