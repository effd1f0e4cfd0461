#include "collectors/torch/kernel_sources.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace tdump::collectors {
namespace {

constexpr const char* kSaved = R"(
    // Topologically Sorted Source Nodes: [linear], Original ATen: [aten.addmm]
    // [Provenance debug handles] aoti_torch_cpu_addmm_out:1
    aoti_torch_save_tensor_handle(buf0, "buf0", "before_launch", "aoti_torch_cpu_addmm_out");
    aoti_torch_save_tensor_handle(arg0_1, "arg0_1", "before_launch", "aoti_torch_cpu_addmm_out");
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_addmm_out(buf0, up_bias, arg0_1));
    aoti_torch_save_tensor_handle(buf0, "buf0", "after_launch", "aoti_torch_cpu_addmm_out");
    auto buf1 = std::move(buf0);  // reuse
    aoti_torch_save_tensor_handle(buf1, "buf1", "before_launch", "cpp_fused_unknown");
    aoti_torch_save_tensor_handle(buf1, "buf1", "after_launch", "cpp_fused_unknown");
    // Topologically Sorted Source Nodes: [relu, add], Original ATen: [aten.relu, aten.add]
    aoti_torch_save_tensor_handle(buf1, "buf1", "before_launch", "cpp_fused_add_relu_0");
)";

TEST(KernelSources, AreInTheCommentAboveALaunch) {
  const auto sources = KernelSources::Parse(kSaved);
  const auto* linear = sources.Find("aoti_torch_cpu_addmm_out", "buf0");
  ASSERT_NE(linear, nullptr);
  EXPECT_EQ(linear->nodes, "linear");
  EXPECT_EQ(linear->aten, "aten.addmm");
  const auto* relu = sources.Find("cpp_fused_add_relu_0", "buf1");
  ASSERT_NE(relu, nullptr);
  EXPECT_EQ(relu->nodes, "relu, add");
  EXPECT_EQ(relu->aten, "aten.relu, aten.add");
  // A comment is of one launch; where there is none, nothing is said.
  EXPECT_EQ(sources.Find("cpp_fused_unknown", "buf1"), nullptr);
  EXPECT_EQ(sources.Find("cpp_fused_add_relu_0", "buf7"), nullptr);
}

TEST(KernelSources, OfThePrintingMode) {
  const auto sources = KernelSources::Parse(
      "// Topologically Sorted Source Nodes: [y], Original ATen: [aten.mul]\n"
      "aoti_torch_print_tensor_handle(buf0, \"before_launch - cpp_fused_mul_0 - buf0\");\n");
  ASSERT_NE(sources.Find("cpp_fused_mul_0", "buf0"), nullptr);
  EXPECT_EQ(sources.Find("cpp_fused_mul_0", "buf0")->aten, "aten.mul");
}

TEST(KernelSources, NameWhatALibraryKernelMakes) {
  const auto sources = KernelSources::Parse(R"(
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, s, device, &buf2_handle));
    aoti_torch_save_tensor_handle(buf0, "buf0", "before_launch", "aoti_torch_cpu_convolution");
    aoti_torch_save_tensor_handle(buf1, "buf1", "before_launch", "aoti_torch_cpu_convolution");
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_convolution(buf0, &temporary(buf2.get()), &buf3_handle));
    aoti_torch_save_tensor_handle(buf0, "buf0", "after_launch", "aoti_torch_cpu_convolution");
    RAIIAtenTensorHandle buf3(buf3_handle);
    auto buf4 = std::move(buf3);  // reuse
    auto buf6 = std::move(buf2);  // reuse
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, s, device, &buf5_handle));
)");
  using Made = KernelSources::Made;
  EXPECT_EQ(sources.MadeOf("buf3"), Made::kByKernel);
  EXPECT_EQ(sources.MadeOf("buf4"), Made::kInItsMemory);
  for (const char* name : {"buf0", "buf2", "buf5", "buf6"})
    EXPECT_EQ(sources.MadeOf(name), Made::kUnknown) << name;
}

TEST(KernelSources, APipeIsNotWaitedFor) {
  std::string pattern = (std::filesystem::temp_directory_path() / "sources_XXXXXX").string();
  const std::string folder = ::mkdtemp(pattern.data());
  ASSERT_EQ(::mkfifo((folder + "/m.cpp").c_str(), 0600), 0);
  EXPECT_EQ(KernelSources::Of(folder + "/m.so")->Find("k", "a"), nullptr);
  std::filesystem::remove_all(folder);
}

TEST(KernelSources, AnySourceIsSurvived) {
  const std::string source = kSaved;
  for (size_t size = 0; size <= source.size(); ++size) KernelSources::Parse(source.substr(0, size));
}

TEST(KernelSources, LieBesideTheObject) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("tdump_sources_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "model.wrapper.cpp") << kSaved;
  const auto sources = KernelSources::Of(folder / "model.wrapper.so");
  EXPECT_NE(sources->Find("aoti_torch_cpu_addmm_out", "buf0"), nullptr);
  EXPECT_EQ(KernelSources::Of(folder / "other.so")->Find("aoti_torch_cpu_addmm_out", "buf0"),
            nullptr);
  CallText text;
  sources->AddTo(&text, "aoti_torch_cpu_addmm_out", "buf0");
  EXPECT_EQ(CallText::ToString(text.bytes()), "aten=aten.addmm; nodes=linear");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tdump::collectors
