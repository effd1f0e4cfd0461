#include "collectors/cuda/compiler.h"

#include <gtest/gtest.h>

namespace tdump::collectors::cuda {
namespace {

// NVRTC needs no device, so where a torch wheel for CUDA lies the kernels are compiled for one.
TEST(Compiler, TheKernelsCompile) {
  const std::string nvrtc = TDUMP_TEST_NVRTC;
  if (nvrtc.empty()) GTEST_SKIP() << "no libnvrtc beside torch";
  const auto code = CompileKernels(9, 0, nvrtc);
  ASSERT_TRUE(code.ok()) << code.status().message();
  EXPECT_EQ(code->substr(1, 3), "ELF");  // machine code
  EXPECT_NE(code->find("tdump_reduce"), std::string::npos);
  EXPECT_NE(code->find("tdump_gather"), std::string::npos);
}

TEST(Compiler, AnUnknownDeviceGetsPtxOfTheNewestKnownOne) {
  const std::string nvrtc = TDUMP_TEST_NVRTC;
  if (nvrtc.empty()) GTEST_SKIP() << "no libnvrtc beside torch";
  const auto code = CompileKernels(9, 9, nvrtc);
  ASSERT_TRUE(code.ok()) << code.status().message();
  EXPECT_NE(code->find(".version"), std::string::npos);
}

TEST(Compiler, WithoutNvrtcItSaysSo) {
  const auto code = CompileKernels(9, 0, "/nowhere/libnvrtc.so");
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tdump::collectors::cuda
