// The kernels, compiled for the host: digests against libxxhash, moments against the definition in
// core/statistics_tile.h, gathers against CopyStrided.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "collectors/device/strided_source.h"
#include "collectors/torch/strided_copy.h"
#include "tests/collectors/cuda/host_threads.h"

#include "collectors/cuda/kernels.cu"

namespace tdump::collectors {
namespace {

uint64_t Address(const void* data) { return reinterpret_cast<uint64_t>(data); }

std::vector<uint8_t> Random(size_t bytes, uint64_t seed = 1) {
  std::vector<uint8_t> data(bytes);
  for (uint8_t& byte : data) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(seed >> 56);
  }
  return data;
}

unsigned Blocks(const ReduceArguments& a) {
  return static_cast<unsigned>((a.bytes + a.region - 1) / a.region);
}

std::vector<uint8_t> DigestsByKernel(const uint8_t* data, size_t bytes) {
  std::vector<uint64_t> out((bytes + kTileBytes - 1) / kTileBytes * 2);
  const ReduceArguments arguments{.from = Address(data),
                                  .bytes = bytes,
                                  .digests = Address(out.data()),
                                  .type = KernelType::kNone,
                                  .region = ReduceArguments::kRegion};
  if (arguments.from % 8 == 0)
    play::Launch(tdump_digest, (Blocks(arguments) + 3) / 4, ReduceArguments::kThreads, arguments);
  else
    play::Launch(tdump_reduce, Blocks(arguments), ReduceArguments::kThreads, arguments);
  const auto* begin = reinterpret_cast<const uint8_t*>(out.data());
  return {begin, begin + out.size() * 8};
}

std::vector<uint8_t> DigestsByLibrary(const uint8_t* data, size_t bytes) {
  std::vector<uint8_t> out;
  for (size_t at = 0; at < bytes; at += kTileBytes) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical,
                             XXH3_128bits(data + at, std::min<size_t>(kTileBytes, bytes - at)));
    out.insert(out.end(), canonical.digest, canonical.digest + 16);
  }
  return out;
}

TEST(Kernels, DigestsOfEveryShortLength) {
  const std::vector<uint8_t> data = Random(400);
  for (size_t bytes = 1; bytes <= 321; ++bytes) {
    EXPECT_EQ(DigestsByKernel(data.data(), bytes), DigestsByLibrary(data.data(), bytes)) << bytes;
  }
}

TEST(Kernels, DigestsOfLongerLengths) {
  const std::vector<uint8_t> data = Random(100'000, 7);
  for (size_t bytes : {1023, 1024, 1025, 1087, 1088, 1089, 2048, 16'383, 16'384, 16'385, 32'768,
                       32'770, 49'152 + 240, 65'536 + 241, 100'000}) {
    EXPECT_EQ(DigestsByKernel(data.data(), bytes), DigestsByLibrary(data.data(), bytes)) << bytes;
  }
}

TEST(Kernels, DigestsOfDataThatIsNotAligned) {
  const std::vector<uint8_t> data = Random(40'000, 3);
  for (size_t offset : {1, 2, 4, 7}) {
    EXPECT_EQ(DigestsByKernel(data.data() + offset, 33'333),
              DigestsByLibrary(data.data() + offset, 33'333));
  }
}

struct Reduced {
  std::vector<TileMoments> tiles;
  ValueCounts counts;
};

Reduced MomentsByKernel(KernelType type, const void* data, size_t bytes) {
  const size_t tile = size_t{kTileElements} * BytesOf(type);
  Reduced out;
  out.tiles.resize((bytes + tile - 1) / tile);
  const ReduceArguments arguments{.from = Address(data),
                                  .bytes = bytes,
                                  .moments = Address(out.tiles.data()),
                                  .counts = Address(&out.counts),
                                  .type = type,
                                  .region = type == KernelType::kFloat64
                                                ? ReduceArguments::kWideRegion
                                                : ReduceArguments::kRegion};
  play::Launch(tdump_reduce, Blocks(arguments), ReduceArguments::kThreads, arguments);
  return out;
}

// By the definition, one value after another.
Reduced MomentsByDefinition(const std::vector<double>& values) {
  Reduced out;
  for (size_t at = 0; at < values.size(); at += kTileElements) {
    const int elements = static_cast<int>(std::min<size_t>(kTileElements, values.size() - at));
    out.tiles.push_back(MomentsOfTile(elements, [&](int i) { return values[at + i]; }));
  }
  for (double x : values) {
    if (std::isnan(x)) ++out.counts.nan;
    if (std::isinf(x)) ++(x > 0 ? out.counts.positive_inf : out.counts.negative_inf);
    if (x == 0) ++out.counts.zeros;
    if (x == 0 && std::signbit(x)) ++out.counts.negative_zeros;
    if (std::isfinite(x) && x != 0) ++out.counts.histogram[HistogramBin(x)];
  }
  return out;
}

void ExpectSame(const Reduced& kernel, const Reduced& definition) {
  ASSERT_EQ(kernel.tiles.size(), definition.tiles.size());
  for (size_t i = 0; i < kernel.tiles.size(); ++i) {  // bit by bit
    EXPECT_EQ(std::memcmp(&kernel.tiles[i], &definition.tiles[i], sizeof(TileMoments)), 0)
        << "tile " << i << ": mean " << kernel.tiles[i].mean << " and " << definition.tiles[i].mean
        << ", m2 " << kernel.tiles[i].m2 << " and " << definition.tiles[i].m2;
  }
  EXPECT_EQ(std::memcmp(&kernel.counts, &definition.counts, sizeof(ValueCounts)), 0);
}

// Values around zero, values far from zero (the mean dominates), tiny, huge and special ones.
std::vector<double> Values(size_t count, uint64_t seed) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(seed >> 11) * 0x1p-53 - 0.5;
    values[i] = i / kTileElements % 2 == 0 ? unit : 1000 + unit;
    if (seed % 97 == 0) values[i] = 0;
    if (seed % 101 == 0) values[i] = -0.0;
    if (seed % 1009 == 0) values[i] = std::numeric_limits<double>::quiet_NaN();
    if (seed % 1013 == 0) values[i] = std::numeric_limits<double>::infinity();
    if (seed % 1019 == 0) values[i] = -std::numeric_limits<double>::infinity();
  }
  return values;
}

TEST(Kernels, MomentsOfFloat64) {
  std::vector<double> values = Values(20'000, 5);
  for (size_t i = 8192; i < 9000; ++i) values[i] *= 1e300;
  for (size_t i = 12'288; i < 16'384; ++i) values[i] = 1e-300;
  ExpectSame(MomentsByKernel(KernelType::kFloat64, values.data(), values.size() * 8),
             MomentsByDefinition(values));
}

TEST(Kernels, MomentsOfFloat32) {
  const std::vector<double> values = Values(20'001, 6);
  std::vector<float> narrow(values.begin(), values.end());
  ExpectSame(MomentsByKernel(KernelType::kFloat32, narrow.data(), narrow.size() * 4),
             MomentsByDefinition({narrow.begin(), narrow.end()}));
}

TEST(Kernels, MomentsOfBfloat16) {
  const std::vector<uint8_t> bytes = Random(2 * 10'000, 9);  // every kind of value
  std::vector<double> values;
  for (size_t i = 0; i < 10'000; ++i) {
    uint16_t half;
    std::memcpy(&half, &bytes[2 * i], 2);
    values.push_back(std::bit_cast<float>(uint32_t{half} << 16));
  }
  ExpectSame(MomentsByKernel(KernelType::kBfloat16, bytes.data(), bytes.size()),
             MomentsByDefinition(values));
}

TEST(Kernels, MomentsOfAnEmptyOfValuesTile) {
  const std::vector<float> nans(5000, std::numeric_limits<float>::quiet_NaN());
  ExpectSame(MomentsByKernel(KernelType::kFloat32, nans.data(), nans.size() * 4),
             MomentsByDefinition({nans.begin(), nans.end()}));
}

// Values of the standards (IEEE 754 half precision; "FP8 Formats for Deep Learning", 2022; the fnuz
// forms of "8-bit Numerical Formats for Deep Neural Networks", 2022), worked out by hand.
TEST(Kernels, SmallFloats) {
  const auto value = [](KernelType type, uint32_t bits) {
    const u64 word = bits;
    return type == KernelType::kFloat16 ? Float16::Value(Float16::At(&word, nullptr, 0))
                                        : Float8::Value(FromFloat8(bits, type));
  };
  EXPECT_EQ(value(KernelType::kFloat16, 0x3c00), 1);
  EXPECT_EQ(value(KernelType::kFloat16, 0xc001), -2 - 0x1p-9);
  EXPECT_EQ(value(KernelType::kFloat16, 0x7bff), 65504);
  EXPECT_EQ(value(KernelType::kFloat16, 0x0001), 0x1p-24);
  EXPECT_EQ(value(KernelType::kFloat16, 0xfc00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(value(KernelType::kFloat16, 0x7c01)));
  EXPECT_TRUE(std::signbit(value(KernelType::kFloat16, 0x8000)));
  EXPECT_EQ(value(KernelType::kFloat8E4m3fn, 0x7e), 448);
  EXPECT_EQ(value(KernelType::kFloat8E4m3fn, 0x01), 0x1p-9);
  EXPECT_EQ(value(KernelType::kFloat8E4m3fn, 0xb8), -1);
  EXPECT_TRUE(std::isnan(value(KernelType::kFloat8E4m3fn, 0xff)));
  EXPECT_EQ(value(KernelType::kFloat8E5m2, 0x7b), 57344);
  EXPECT_EQ(value(KernelType::kFloat8E5m2, 0x7c), std::numeric_limits<double>::infinity());
  EXPECT_EQ(value(KernelType::kFloat8E5m2, 0x01), 0x1p-16);
  EXPECT_EQ(value(KernelType::kFloat8E4m3fnuz, 0x7f), 240);
  EXPECT_EQ(value(KernelType::kFloat8E4m3fnuz, 0x40), 1);
  EXPECT_TRUE(std::isnan(value(KernelType::kFloat8E4m3fnuz, 0x80)));
  EXPECT_EQ(value(KernelType::kFloat8E5m2fnuz, 0x7f), 57344);
  EXPECT_EQ(value(KernelType::kFloat8E5m2fnuz, 0x40), 1);
  EXPECT_TRUE(std::isnan(value(KernelType::kFloat8E5m2fnuz, 0x80)));
}

TEST(Kernels, DigestsAndMomentsInOnePass) {
  const std::vector<uint8_t> data = Random(50'000, 11);
  std::vector<uint64_t> digests(8);
  Reduced out;
  out.tiles.resize(13);
  const ReduceArguments arguments{.from = Address(data.data()),
                                  .bytes = data.size(),
                                  .digests = Address(digests.data()),
                                  .moments = Address(out.tiles.data()),
                                  .counts = Address(&out.counts),
                                  .type = KernelType::kFloat8E5m2,
                                  .region = ReduceArguments::kRegion};
  play::Launch(tdump_reduce, Blocks(arguments), ReduceArguments::kThreads, arguments);
  const std::vector<uint8_t> expected = DigestsByLibrary(data.data(), data.size());
  EXPECT_EQ(std::memcmp(digests.data(), expected.data(), expected.size()), 0);
  std::vector<double> values;
  for (uint8_t byte : data) {
    const uint16_t half = static_cast<uint16_t>(byte << 8);  // e5m2 is the upper half of float16
    const u64 word = half;
    values.push_back(Float16::Value(Float16::At(&word, nullptr, 0)));
  }
  ExpectSame(out, MomentsByDefinition(values));
}

struct Case {
  std::vector<int64_t> sizes, strides;
};

TEST(Kernels, GathersAreTheCanonicalForm) {
  const std::vector<uint8_t> base = Random(16 * 600, 13);
  const Case cases[] = {
      {{6, 5}, {1, 6}},         {{3, 4, 5}, {40, 10, 2}}, {{7}, {3}},
      {{2, 1, 3}, {100, 9, 7}}, {{4, 3}, {0, 2}},         {{2, 2, 2, 2, 2}, {1, 2, 4, 8, 16}},
  };
  for (uint32_t unit : {1, 2, 4, 8, 16}) {
    for (const Case& one : cases) {
      StridedSource source;
      ASSERT_TRUE(MakeStridedSource(Address(base.data()), one.sizes, one.strides, unit,
                                    NumberKind::kInteger, false, false, &source));
      std::vector<std::byte> expected(source.bytes()), got(source.bytes());
      CopyStrided({reinterpret_cast<const std::byte*>(base.data()), one.sizes, one.strides, unit},
                  expected.data());
      for (unsigned narrow : {0, 1}) {
        for (uint64_t first : {uint64_t{0}, source.units / 2}) {  // in pieces too
          GatherArguments a{.to = Address(got.data() + first * unit),
                            .from = source.address,
                            .first = first,
                            .count = first == 0 ? source.units / 2 : source.units - first,
                            .dimensions = source.dimensions,
                            .unit_bytes = unit,
                            .narrow = narrow};
          std::copy_n(source.sizes, source.dimensions, a.sizes);
          std::copy_n(source.strides, source.dimensions, a.strides);
          play::Launch(tdump_gather, 2, 8, a);
        }
        EXPECT_EQ(got, expected) << "unit " << unit;
      }
    }
  }
}

TEST(Kernels, GathersResolveSigns) {
  const int16_t integers[] = {1, -2, 0, -32768};
  int16_t out[4];
  GatherArguments a{.to = Address(out),
                    .from = Address(integers),
                    .count = 4,
                    .dimensions = 1,
                    .unit_bytes = 2,
                    .negate = 1};
  a.sizes[0] = 4;
  a.strides[0] = 1;
  play::Launch(tdump_gather, 1, 4, a);
  EXPECT_EQ((std::vector<int16_t>(out, out + 4)), (std::vector<int16_t>{-1, 2, 0, -32768}));

  const double complex[] = {1, 2, -3, 0};  // conj
  double conj[4];
  GatherArguments b{.to = Address(conj),
                    .from = Address(complex),
                    .count = 2,
                    .flip = {0, uint64_t{1} << 63},
                    .dimensions = 1,
                    .unit_bytes = 16};
  b.sizes[0] = 2;
  b.strides[0] = 1;
  play::Launch(tdump_gather, 1, 4, b);
  EXPECT_EQ(conj[0], 1);
  EXPECT_EQ(conj[1], -2);
  EXPECT_EQ(conj[2], -3);
  EXPECT_TRUE(conj[3] == 0 && std::signbit(conj[3]));
}

}  // namespace
}  // namespace tdump::collectors
