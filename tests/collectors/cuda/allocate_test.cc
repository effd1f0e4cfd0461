// What CudaDevice takes of a driver, and gives back when it is refused the rest: a driver made of
// counters, no CUDA.
#include <gtest/gtest.h>

#include <string>

#include "collectors/cuda/cuda_device.h"

namespace tdump::collectors::cuda {
namespace {

constexpr Code kOutOfMemory = 2;

// Of all devices: the driver's functions have no place for more.
struct Held {
  int memory = 0, host = 0, streams = 0, events = 0;
  bool operator==(const Held&) const = default;
};
Held held;
int takes_left;  // the one after them is refused

Code Take(int* count) {
  if (takes_left-- == 0) return kOutOfMemory;
  ++*count;
  return kSuccess;
}
Code Give(int* count) {
  --*count;
  return kSuccess;
}
template <class Handle>
Handle Any() {
  return reinterpret_cast<Handle>(uintptr_t{64});
}

Driver CountingDriver() {
  Driver d;
  d.error_name = [](Code, const char** text) { return *text = "CUDA_ERROR_OUT_OF_MEMORY", 0; };
  d.error_text = [](Code, const char** text) { return *text = "out of memory", 0; };
  d.device_get = [](int* device, int ordinal) { return *device = ordinal, 0; };
  d.device_attribute = [](int*, int, int) { return kOutOfMemory; };  // so no kernels are loaded
  d.primary_state = [](int, unsigned*, int* active) { return *active = 1, 0; };
  d.primary_retain = [](Context* context, int) { return *context = Any<Context>(), 0; };
  d.context_current = [](Context* context) { return *context = Any<Context>(), 0; };
  d.capture_mode = [](int*) { return kSuccess; };
  d.memory_take = [](DevicePointer* at, size_t) { return *at = 64, Take(&held.memory); };
  d.memory_give = [](DevicePointer) { return Give(&held.memory); };
  d.host_take = [](void** at, size_t, unsigned) { return *at = &held, Take(&held.host); };
  d.host_give = [](void*) { return Give(&held.host); };
  d.stream_create = [](Stream* stream, unsigned) {
    return *stream = Any<Stream>(), Take(&held.streams);
  };
  d.stream_destroy = [](Stream) { return Give(&held.streams); };
  d.event_create = [](Event* event, unsigned) { return *event = Any<Event>(), Take(&held.events); };
  d.event_destroy = [](Event) { return Give(&held.events); };
  return d;
}

TEST(CudaAllocate, ARefusalLeavesNothingTaken) {
  static const Driver driver = CountingDriver();
  for (int before = 0; before < 6; ++before) {
    takes_left = before;
    auto device = CudaDevice::Open(&driver, 0);
    ASSERT_TRUE(device.ok());
    StagingMemory memory;
    const Status status = (*device)->Allocate(4096, 3, &memory);
    EXPECT_NE(status.message().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string_view::npos);
    EXPECT_EQ(held, Held{}) << "refused after " << before;
    EXPECT_EQ(memory.host, nullptr);
  }
}

// Copies go on without kernels, and the device can say what is missing.
TEST(CudaAllocate, KernelsThatDoNotLoadAreToldOf) {
  static const Driver driver = CountingDriver();
  takes_left = 6;
  auto device = CudaDevice::Open(&driver, 0);
  ASSERT_TRUE(device.ok());
  StagingMemory memory;
  EXPECT_TRUE((*device)->Allocate(4096, 3, &memory).ok());
  EXPECT_EQ(held, (Held{.memory = 1, .host = 1, .streams = 1, .events = 3}));
  EXPECT_EQ(memory.device, 64u);
  EXPECT_STREQ((*device)->KernelError(),
               "cuDeviceGetAttribute: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  EXPECT_FALSE((*device)->KnowsStatistics(MakeDType("float32", 32)));
  held = {};
}

}  // namespace
}  // namespace tdump::collectors::cuda
