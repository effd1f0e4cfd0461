#include "collectors/torch/kernel_buffers.h"

#include <gtest/gtest.h>

namespace tdump::collectors {
namespace {

using Verdict = KernelBuffers::Verdict;

// Launches as a model makes them; storages and call sites are numbers.
class ModelRun {
 public:
  void Begin() { buffers_.BeginLaunch(); }
  Verdict Before(const char* kernel, const char* name, int storage, int site) {
    return buffers_.Before(At(1000 + site), kernel, name, At(storage));
  }
  void After(const char* name, int storage) { buffers_.After(name, At(storage)); }

 private:
  static const void* At(int number) { return reinterpret_cast<const void*>(intptr_t{number}); }
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

}  // namespace
}  // namespace tdump::collectors
