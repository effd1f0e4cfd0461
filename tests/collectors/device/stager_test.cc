#include "collectors/device/stager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "core/statistics.h"
#include "tests/collectors/device/fake_device.h"

namespace tdump::collectors {
namespace {

using State = DeviceCopy::State;

int job_streams[4];
const NativeStream kStream = &job_streams[0];
const NativeStream kOther = &job_streams[1];

struct StagerTest : testing::Test {
  std::unique_ptr<Stager> Make(StagerOptions options = {.bytes = 4096, .copies = 4}) {
    auto made = Stager::Make(&device, options);
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
  }
  Stager::Request Of(const std::vector<uint8_t>& data, Parts parts = kLevelFull,
                     NativeStream stream = kStream) {
    Stager::Request request{.parts = parts, .stream = stream, .max_wait_ns = max_wait_ns};
    const int64_t size[] = {static_cast<int64_t>(data.size())}, stride[] = {1};
    EXPECT_TRUE(MakeStridedSource(FakeDevice::Address(data.data()), size, stride, 1,
                                  NumberKind::kInteger, false, false, &request.source));
    return request;
  }
  static std::vector<uint8_t> Bytes(const DeviceCopy& copy) {
    const auto* data = reinterpret_cast<const uint8_t*>(copy.payload().data());
    return {data, data + copy.payload().size()};
  }
  // From begun to ready, the device doing all there is.
  void Finish(DeviceCopy* copy, NativeStream stream = kStream) {
    device.Run(stream);
    EXPECT_EQ(copy->Poll(), State::kPending);  // under way to the host
    device.Run(device.side());
    EXPECT_EQ(copy->Poll(), State::kReady);
  }

  FakeDevice device;
  int64_t max_wait_ns = 0;
};

TEST_F(StagerTest, TheValueAtThatMomentWhateverFollowsOnTheStream) {
  const auto stager = Make();
  std::vector<uint8_t> data(1000, 7);
  device.Enqueue(kStream, [&] { std::fill(data.begin(), data.end(), 8); });  // still to come
  const Stager::Outcome outcome = stager->Begin(Of(data));
  ASSERT_NE(outcome.copy, nullptr);
  device.Enqueue(kStream, [&] { std::fill(data.begin(), data.end(), 9); });  // in place, later
  EXPECT_EQ(outcome.copy->Poll(), State::kPending);
  Finish(outcome.copy);
  EXPECT_EQ(Bytes(*outcome.copy), std::vector<uint8_t>(1000, 8));
  EXPECT_EQ(data[0], 9);
  outcome.copy->Release();
  EXPECT_EQ(stager->under_way(), 0u);
}

TEST_F(StagerTest, NothingIsFetchedBeforeTheCopyIsDone) {
  const auto stager = Make();
  const std::vector<uint8_t> data(10, 1);
  DeviceCopy* copy = stager->Begin(Of(data)).copy;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(copy->Poll(), State::kPending);
  EXPECT_EQ(device.waiting(device.side()), 0u);
  Finish(copy);
}

TEST_F(StagerTest, AMemoryThatIsFreedAndReusedOnTheStreamIsNotSeen) {
  const auto stager = Make();
  auto data = std::make_unique<std::vector<uint8_t>>(512, 3);
  DeviceCopy* copy = stager->Begin(Of(*data)).copy;
  // As the caching allocator does: the memory goes to the next user of the same stream.
  device.Enqueue(kStream, [&] { data.reset(); });
  Finish(copy);
  EXPECT_EQ(Bytes(*copy), std::vector<uint8_t>(512, 3));
}

TEST_F(StagerTest, StreamsDoNotWaitForEachOther) {
  const auto stager = Make();
  const std::vector<uint8_t> first(100, 1), second(100, 2);
  DeviceCopy* slow = stager->Begin(Of(first)).copy;
  DeviceCopy* fast = stager->Begin(Of(second, kLevelFull, kOther)).copy;
  Finish(fast, kOther);
  EXPECT_EQ(Bytes(*fast), second);
  EXPECT_EQ(slow->Poll(), State::kPending);
  Finish(slow);
  EXPECT_EQ(Bytes(*slow), first);
}

TEST_F(StagerTest, AViewCostsItsOwnBytesInRowMajorOrder) {
  const auto stager = Make();
  std::vector<uint16_t> base(24);
  std::iota(base.begin(), base.end(), uint16_t{0});
  Stager::Request request{.parts = kLevelFull, .stream = kStream};
  // Column 1 and 3 of a 6 x 4 matrix, transposed: (2, 6).
  const int64_t sizes[] = {2, 6}, strides[] = {2, 4};
  ASSERT_TRUE(MakeStridedSource(FakeDevice::Address(&base[1]), sizes, strides, 2,
                                NumberKind::kInteger, false, false, &request.source));
  DeviceCopy* copy = stager->Begin(request).copy;
  Finish(copy);
  const uint16_t expected[] = {1, 5, 9, 13, 17, 21, 3, 7, 11, 15, 19, 23};
  ASSERT_EQ(copy->payload().size(), sizeof expected);
  EXPECT_EQ(std::memcmp(copy->payload().data(), expected, sizeof expected), 0);
  EXPECT_EQ(device.copies, 0u);
}

TEST_F(StagerTest, TheHashAloneMovesNoPayload) {
  const auto stager = Make();
  const std::vector<uint8_t> data(100'000, 2);  // far more than the ring
  DeviceCopy* copy = stager->Begin(Of(data, kPartMeta | kPartHash)).copy;
  ASSERT_NE(copy, nullptr);
  Finish(copy);
  EXPECT_TRUE(copy->payload().empty());
  ASSERT_EQ(copy->digests().size(), 7u * 16);  // tiles of 16 KiB
  uint64_t sum = 0;
  std::memcpy(&sum, copy->digests().data() + 16, 8);
  EXPECT_EQ(sum, 2u * 16384);
  EXPECT_EQ(device.fetched_bytes, 7u * 16);
  EXPECT_EQ(device.copies, 0u);
}

TEST_F(StagerTest, TheHashOfAViewIsOfItsOwnElements) {
  const auto stager = Make();
  std::vector<uint8_t> base(200);
  for (size_t i = 0; i < base.size(); ++i) base[i] = i % 2 == 0 ? 1 : 100;
  Stager::Request request{.parts = kPartMeta | kPartHash, .stream = kStream};
  const int64_t sizes[] = {100}, strides[] = {2};
  ASSERT_TRUE(MakeStridedSource(FakeDevice::Address(base.data()), sizes, strides, 1,
                                NumberKind::kInteger, false, false, &request.source));
  DeviceCopy* copy = stager->Begin(request).copy;
  Finish(copy);
  uint64_t sum = 0;
  std::memcpy(&sum, copy->digests().data(), 8);
  EXPECT_EQ(sum, 100u);
  EXPECT_EQ(device.fetched_bytes, 16u);
}

// 1, 2, ..., 10,000: mean 5000.5; the squares add up to n (n + 1) (2 n + 1) / 6.
TEST_F(StagerTest, StatisticsAloneMoveNoPayload) {
  const auto stager = Make();
  std::vector<float> data(10'000);
  std::iota(data.begin(), data.end(), 1.0f);
  Stager::Request request{.dtype = MakeDType("float32", 32),
                          .parts = kPartMeta | kPartHash | kPartStats,
                          .stream = kStream};
  const int64_t size[] = {10'000}, stride[] = {1};
  ASSERT_TRUE(MakeStridedSource(FakeDevice::Address(data.data()), size, stride, 4,
                                NumberKind::kFloat, false, false, &request.source));
  DeviceCopy* copy = stager->Begin(request).copy;
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->statistics(), nullptr);
  Finish(copy);
  EXPECT_TRUE(copy->payload().empty());
  EXPECT_EQ(copy->digests().size(), 3u * 16);
  ASSERT_NE(copy->statistics(), nullptr);
  const Statistics& found = *copy->statistics();
  EXPECT_EQ(found.kind, StatisticsKind::kReal);
  EXPECT_EQ(found.count, 10'000u);
  EXPECT_EQ(found.finite, 10'000u);
  EXPECT_EQ(found.min, 1);
  EXPECT_EQ(found.max, 10'000);
  EXPECT_DOUBLE_EQ(found.mean, 5000.5);
  EXPECT_DOUBLE_EQ(found.l1, 50'005'000.0);
  EXPECT_DOUBLE_EQ(found.l2, std::sqrt(333'383'335'000.0));
  EXPECT_DOUBLE_EQ(found.std, std::sqrt(10'000.0 * 10'001 / 12));
  EXPECT_LT(device.fetched_bytes, 1024u);
}

TEST_F(StagerTest, StatisticsThatTheDeviceDoesNotKnowAreTheSinks) {
  const auto stager = Make();
  const std::vector<uint8_t> data(100, 5);
  Stager::Request request = Of(data, kPartMeta | kPartStats);
  request.dtype = MakeDType("uint8", 8);
  DeviceCopy* copy = stager->Begin(request).copy;
  Finish(copy);
  EXPECT_EQ(copy->statistics(), nullptr);
  EXPECT_EQ(Bytes(*copy), data);
  EXPECT_EQ(device.reductions, 0u);
}

TEST_F(StagerTest, WithoutDigestsOfTheDeviceThePayloadCrosses) {
  const auto stager = Make();
  device.refuse_reductions = true;
  const std::vector<uint8_t> data(100, 5);
  DeviceCopy* copy = stager->Begin(Of(data, kPartMeta | kPartHash)).copy;
  ASSERT_NE(copy, nullptr);
  Finish(copy);
  EXPECT_EQ(Bytes(*copy), data);
  EXPECT_TRUE(copy->digests().empty());
  copy->Release();
  EXPECT_EQ(stager->under_way(), 0u);
}

TEST_F(StagerTest, FullStagingRefusesWithoutWaiting) {
  const auto stager = Make();
  const std::vector<uint8_t> data(2048, 1);
  DeviceCopy* first = stager->Begin(Of(data)).copy;
  ASSERT_NE(first, nullptr);
  ASSERT_NE(stager->Begin(Of(data)).copy, nullptr);
  const Stager::Outcome refused = stager->Begin(Of(data));
  EXPECT_EQ(refused.copy, nullptr);
  EXPECT_EQ(refused.reason, SkipReason::kStagingLimit);
  Finish(first);
  first->Release();
  EXPECT_NE(stager->Begin(Of(data)).copy, nullptr);
}

TEST_F(StagerTest, RoomReleasedWhileTheDeviceWorksIsNotGivenOut) {
  const auto stager = Make();
  const std::vector<uint8_t> data(2048, 1);
  DeviceCopy* first = stager->Begin(Of(data)).copy;
  DeviceCopy* second = stager->Begin(Of(data, kLevelFull, kOther)).copy;
  device.Run(kStream);
  EXPECT_EQ(first->Poll(), State::kPending);  // now on its way to the host
  first->Release();                           // the pass ended without them
  second->Release();
  EXPECT_EQ(stager->Begin(Of(data)).reason, SkipReason::kStagingLimit);
  device.Run(device.side());
  EXPECT_NE(stager->Begin(Of(data)).copy, nullptr);
  EXPECT_EQ(stager->Begin(Of(data)).reason, SkipReason::kStagingLimit);  // second's room
  device.Run(kOther);
  EXPECT_NE(stager->Begin(Of(data)).copy, nullptr);
}

TEST_F(StagerTest, WithoutRoomHashAndStatisticsStandForThePayload) {
  const auto stager = Make();
  std::vector<float> data(2048, 1.5f);  // twice the ring
  Stager::Request request{
      .dtype = MakeDType("float32", 32), .parts = kLevelFull, .stream = kStream, .summarise = true};
  const int64_t size[] = {2048}, stride[] = {1};
  ASSERT_TRUE(MakeStridedSource(FakeDevice::Address(data.data()), size, stride, 4,
                                NumberKind::kFloat, false, false, &request.source));
  DeviceCopy* copy = stager->Begin(request).copy;
  ASSERT_NE(copy, nullptr);
  Finish(copy);
  EXPECT_TRUE(copy->payload().empty());
  EXPECT_EQ(copy->digests().size(), 16u);
  ASSERT_NE(copy->statistics(), nullptr);
  EXPECT_EQ(copy->statistics()->mean, 1.5);
  device.refuse_reductions = true;  // then nothing does
  EXPECT_EQ(stager->Begin(request).reason, SkipReason::kStagingLimit);
}

TEST_F(StagerTest, TooManyCopiesUnderWayIsFullToo) {
  const auto stager = Make();
  const std::vector<uint8_t> data(1, 1);
  for (int i = 0; i < 4; ++i) EXPECT_NE(stager->Begin(Of(data)).copy, nullptr);
  EXPECT_EQ(stager->Begin(Of(data)).reason, SkipReason::kStagingLimit);
}

TEST_F(StagerTest, BlockWaitsForTheSinkToGiveRoomBack) {
  const auto stager = Make({.bytes = 4096, .copies = 4});
  max_wait_ns = 60'000'000'000;
  const std::vector<uint8_t> data(4096, 1), next(4096, 2);
  DeviceCopy* first = stager->Begin(Of(data)).copy;
  std::thread sink([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Finish(first);
    first->Release();
  });
  DeviceCopy* second = stager->Begin(Of(next)).copy;
  sink.join();
  ASSERT_NE(second, nullptr);
  Finish(second);
  EXPECT_EQ(Bytes(*second), next);
}

TEST_F(StagerTest, BlockGivesUpInTime) {
  const auto stager = Make({.bytes = 4096, .copies = 4});
  max_wait_ns = 5'000'000;
  const std::vector<uint8_t> data(4096, 1);
  ASSERT_NE(stager->Begin(Of(data)).copy, nullptr);
  const Stager::Outcome refused = stager->Begin(Of(data));
  EXPECT_EQ(refused.reason, SkipReason::kStagingLimit);
  EXPECT_GE(refused.waited_ns, 5'000'000);
}

TEST_F(StagerTest, ATensorLargerThanTheRingIsRefusedOrGoesInPieces) {
  const auto stager = Make({.bytes = 4096, .copies = 4});
  max_wait_ns = 60'000'000'000;
  std::vector<uint8_t> data(50'001);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 256);
  const Stager::Request request = Of(data);
  EXPECT_EQ(stager->Begin(request).reason, SkipReason::kStagingLimit);
  std::atomic<bool> done{false};
  std::thread running([&] {  // the device
    while (!done) {
      device.Run(kStream);
      device.Run(device.side());
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  std::vector<uint8_t> out(data.size());
  Stager::Pieces pieces(stager.get(), request);
  EXPECT_TRUE(pieces.CopyTo(0, std::as_writable_bytes(std::span(out).first(30'000))));
  EXPECT_TRUE(pieces.CopyTo(30'000, std::as_writable_bytes(std::span(out).subspan(30'000))));
  done = true;
  running.join();
  EXPECT_EQ(out, data);
  EXPECT_EQ(stager->under_way(), 0u);
}

TEST_F(StagerTest, APieceThatIsNotDoneInTimeFailsAndItsRoomComesBackLater) {
  const auto stager = Make({.bytes = 4096, .copies = 1});
  max_wait_ns = 5'000'000;
  const std::vector<uint8_t> data(9000, 1);
  const Stager::Request request = Of(data);
  std::vector<uint8_t> out(data.size());
  Stager::Pieces pieces(stager.get(), request);
  EXPECT_FALSE(pieces.CopyTo(0, std::as_writable_bytes(std::span(out))));
  device.Run(kStream);
  EXPECT_NE(stager->Begin(Of(out = std::vector<uint8_t>(100, 1))).copy, nullptr);
  EXPECT_EQ(stager->error(), "");
}

TEST_F(StagerTest, RefusedMemoryIsAnError) {
  device.refuse_memory = true;
  const auto made = Stager::Make(&device, {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().message(), "out of memory");
}

TEST_F(StagerTest, ARefusedCopyEndsTheUseOfTheDevice) {
  const auto stager = Make();
  device.refuse_copies = true;
  const std::vector<uint8_t> data(10, 1);
  const Stager::Outcome outcome = stager->Begin(Of(data));
  EXPECT_EQ(outcome.reason, SkipReason::kDeviceError);
  EXPECT_EQ(outcome.detail, "copy refused");
  device.refuse_copies = false;
  EXPECT_EQ(stager->Begin(Of(data)).reason, SkipReason::kDeviceError);
  EXPECT_EQ(device.copies, 0u);
}

TEST_F(StagerTest, AFailedEventFailsTheCopyAndEndsTheUseOfTheDevice) {
  const auto stager = Make();
  const std::vector<uint8_t> data(10, 1);
  DeviceCopy* copy = stager->Begin(Of(data)).copy;
  device.fail_events = true;
  EXPECT_EQ(copy->Poll(), State::kFailed);
  EXPECT_EQ(copy->error(), "the fake device is lost");
  copy->Release();
  EXPECT_EQ(stager->Begin(Of(data)).reason, SkipReason::kDeviceError);
  EXPECT_EQ(stager->error(), "the fake device is lost");
}

TEST_F(StagerTest, AFailedFetchFailsTheCopy) {
  const auto stager = Make();
  const std::vector<uint8_t> data(10, 1);
  DeviceCopy* copy = stager->Begin(Of(data)).copy;
  device.refuse_fetches = true;
  device.Run(kStream);
  EXPECT_EQ(copy->Poll(), State::kFailed);
  EXPECT_EQ(copy->error(), "fetch refused");
}

TEST_F(StagerTest, NothingIsEnqueuedDuringGraphCapture) {
  const auto stager = Make();
  const std::vector<uint8_t> small(10, 1), larger_than_the_ring(100'000, 2);
  max_wait_ns = 60'000'000'000;  // none of which is waited for
  device.capturing = true;
  const Parts kinds[] = {kLevelFull, kPartMeta | kPartHash, kPartMeta | kPartStats};
  for (const auto* data : {&small, &larger_than_the_ring}) {
    for (const Parts parts : kinds) {
      const Stager::Outcome outcome = stager->Begin(Of(*data, parts));
      EXPECT_EQ(outcome.copy, nullptr);
      EXPECT_EQ(outcome.reason, SkipReason::kCompiled);
      EXPECT_EQ(outcome.detail, "CUDA graph capture");
      EXPECT_EQ(outcome.waited_ns, 0);
    }
  }
  EXPECT_EQ(device.copies + device.gathers + device.reductions, 0u);
  EXPECT_EQ(device.waiting(kStream) + device.waiting(device.side()), 0u);
  device.capturing = false;
  DeviceCopy* copy = stager->Begin(Of(small)).copy;
  Finish(copy);
  EXPECT_EQ(Bytes(*copy), small);
}

TEST_F(StagerTest, ManyThreadsAndStreams) {
  const auto stager = Make({.bytes = 1 << 16, .copies = 64});
  max_wait_ns = 60'000'000'000;
  std::atomic<int> wrong{0}, left{4 * 200};
  std::mutex mutex;
  std::vector<std::pair<DeviceCopy*, uint8_t>> begun;
  const auto produce = [&](int lane) {
    for (int i = 0; i < 200; ++i) {
      std::vector<uint8_t> data(1 + i * 13 % 3000, static_cast<uint8_t>(lane * 50 + i));
      DeviceCopy* copy = stager->Begin(Of(data, kLevelFull, &job_streams[lane])).copy;
      device.Run(&job_streams[lane]);  // before `data` goes
      std::lock_guard lock(mutex);
      begun.emplace_back(copy, data[0]);
    }
  };
  std::thread sink([&] {
    while (left > 0) {
      device.Run(device.side());
      std::lock_guard lock(mutex);
      std::erase_if(begun, [&](const auto& one) {
        if (one.first->Poll() != State::kReady) return false;
        for (uint8_t byte : Bytes(*one.first)) wrong += byte != one.second ? 1 : 0;
        one.first->Release();
        --left;
        return true;
      });
    }
  });
  std::vector<std::thread> producers;
  for (int lane = 0; lane < 4; ++lane) producers.emplace_back(produce, lane);
  for (std::thread& one : producers) one.join();
  sink.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(stager->under_way(), 0u);
}

}  // namespace
}  // namespace tdump::collectors
