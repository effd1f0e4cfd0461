#include "collectors/torch/kernel_buffers.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <map>

namespace tdump::collectors {
namespace {

using Verdict = KernelBuffers::Verdict;

using Made = KernelSources::Made;

// Launches as a model makes them; storages and call sites are numbers.
class ModelRun {
 public:
  void Begin() { buffers_.BeginLaunch(); }
  Verdict Before(const char* kernel, const char* name, int storage, int site,
                 Made made = Made::kUnknown) {
    const auto at = reinterpret_cast<const void*>(intptr_t{1000 + site});
    return buffers_.Before(at, kernel, name, &Of(storage), made);
  }
  void After(const char* name, int storage) { buffers_.After(name, &Of(storage)); }
  const c10::Storage& Of(int number) {
    c10::Storage& storage = storages_[number];
    if (!storage)
      storage = c10::Storage(c10::Storage::use_byte_size_t(), 8, c10::GetCPUAllocator());
    return storage;
  }
  void Free(int number) { storages_.erase(number); }

 private:
  std::map<int, c10::Storage> storages_;
  KernelBuffers buffers_;
};

TEST(KernelBuffers, TheFirstArgumentOfAnOutKernelIsWritten) {
  ModelRun run;
  run.Begin();
  EXPECT_EQ(run.Before("aoti_torch_cpu_mm_out", "buf0", 1, 0), Verdict::kOutput);
  EXPECT_EQ(run.Before("aoti_torch_cpu_mm_out", "arg0_1", 2, 1), Verdict::kHolds);
  // Also where its memory was that of another buffer.
  run.After("buf0", 1);
  run.Begin();
  EXPECT_EQ(run.Before("aoti_torch_cpu_mm_out", "buf1", 1, 2), Verdict::kOutput);
}

TEST(KernelBuffers, WeightsAndInputsHoldValues) {
  ModelRun run;
  run.Begin();
  EXPECT_EQ(run.Before("cpp_fused_add_0", "arg0_1", 1, 0), Verdict::kHolds);
  EXPECT_EQ(run.Before("cpp_fused_add_0", "up_weight", 2, 1), Verdict::kHolds);
  EXPECT_EQ(run.Before("cpp_fused_add_0", "buf0", 3, 2), Verdict::kLater);  // written only
}

TEST(KernelBuffers, WhatALaunchLeftHoldsAValue) {
  ModelRun run;
  run.Begin();
  run.Before("cpp_fused_add_0", "buf0", 1, 0);
  run.After("buf0", 1);
  run.Begin();
  EXPECT_EQ(run.Before("cpp_fused_mul_1", "buf0", 1, 1), Verdict::kHolds);
}

TEST(KernelBuffers, ANewNameInFrontOnKnownMemoryIsWrittenInPlace) {
  ModelRun run;
  run.Begin();
  run.Before("aoti_torch_cpu_mm_out", "buf0", 1, 0);
  run.After("buf0", 1);
  run.Begin();  // buf1 = std::move(buf0)
  EXPECT_EQ(run.Before("cpp_fused_relu_1", "buf1", 1, 1), Verdict::kHolds);
}

TEST(KernelBuffers, ANewNameBehindWhatIsReadIsWrittenWhateverItsMemory) {
  ModelRun run;
  run.Begin();
  run.Before("aoti_torch_cpu_mm_out", "buf0", 1, 0);
  run.After("buf0", 1);
  run.Before("aoti_torch_cpu_mm_out", "buf1", 2, 1);
  run.After("buf1", 2);
  run.Begin();  // buf2 = std::move(buf0), which nothing reads any more
  EXPECT_EQ(run.Before("cpp_fused_exp_2", "buf1", 2, 2), Verdict::kHolds);
  EXPECT_EQ(run.Before("cpp_fused_exp_2", "buf2", 1, 3), Verdict::kLater);
}

TEST(KernelBuffers, ARunBeginsWhereACallComesAgain) {
  ModelRun run;
  for (int i = 0; i < 3; ++i) {
    run.Begin();
    EXPECT_EQ(run.Before("cpp_fused_a_0", "buf0", 1, 0), Verdict::kLater) << i;
    run.After("buf0", 1);
    run.Begin();
    EXPECT_EQ(run.Before("cpp_fused_b_1", "buf0", 1, 1), Verdict::kHolds) << i;
    EXPECT_EQ(run.Before("cpp_fused_b_1", "buf1", 2, 2), Verdict::kLater) << i;
    run.After("buf0", 1);
    run.After("buf1", 2);
  }
}

// The memory of what was given back goes to the next buffer that is made, before the printer is
// told.
TEST(KernelBuffers, MemoryThatWasGivenBackHoldsNothing) {
  ModelRun run;
  run.Begin();
  run.Before("cpp_fused_a_0", "arg0_1", 1, 0);
  run.After("arg0_1", 1);
  const void* const old = run.Of(1).unsafeGetStorageImpl();
  run.Free(1);
  for (int i = 2; i < 50; ++i) {
    EXPECT_NE(run.Of(i).unsafeGetStorageImpl(), old);
    run.Begin();
    EXPECT_EQ(run.Before("cpp_fused_b_1", ("buf" + std::to_string(i)).c_str(), i, i),
              Verdict::kLater);
  }
}

TEST(KernelBuffers, NoTensorIsKeptAlive) {
  ModelRun run;
  run.Begin();
  run.Before("cpp_fused_a_0", "arg0_1", 1, 0);
  run.After("arg0_1", 1);
  EXPECT_EQ(run.Of(1).use_count(), 1u);
}

// relu(conv): buf4 is the memory of what the convolution made, buf6 that of a copy of its bias.
TEST(KernelBuffers, WhatALibraryKernelMadeIsKnownFromTheSource) {
  ModelRun run;
  run.Begin();
  run.Before("cpp_fused_convolution_0", "buf2", 2, 0);
  run.After("buf2", 2);
  run.Begin();
  EXPECT_EQ(run.Before("cpp_fused_relu_1", "buf4", 4, 1, Made::kInItsMemory), Verdict::kHolds);
  EXPECT_EQ(run.Before("cpp_fused_relu_1", "buf5", 5, 2), Verdict::kLater);
  EXPECT_EQ(run.Before("cpp_fused_relu_1", "buf6", 2, 3), Verdict::kLater);
  run.Begin();
  EXPECT_EQ(run.Before("cpp_fused_sum_2", "buf7", 7, 4, Made::kByKernel), Verdict::kHolds);
}

// Without the source: what is left in buf5 is no value because buf6 has memory that held one.
TEST(KernelBuffers, KnownMemoryBehindANewNameSaysNothing) {
  ModelRun run;
  run.Begin();
  run.Before("cpp_fused_convolution_0", "buf2", 2, 0);
  run.After("buf2", 2);
  run.Begin();
  EXPECT_EQ(run.Before("cpp_fused_relu_1", "buf4", 4, 1), Verdict::kLater);
  EXPECT_EQ(run.Before("cpp_fused_relu_1", "buf5", 5, 2), Verdict::kLater);
  EXPECT_EQ(run.Before("cpp_fused_relu_1", "buf6", 2, 3), Verdict::kLater);
}

}  // namespace
}  // namespace tdump::collectors
