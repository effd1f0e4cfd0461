// Snapshots on a real CUDA device; skipped where there is none (tests/gpu/run.sh runs it where
// there is one). Prints what it measured as lines "measured NAME VALUE UNIT".
#include "collectors/cuda/cuda_device.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "collectors/device/stager.h"
#include "core/statistics.h"

namespace tdump::collectors::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using State = DeviceCopy::State;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What a job does with CUDA and tdump does not: functions of the driver beyond Driver.
struct Job {
  using StreamFn = Code (*)(Stream);
  const Driver* driver = nullptr;
  Context context = nullptr;
  Code (*to_device)(DevicePointer, const void*, size_t) = nullptr;
  Code (*to_host)(void*, DevicePointer, size_t) = nullptr;
  StreamFn synchronize = nullptr, query = nullptr;
  Code (*begin_capture)(Stream, int) = nullptr;
  Code (*end_capture)(Stream, void**) = nullptr;
  Code (*memory_info)(size_t*, size_t*) = nullptr;

  static Job* Get() {
    static Job* job = Make();
    return job;
  }

 private:
  template <class F>
  static void Find(void* library, const char* name, F* function) {
    *function = reinterpret_cast<F>(dlsym(library, name));
  }
  static Job* Make() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library == nullptr) return nullptr;
    Code (*init)(unsigned) = nullptr;
    Find(library, "cuInit", &init);
    int count = 0;
    auto driver = Driver::Get();
    if (init(0) != kSuccess || !driver.ok()) return nullptr;
    if ((*driver)->device_count(&count) != kSuccess || count == 0) return nullptr;
    auto* job = new Job;
    job->driver = *driver;
    (void)job->driver->primary_retain(&job->context, 0);
    (void)job->driver->context_push(job->context);
    Find(library, "cuMemcpyHtoD_v2", &job->to_device);
    Find(library, "cuMemcpyDtoH_v2", &job->to_host);
    Find(library, "cuStreamSynchronize", &job->synchronize);
    Find(library, "cuStreamQuery", &job->query);
    Find(library, "cuStreamBeginCapture_v2", &job->begin_capture);
    Find(library, "cuStreamEndCapture", &job->end_capture);
    Find(library, "cuMemGetInfo_v2", &job->memory_info);
    return job;
  }
};

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kStaging = 256 * kMiB;

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    job = Job::Get();
    if (job == nullptr) GTEST_SKIP() << "no CUDA device";
    static Stager* shared = MakeStager();
    stager = shared;
    ASSERT_NE(stager, nullptr);
  }
  static Stager* MakeStager() {
    auto device = CudaDevice::Open(0);
    EXPECT_TRUE(device.ok()) << device.status().message();
    if (!device.ok()) return nullptr;
    const auto start = Clock::now();
    auto stager = Stager::Make(device->release(), {.bytes = kStaging});
    EXPECT_TRUE(stager.ok()) << stager.status().message();
    std::printf("measured start %.3f s\n", SecondsSince(start));
    return stager.ok() ? std::move(stager).value().release() : nullptr;
  }
  Stream NewStream() {
    Stream stream = nullptr;
    EXPECT_EQ(job->driver->stream_create(&stream, kStreamNonBlocking), kSuccess);
    return stream;
  }
  DevicePointer Take(uint64_t bytes) {
    DevicePointer memory = 0;
    EXPECT_EQ(job->driver->memory_take(&memory, bytes), kSuccess);
    taken_.push_back(memory);
    return memory;
  }
  DevicePointer Put(const void* data, uint64_t bytes) {
    const DevicePointer memory = Take(bytes);
    EXPECT_EQ(job->to_device(memory, data, bytes), kSuccess);
    return memory;
  }
  void TearDown() override {
    for (DevicePointer memory : taken_) (void)job->driver->memory_give(memory);
  }
  static Stager::Request Bytes(DevicePointer from, uint64_t bytes, Parts parts, Stream stream) {
    Stager::Request request{.dtype = MakeDType("uint8", 8),
                            .parts = parts,
                            .stream = stream,
                            .max_wait_ns = 10'000'000'000};
    const int64_t size[] = {static_cast<int64_t>(bytes)}, stride[] = {1};
    EXPECT_TRUE(MakeStridedSource(from, size, stride, 1, NumberKind::kInteger, false, false,
                                  &request.source));
    return request;
  }
  // As the sink does.
  static State WaitFor(DeviceCopy* copy) {
    const auto start = Clock::now();
    State state;
    while ((state = copy->Poll()) == State::kPending && SecondsSince(start) < 20)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    return state;
  }
  // So much work that the stream is busy for a while after this returns.
  void KeepBusy(Stream stream, DevicePointer scratch, uint64_t bytes, int times) {
    for (int i = 0; i < times; ++i)
      ASSERT_EQ(job->driver->fill(scratch, 1, bytes, stream), kSuccess);
  }
  static bool AllAre(const DeviceCopy& copy, int value, uint64_t bytes) {
    if (copy.payload().size() != bytes) return false;
    const std::byte wanted{static_cast<uint8_t>(value)};
    for (std::byte byte : copy.payload()) {
      if (byte != wanted) return false;
    }
    return true;
  }

  Job* job = nullptr;
  Stager* stager = nullptr;

 private:
  std::vector<DevicePointer> taken_;
};

// Case E03 of the faults: filled with 7, refilled with 9 right after, on the same stream.
TEST_F(CudaDeviceTest, TheValueAtThatMoment) {
  const Stream stream = NewStream();
  const uint64_t bytes = 100 * kMiB;
  const DevicePointer data = Take(bytes), scratch = Take(1024 * kMiB);
  KeepBusy(stream, scratch, 1024 * kMiB, 50);
  (void)job->driver->fill(data, 7, bytes, stream);
  const auto start = Clock::now();
  const Stager::Outcome outcome = stager->Begin(Bytes(data, bytes, kLevelFull, stream));
  const double begin = SecondsSince(start);
  const Code still = job->query(stream);
  (void)job->driver->fill(data, 9, bytes, stream);
  ASSERT_NE(outcome.copy, nullptr) << outcome.detail;
  // The calling thread waited for nothing: the fills before the copy are still running.
  EXPECT_EQ(still, kNotReady);
  std::printf("measured begin_while_busy %.1f us\n", begin * 1e6);
  ASSERT_EQ(WaitFor(outcome.copy), State::kReady) << outcome.copy->error();
  EXPECT_TRUE(AllAre(*outcome.copy, 7, bytes));
  outcome.copy->Release();
  (void)job->synchronize(stream);
}

TEST_F(CudaDeviceTest, StreamsDoNotWaitForEachOther) {
  const Stream slow = NewStream(), fast = NewStream();
  const DevicePointer scratch = Take(1024 * kMiB), first = Take(kMiB), second = Take(kMiB);
  KeepBusy(slow, scratch, 1024 * kMiB, 200);
  (void)job->driver->fill(first, 1, kMiB, slow);
  (void)job->driver->fill(second, 2, kMiB, fast);
  DeviceCopy* late = stager->Begin(Bytes(first, kMiB, kLevelFull, slow)).copy;
  DeviceCopy* early = stager->Begin(Bytes(second, kMiB, kLevelFull, fast)).copy;
  ASSERT_TRUE(late != nullptr && early != nullptr);
  ASSERT_EQ(WaitFor(early), State::kReady);
  EXPECT_EQ(late->Poll(), State::kPending);
  EXPECT_TRUE(AllAre(*early, 2, kMiB));
  ASSERT_EQ(WaitFor(late), State::kReady);
  EXPECT_TRUE(AllAre(*late, 1, kMiB));
  late->Release();
  early->Release();
}

TEST_F(CudaDeviceTest, ViewsOfEveryWidth) {
  const Stream stream = NewStream();
  std::mt19937 random(1);
  std::vector<uint8_t> base(16 * 4096);
  for (uint8_t& byte : base) byte = static_cast<uint8_t>(random());
  const DevicePointer data = Put(base.data(), base.size());
  const int64_t sizes[] = {31, 5, 20}, strides[] = {1, 800, 33};
  for (uint32_t unit : {1, 2, 4, 8, 16}) {
    Stager::Request request{.parts = kLevelFull, .stream = stream};
    ASSERT_TRUE(MakeStridedSource(data, sizes, strides, unit, NumberKind::kInteger, false, false,
                                  &request.source));
    DeviceCopy* copy = stager->Begin(request).copy;
    ASSERT_NE(copy, nullptr);
    ASSERT_EQ(WaitFor(copy), State::kReady) << copy->error();
    std::vector<std::byte> expected(31 * 5 * 20 * unit);
    CopyStrided({reinterpret_cast<const std::byte*>(base.data()), sizes, strides, unit},
                expected.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), copy->payload().begin(),
                           copy->payload().end()))
        << unit;
    copy->Release();
  }
}

std::vector<uint8_t> DigestsByLibrary(const std::vector<uint8_t>& data, size_t offset = 0) {
  std::vector<uint8_t> out;
  for (size_t at = offset; at < data.size(); at += 16384) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical,
                             XXH3_128bits(&data[at], std::min<size_t>(16384, data.size() - at)));
    out.insert(out.end(), canonical.digest, canonical.digest + 16);
  }
  return out;
}

TEST_F(CudaDeviceTest, DigestsAreThoseOfTheLibrary) {
  const Stream stream = NewStream();
  std::mt19937 random(2);
  for (size_t bytes : {1, 3, 8, 16, 100, 200, 241, 1025, 16384, 16385, 3'000'000}) {
    std::vector<uint8_t> base(bytes + 1);
    for (uint8_t& byte : base) byte = static_cast<uint8_t>(random());
    const DevicePointer data = Put(base.data(), base.size());
    for (size_t offset : {0, 1}) {  // not aligned, too
      DeviceCopy* copy =
          stager->Begin(Bytes(data + offset, base.size() - offset, kPartHash, stream)).copy;
      ASSERT_NE(copy, nullptr);
      ASSERT_EQ(WaitFor(copy), State::kReady) << copy->error();
      EXPECT_TRUE(copy->payload().empty());
      const std::vector<uint8_t> digests(copy->digests().begin(), copy->digests().end());
      EXPECT_EQ(digests, DigestsByLibrary(base, offset)) << bytes;
      copy->Release();
    }
  }
}

template <class T>
Statistics ByDefinition(const std::vector<T>& data, double (*value)(T)) {
  std::vector<TileMoments> level;
  ValueCounts counts;
  for (size_t at = 0; at < data.size(); at += kTileElements) {
    const int elements = static_cast<int>(std::min<size_t>(kTileElements, data.size() - at));
    level.push_back(MomentsOfTile(elements, [&](int i) { return value(data[at + i]); }));
  }
  while (level.size() > 1) {
    std::vector<TileMoments> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(Merge(level[i], level[i + 1]));
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  for (T element : data) {
    const double x = value(element);
    if (x != x) ++counts.nan;
    if (x == __builtin_huge_val()) ++counts.positive_inf;
    if (x == -__builtin_huge_val()) ++counts.negative_inf;
    if (x == 0) ++counts.zeros;
    if (x == 0 && std::signbit(x)) ++counts.negative_zeros;
    if (x != 0 && std::abs(x) < __builtin_huge_val()) ++counts.histogram[HistogramBin(x)];
  }
  return FinishStatistics(StatisticsKind::kReal, data.size(), counts, level[0]);
}

template <class T>
void ExpectStatistics(Stager* stager, DevicePointer data, const char* dtype, int bits,
                      size_t elements, Stream stream, const Statistics& expected,
                      State (*wait)(DeviceCopy*)) {
  Stager::Request request{.dtype = MakeDType(dtype, bits), .parts = kPartStats, .stream = stream};
  const int64_t size[] = {static_cast<int64_t>(elements)}, stride[] = {1};
  ASSERT_TRUE(MakeStridedSource(data, size, stride, sizeof(T), NumberKind::kFloat, false, false,
                                &request.source));
  DeviceCopy* copy = stager->Begin(request).copy;
  ASSERT_NE(copy, nullptr);
  ASSERT_EQ(wait(copy), State::kReady) << copy->error();
  ASSERT_NE(copy->statistics(), nullptr);
  EXPECT_TRUE(*copy->statistics() == expected)
      << dtype << ": mean " << copy->statistics()->mean << " and " << expected.mean << ", std "
      << copy->statistics()->std << " and " << expected.std;
  copy->Release();
}

TEST_F(CudaDeviceTest, StatisticsAreTheSameBitsAsOnTheHost) {
  const Stream stream = NewStream();
  std::mt19937 random(3);
  std::normal_distribution<float> normal(100, 3);
  std::vector<float> floats(1'000'003);
  for (float& x : floats) x = random() % 1000 == 0 ? 0 : normal(random);
  floats[5] = std::numeric_limits<float>::quiet_NaN();
  floats[70'000] = -std::numeric_limits<float>::infinity();
  ExpectStatistics<float>(stager, Put(floats.data(), floats.size() * 4), "float32", 32,
                          floats.size(), stream,
                          ByDefinition<float>(floats, [](float x) { return double{x}; }), WaitFor);
  std::vector<uint16_t> halves(500'001);
  for (uint16_t& x : halves) x = static_cast<uint16_t>(random());  // every kind of value
  ExpectStatistics<uint16_t>(
      stager, Put(halves.data(), halves.size() * 2), "bfloat16", 16, halves.size(), stream,
      ByDefinition<uint16_t>(
          halves, [](uint16_t x) { return double{std::bit_cast<float>(uint32_t{x} << 16)}; }),
      WaitFor);
  std::vector<double> doubles(50'000);
  for (double& x : doubles) x = normal(random) * 1e200;
  ExpectStatistics<double>(stager, Put(doubles.data(), doubles.size() * 8), "float64", 64,
                           doubles.size(), stream,
                           ByDefinition<double>(doubles, [](double x) { return x; }), WaitFor);
}

TEST_F(CudaDeviceTest, LargerThanTheRingInPieces) {
  const Stream stream = NewStream();
  const uint64_t bytes = 3 * kStaging + 12'345;
  const DevicePointer data = Take(bytes);
  (void)job->driver->fill(data, 5, bytes, stream);
  (void)job->driver->fill(data + bytes - 10, 6, 10, stream);
  const Stager::Request request = Bytes(data, bytes, kLevelFull, stream);
  EXPECT_EQ(stager->Begin(request).reason, SkipReason::kStagingLimit);
  std::vector<std::byte> out(bytes);
  Stager::Pieces pieces(stager, request);
  ASSERT_TRUE(pieces.CopyTo(0, out));
  EXPECT_EQ(static_cast<int>(out.front()), 5);
  EXPECT_EQ(static_cast<int>(out[bytes - 11]), 5);
  EXPECT_EQ(static_cast<int>(out[bytes - 10]), 6);
  EXPECT_EQ(static_cast<int>(out.back()), 6);
}

TEST_F(CudaDeviceTest, GraphCaptureIsLeftAlone) {
  const Stream stream = NewStream(), other = NewStream();
  const DevicePointer data = Take(kMiB);
  ASSERT_EQ(job->begin_capture(stream, 0), kSuccess);  // global mode, the strictest
  EXPECT_EQ(job->driver->fill(data, 1, kMiB, stream), kSuccess);
  const Stager::Outcome refused = stager->Begin(Bytes(data, kMiB, kLevelFull, stream));
  EXPECT_EQ(refused.reason, SkipReason::kCompiled);
  // A copy of another stream, polled meanwhile, does no harm either.
  DeviceCopy* copy = stager->Begin(Bytes(data, kMiB, kLevelFull, other)).copy;
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(WaitFor(copy), State::kReady) << copy->error();
  copy->Release();
  void* graph = nullptr;
  EXPECT_EQ(job->end_capture(stream, &graph), kSuccess);
  EXPECT_NE(graph, nullptr);
  EXPECT_EQ(stager->error(), "");
}

TEST_F(CudaDeviceTest, NothingIsAllocatedAfterTheStart) {
  const Stream stream = NewStream();
  const DevicePointer data = Take(kMiB);
  size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(job->memory_info(&before, &total), kSuccess);
  for (int i = 0; i < 100; ++i) {
    for (Parts parts : {kLevelFull, kPartHash}) {
      DeviceCopy* copy = stager->Begin(Bytes(data, kMiB, parts, stream)).copy;
      ASSERT_NE(copy, nullptr);
      ASSERT_EQ(WaitFor(copy), State::kReady);
      copy->Release();
    }
  }
  ASSERT_EQ(job->memory_info(&after, &total), kSuccess);
  EXPECT_EQ(before, after);
}

TEST_F(CudaDeviceTest, Figures) {
  const Stream stream = NewStream();
  const uint64_t bytes = 64 * kMiB;
  const DevicePointer data = Take(1024 * kMiB);
  (void)job->driver->fill(data, 3, 1024 * kMiB, stream);
  (void)job->synchronize(stream);
  const auto time = [&](const char* name, const Stager::Request& request, int count) {
    std::vector<DeviceCopy*> copies;
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) copies.push_back(stager->Begin(request).copy);
    const double begun = SecondsSince(start);
    (void)job->synchronize(stream);
    const double on_device = SecondsSince(start);
    for (DeviceCopy* copy : copies) {
      ASSERT_NE(copy, nullptr);
      ASSERT_EQ(WaitFor(copy), State::kReady);
    }
    const double all = SecondsSince(start), total = request.source.bytes() * count * 1e-9;
    for (DeviceCopy* copy : copies) copy->Release();
    std::printf("measured %s_begin %.2f us\n", name, begun / count * 1e6);
    std::printf("measured %s_on_stream %.0f GB/s\n", name, total / on_device);
    std::printf("measured %s_to_host %.1f GB/s\n", name, total / all);
  };
  for (int warm = 0; warm < 2; ++warm) time("full", Bytes(data, bytes, kLevelFull, stream), 3);
  time("full_small", Bytes(data, 4096, kLevelFull, stream), 2000);
  for (int warm = 0; warm < 2; ++warm) time("hash", Bytes(data, 1024 * kMiB, kPartHash, stream), 4);
  for (const auto& [name, bits] : {std::pair{"bfloat16", 16}, {"float32", 32}}) {
    for (Parts parts : {kPartStats, kPartStats | kPartHash}) {
      Stager::Request request = Bytes(data, 1024 * kMiB, parts, stream);
      request.dtype = MakeDType(name, bits);
      const std::string label =
          std::string(name) + (parts == kPartStats ? "_stats" : "_stats_hash");
      request.source.unit_bytes = bits / 8;
      request.source.units = request.source.sizes[0] = 1024 * kMiB / (bits / 8);
      time(label.c_str(), request, 4);
    }
  }
  Stager::Request view{.dtype = MakeDType("bfloat16", 16), .parts = kLevelFull, .stream = stream};
  const int64_t sizes[] = {4096, 4096}, strides[] = {1, 4096};
  ASSERT_TRUE(
      MakeStridedSource(data, sizes, strides, 2, NumberKind::kFloat, false, false, &view.source));
  time("transposed", view, 4);
}

}  // namespace
}  // namespace tdump::collectors::cuda
