// Tensors that LibTorch takes for CUDA's, whose memory is a FakeDevice's: the whole way from
// Capture() to the sink, without CUDA.
#include "collectors/torch/device_tensors.h"

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include "collectors/torch/capture.h"
#include "collectors/torch/plugin.h"
#include "tests/collectors/collector_rig.h"
#include "tests/collectors/device/fake_device.h"

namespace tdump::collectors {
namespace {

int current_stream;  // its address is the native handle

// What LibTorch asks about devices and streams where CUDA is not linked.
class FakeGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr c10::DeviceType static_type = c10::DeviceType::CUDA;
  c10::DeviceType type() const override { return static_type; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {static_type, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
  void* getStreamNativeHandle(const c10::Stream) const override { return &current_stream; }
};
C10_REGISTER_GUARD_IMPL(CUDA, FakeGuard)

FakeDevice& TheDevice() {
  static auto* device = new FakeDevice;
  return *device;
}

FakeDevice& DeviceWithoutKernels() {
  static auto* device = new FakeDevice;
  device->kernel_error = "NVRTC: NVRTC_ERROR_COMPILATION: a.cu(7): error: why\nand more lines";
  return *device;
}

// Device 0 is there, 1 not in use yet, 2 broken, 3 without kernels.
void* OpenFake(uint64_t stamp, int ordinal, char* error, size_t bytes) {
  EXPECT_EQ(stamp, kBuildStamp);
  if (ordinal == 0) return static_cast<Device*>(&TheDevice());
  if (ordinal == 3) return static_cast<Device*>(&DeviceWithoutKernels());
  std::snprintf(error, bytes, "%s", ordinal == 2 ? "out of order" : "");
  return nullptr;
}

CollectorRig& TheRig() {
  static auto* rig = [] {
    auto* made = new CollectorRig;
    made->runtime.staging_bytes = 1 << 20;
    UseDeviceOpener(&OpenFake);
    EXPECT_EQ(tdump_torch_start(&made->runtime), 1);
    EXPECT_NE(made->runtime.prepare_devices, nullptr);
    return made;
  }();
  return *rig;
}

// The same tensor, said to lie on a CUDA device.
at::Tensor OnDevice(const at::Tensor& host, int ordinal = 0) {
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(ordinal));
  c10::Storage storage(c10::Storage::use_byte_size_t(), host.storage().nbytes(),
                       c10::DataPtr(host.storage().mutable_data(), device), nullptr, false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), host.dtype());
  impl->set_storage_offset(host.storage_offset());
  impl->set_sizes_and_strides(host.sizes(), host.strides());
  return at::Tensor(std::move(impl));
}

struct DeviceTensorsTest : testing::Test {
  void SetUp() override {
    OperatorInfo info;
    info.path = "layer";
    rig.sink.kept.clear();
    rig.sink.copies.clear();
    rig.sink.notes.clear();
    ASSERT_TRUE(
        rig.recorder.Begin(rig.operators.Intern(info), nullptr, Phase::kForward, false, &scope));
  }
  void TearDown() override {
    rig.recorder.End(&scope, false);
    for (DeviceCopy* copy : rig.sink.copies) copy->Release();
    device.Run(&current_stream);
    device.Run(device.side());
  }
  void Capture(const at::Tensor& tensor) {
    collectors::Capture(rig.recorder, &scope, {Role::kOutput, "0"}, tensor);
  }
  std::vector<std::byte> Finish(DeviceCopy* copy) {
    device.Run(&current_stream);
    (void)copy->Poll();
    device.Run(device.side());
    EXPECT_EQ(copy->Poll(), DeviceCopy::State::kReady);
    return {copy->payload().begin(), copy->payload().end()};
  }
  static std::vector<std::byte> BytesOf(const at::Tensor& tensor) {
    const at::Tensor plain = tensor.contiguous();
    const auto* data = static_cast<const std::byte*>(plain.const_data_ptr());
    return {data, data + plain.nbytes()};
  }

  CollectorRig& rig = TheRig();
  FakeDevice& device = TheDevice();
  Recorder::CallScope scope;
};

TEST_F(DeviceTensorsTest, TheValueAtThatMoment) {
  const at::Tensor host = at::arange(1000, at::kFloat);
  const at::Tensor tensor = OnDevice(host);
  Capture(tensor);
  ASSERT_EQ(rig.sink.copies.size(), 1u);
  const std::vector<std::byte> before = BytesOf(host);
  device.Enqueue(&current_stream, [host] { host.fill_(9); });  // in place, on the same stream
  EXPECT_EQ(Finish(rig.sink.copies[0]), before);
  EXPECT_EQ(host[5].item<float>(), 9);
  EXPECT_EQ(rig.sink.kept[0].reason, SkipReason::kNone);
  EXPECT_EQ(rig.sink.kept[0].sizes, (std::vector<int64_t>{1000}));
}

TEST_F(DeviceTensorsTest, ViewsInRowMajorOrder) {
  const at::Tensor host = at::arange(24, at::kHalf).reshape({4, 6}).t().slice(0, 1, 6, 2);
  Capture(OnDevice(host));
  ASSERT_EQ(rig.sink.copies.size(), 1u);
  EXPECT_EQ(Finish(rig.sink.copies[0]), BytesOf(host));
}

TEST_F(DeviceTensorsTest, AnEmptyTensorIsCompleteAtOnce) {
  Capture(OnDevice(at::empty({0, 3})));
  EXPECT_TRUE(rig.sink.copies.empty());
  ASSERT_EQ(rig.sink.kept.size(), 1u);
  EXPECT_EQ(rig.sink.kept[0].reason, SkipReason::kNone);
}

TEST_F(DeviceTensorsTest, WhatDoesNotFitIsMetaWithTheReason) {
  Capture(OnDevice(at::zeros({2 << 20}, at::kChar)));  // more than the ring; this rig never waits
  ASSERT_EQ(rig.sink.kept.size(), 1u);
  EXPECT_EQ(rig.sink.kept[0].reason, SkipReason::kStagingLimit);
}

TEST_F(DeviceTensorsTest, ADeviceThatIsNotInUseIsAskedAgain) {
  Capture(OnDevice(at::zeros({4}), 1));
  EXPECT_EQ(rig.sink.kept[0].reason, SkipReason::kNotOnCpu);
  EXPECT_TRUE(rig.sink.notes.empty());
}

TEST_F(DeviceTensorsTest, ADeviceThatRefusesIsToldOnce) {
  Capture(OnDevice(at::zeros({4}), 2));
  Capture(OnDevice(at::zeros({4}), 2));
  ASSERT_EQ(rig.sink.kept.size(), 2u);
  EXPECT_EQ(rig.sink.kept[1].reason, SkipReason::kNotOnCpu);
  ASSERT_EQ(rig.sink.notes.size(), 1u);
  EXPECT_EQ(rig.sink.notes[0],
            "cuda:2: no staging of 1 MiB: out of order; its tensors are recorded without data");
}

TEST_F(DeviceTensorsTest, MissingKernelsAreToldOnce) {
  Capture(OnDevice(at::zeros({4}), 3));
  Capture(OnDevice(at::zeros({4}), 3));
  EXPECT_EQ(rig.sink.copies.size(), 2u);
  ASSERT_EQ(rig.sink.notes.size(), 1u);
  EXPECT_EQ(rig.sink.notes[0],
            "cuda:3: tdump's kernels could not be built or loaded: NVRTC: NVRTC_ERROR_COMPILATION: "
            "a.cu(7): error: why; tensors that are not contiguous are recorded without data, of "
            "the others hash and statistics are made on the host, which costs staging and transfer "
            "of the whole tensor. Put the libnvrtc that belongs to this CUDA driver on the library "
            "path");
}

TEST_F(DeviceTensorsTest, GraphCaptureIsLeftAlone) {
  device.capturing = true;
  Capture(OnDevice(at::zeros({4})));
  device.capturing = false;
  EXPECT_EQ(rig.sink.kept[0].reason, SkipReason::kCompiled);
  EXPECT_EQ(device.waiting(&current_stream), 0u);
}

TEST_F(DeviceTensorsTest, StagingOfDevicesInUseIsTakenBeforeTheFirstTensor) {
  EXPECT_EQ(PrepareDevices(), uint64_t{1} << 20);
}

}  // namespace
}  // namespace tdump::collectors
