#include "launch/runtime/torch_stamp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include <fmt/format.h>

#include "core/runtime.h"

namespace tdump::launch {
namespace {

using ::testing::HasSubstr;

std::string Stamp() { return fmt::format("{:016x}", kBuildStamp); }

std::string Write(const std::string& text) {
  const std::string path =
      ::testing::TempDir() + "torch_stamp_test_" + std::to_string(::getpid()) + ".info";
  std::ofstream(path) << text;
  return path;
}

TEST(TorchStamp, IsReadFromTheFileBesideTheCollector) {
  auto stamp = ReadTorchStamp(Write("torch 2.15.0+cu132\nabi 1\nstamp 7464756d70000001\n"));
  ASSERT_TRUE(stamp.ok()) << stamp.status().ToString();
  EXPECT_EQ(stamp->version, "2.15.0");
  EXPECT_EQ(stamp->cxx11_abi, 1);
  EXPECT_EQ(stamp->build, "7464756d70000001");
}

TEST(TorchStamp, AFileWithoutVersionOrNoFileIsAnError) {
  EXPECT_EQ(ReadTorchStamp(Write("abi 1\n")).status().code(), StatusCode::kCorrupt);
  EXPECT_EQ(ReadTorchStamp(Write("")).status().code(), StatusCode::kCorrupt);
  EXPECT_EQ(ReadTorchStamp(::testing::TempDir() + "no/such.info").status().code(),
            StatusCode::kNotFound);
}

TEST(TorchStamp, MatchesVersionAbiAndBuild) {
  EXPECT_EQ(TorchMismatch({"2.15.0", 1, Stamp()}, {"2.15.0", 1, ""}), "");
}

TEST(TorchStamp, SaysWhatDiffersAndWhatToDo) {
  const std::string version = TorchMismatch({"2.14.1", 1, Stamp()}, {"2.15.0", 1, ""});
  EXPECT_THAT(version, HasSubstr("built for torch 2.14.1"));
  EXPECT_THAT(version, HasSubstr("this process has torch 2.15.0"));
  EXPECT_THAT(version, HasSubstr("build tdump against this torch"));
  EXPECT_THAT(TorchMismatch({"2.15.0", 0, Stamp()}, {"2.15.0", 1, ""}), HasSubstr("ABI 0"));
  EXPECT_THAT(TorchMismatch({"2.15.0", 1, "0000000000000001"}, {"2.15.0", 1, ""}),
              HasSubstr("another build of tdump"));
}

TEST(TorchStamp, ThisProcessHasNoTorch) {
  EXPECT_EQ(MappedTorch().status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tdump::launch
