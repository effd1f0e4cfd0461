// FakeDevice: a Device whose memory is host memory and whose streams do nothing until the test lets
// them: so that a test can put any order of events between a copy and what follows it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collectors/device/device.h"
#include "core/statistics_tile.h"

namespace tdump::collectors {

class FakeDevice final : public Device {
 public:
  // What goes wrong, from now on.
  bool refuse_memory = false;
  bool refuse_copies = false;  // Copy and Gather
  bool refuse_reductions = false;
  bool refuse_fetches = false;
  bool fail_events = false;
  bool capturing = false;
  const char* kernel_error = "";
  // What was asked for.
  std::atomic<uint64_t> copies{0}, gathers{0}, reductions{0}, fetched_bytes{0};

  static uint64_t Address(const void* data) { return reinterpret_cast<uint64_t>(data); }

  Status Allocate(uint64_t bytes, uint32_t events, StagingMemory* memory) noexcept override {
    if (refuse_memory) return {StatusCode::kNoSpace, "out of memory"};
    device_.resize(bytes + 256);
    host_.resize(bytes + 256);
    done_.assign(events, true);
    const auto aligned = [](std::vector<std::byte>& all) {
      return all.data() + (256 - Address(all.data()) % 256) % 256;
    };
    *memory = {Address(aligned(device_)), aligned(host_)};
    return {};
  }
  bool InGraphCapture(NativeStream) noexcept override { return capturing; }
  Status Copy(uint64_t to, uint64_t from, uint64_t bytes, NativeStream stream) noexcept override {
    if (refuse_copies) return Internal("copy refused");
    ++copies;
    Enqueue(stream, [=] { std::memcpy(At(to), At(from), bytes); });
    return {};
  }
  Status Gather(uint64_t to, const StridedSource& from, uint64_t first, uint64_t count,
                NativeStream stream) noexcept override {
    if (refuse_copies) return Internal("gather refused");
    ++gathers;
    Enqueue(stream, [=] {
      for (uint64_t i = 0; i < count; ++i)
        GatherUnit(At(to + i * from.unit_bytes), from, first + i);
    });
    return {};
  }
  // Digests are none: the bytes of each tile added up, enough to see which bytes were looked at and
  // when. Statistics of float32 only.
  Status Reduce(const Reduction& r, NativeStream stream) noexcept override {
    if (refuse_reductions) return Unsupported("no reductions");
    ++reductions;
    Enqueue(stream, [=] {
      if (r.digests != 0) AddUpTiles(r);
      if (r.moments != 0) StatisticsOfTiles(r);
    });
    return {};
  }
  bool KnowsStatistics(const DType& dtype) noexcept override { return dtype.view() == "float32"; }
  Status Mark(uint32_t event, NativeStream stream) noexcept override {
    Record(event, stream);
    return {};
  }
  EventState Query(uint32_t event) noexcept override {
    std::lock_guard lock(mutex_);
    if (fail_events) return EventState::kFailed;
    return done_[event] ? EventState::kReady : EventState::kPending;
  }
  const char* Error() noexcept override { return "the fake device is lost"; }
  const char* KernelError() const noexcept override { return kernel_error; }
  Status Fetch(std::byte* to, uint64_t from, uint64_t bytes, uint32_t event) noexcept override {
    if (refuse_fetches) return Internal("fetch refused");
    fetched_bytes += bytes;
    Enqueue(side(), [=] { std::memcpy(to, At(from), bytes); });
    Record(event, side());
    return {};
  }

  // The stream on which Fetch() works.
  NativeStream side() { return &side_; }
  // Work of the job.
  void Enqueue(NativeStream stream, std::function<void()> work) {
    std::lock_guard lock(mutex_);
    streams_[stream].push_back(std::move(work));
  }
  // Does what is enqueued on the stream by now.
  void Run(NativeStream stream) {
    std::lock_guard lock(mutex_);
    std::deque<std::function<void()>>& work = streams_[stream];
    for (; !work.empty(); work.pop_front()) work.front()();
  }
  size_t waiting(NativeStream stream) {
    std::lock_guard lock(mutex_);
    return streams_[stream].size();
  }

 private:
  static std::byte* At(uint64_t address) { return reinterpret_cast<std::byte*>(address); }
  static void AddUpTiles(const Reduction& r) {
    for (uint64_t tile = 0; tile * 16384 < r.bytes; ++tile) {
      uint64_t sum[2] = {};
      for (uint64_t i = tile * 16384; i < std::min(r.bytes, (tile + 1) * 16384); ++i)
        sum[0] += static_cast<uint64_t>(At(r.from)[i]);
      std::memcpy(At(r.digests + tile * 16), sum, 16);
    }
  }
  static void StatisticsOfTiles(const Reduction& r) {
    const auto* values = reinterpret_cast<const float*>(At(r.from));
    const auto elements = static_cast<int64_t>(r.bytes / sizeof(float));
    auto* tiles = reinterpret_cast<TileMoments*>(At(r.moments));
    for (int64_t first = 0; first < elements; first += kTileElements) {
      *tiles++ = MomentsOfTile(static_cast<int>(std::min<int64_t>(kTileElements, elements - first)),
                               [&](int i) { return double{values[first + i]}; });
    }
    ValueCounts counts;
    for (int64_t i = 0; i < elements; ++i) {
      if (values[i] == 0)
        ++counts.zeros;
      else
        ++counts.histogram[HistogramBin(values[i])];
    }
    std::memcpy(At(r.counts), &counts, sizeof counts);
  }
  static void GatherUnit(std::byte* to, const StridedSource& from, uint64_t unit) {
    uint64_t offset = 0;
    for (uint32_t i = from.dimensions; i > 0; --i) {
      offset += unit % from.sizes[i - 1] * from.strides[i - 1];
      unit /= from.sizes[i - 1];
    }
    std::memcpy(to, At(from.address + offset * from.unit_bytes), from.unit_bytes);
    const auto* flip = reinterpret_cast<const std::byte*>(from.flip);
    for (uint32_t i = 0; i < from.unit_bytes; ++i) to[i] ^= flip[i];
  }
  void Record(uint32_t event, NativeStream stream) {
    {
      std::lock_guard lock(mutex_);
      done_[event] = false;
    }
    Enqueue(stream, [this, event] { done_[event] = true; });
  }

  std::mutex mutex_;
  std::vector<std::byte> device_, host_;
  std::vector<bool> done_;
  std::map<NativeStream, std::deque<std::function<void()>>> streams_;
  char side_ = 0;
};

}  // namespace tdump::collectors
