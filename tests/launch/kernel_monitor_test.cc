// Who leaves breadcrumbs, where, and when they go; what a printed line says.
#include "launch/runtime/kernel_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <filesystem>

#include "core/env.h"

namespace tdump::launch {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class KernelMonitorTest : public ::testing::Test {
 protected:
  KernelMonitorTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "monitor_XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    kernel_ = operators_.Intern({.kind = OperatorKind::kKernel, .path = "mlp", .op = "mm_out"});
  }
  ~KernelMonitorTest() override { std::filesystem::remove_all(directory_); }

  std::string link() const { return directory_ + "/rank2_pid7.crumbs"; }
  bool Left() const { return std::filesystem::exists(std::filesystem::symlink_status(link())); }
  static Identity Rank(int rank) {
    Identity identity;
    identity.rank = rank;
    identity.world = 4;
    return identity;
  }
  // Whether a process with this configuration leaves any.
  bool Leaves(const filters::Config& config, int rank, bool selected = true) {
    KernelMonitor monitor(config, &operators_);
    EXPECT_TRUE(monitor.Open(Rank(rank), selected, link()).ok());
    const bool left = Left();
    EXPECT_EQ(monitor.leaves_crumbs(), left);
    monitor.Close(/*well=*/true);
    EXPECT_FALSE(Left());
    return left;
  }
  io::Breadcrumbs Read() {
    const auto bytes = ReadFile(Env::Posix(), link(), 1 << 20);
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    return std::move(io::ReadBreadcrumbs(std::as_bytes(std::span(*bytes)))).value();
  }

  filters::Config config_ = filters::DefaultConfig();
  OperatorTable operators_;
  OperatorId kernel_;
  std::string directory_;
};

TEST_F(KernelMonitorTest, WhichRanksLeaveBreadcrumbs) {
  config_.kernels = KernelMode::kNames;
  EXPECT_TRUE(Leaves(config_, 2));
  EXPECT_FALSE(Leaves(config_, 2, /*selected=*/false));
  config_.crumb_ranks = Spec::Parse("2-3").value();
  EXPECT_TRUE(Leaves(config_, 2, /*selected=*/false));
  EXPECT_FALSE(Leaves(config_, 1));
  config_.kernels = KernelMode::kSave;
  EXPECT_TRUE(Leaves(config_, 3));
  config_.crumb_ranks = Spec::None();
  EXPECT_FALSE(Leaves(config_, 3));
  config_.kernels = KernelMode::kOff;
  config_.crumb_ranks = Spec::All();
  EXPECT_FALSE(Leaves(config_, 3));
  EXPECT_EQ(KernelMonitor(config_, &operators_).reports(), nullptr);
}

TEST_F(KernelMonitorTest, AProcessThatFailsKeepsThem) {
  config_.kernels = KernelMode::kNames;
  KernelMonitor monitor(config_, &operators_);
  ASSERT_TRUE(monitor.Open(Rank(2), true, link()).ok());
  monitor.Began(kernel_);
  monitor.Close(/*well=*/false);
  ASSERT_EQ(Read().Open().size(), 1u);
  EXPECT_EQ(Read().Open()[0]->name, "mlp/mm_out");
}

TEST_F(KernelMonitorTest, ANodeLocalDirectoryIsLinkedTo) {
  config_.kernels = KernelMode::kNames;
  config_.crumb_dir = directory_ + "/local";
  std::filesystem::create_directory(config_.crumb_dir);
  KernelMonitor monitor(config_, &operators_);
  ASSERT_TRUE(monitor.Open(Rank(2), true, link()).ok());
  EXPECT_THAT(std::filesystem::read_symlink(link()).string(),
              StartsWith(config_.crumb_dir + "/tdump_"));
  monitor.Began(kernel_);
  monitor.Ended(kernel_);
  EXPECT_EQ(Read().LastEnded()->name, "mlp/mm_out");
  monitor.Close(/*well=*/true);
  EXPECT_FALSE(Left());
  EXPECT_TRUE(std::filesystem::is_empty(config_.crumb_dir));
}

// A store must neither wait for a disk nor find it full.
TEST_F(KernelMonitorTest, ByItselfTheyLieInMemory) {
  struct statfs found {};
  ASSERT_EQ(::statfs(directory_.c_str(), &found), 0);
  config_.kernels = KernelMode::kNames;
  KernelMonitor monitor(config_, &operators_);
  ASSERT_TRUE(monitor.Open(Rank(2), true, link()).ok());
  EXPECT_EQ(std::filesystem::is_symlink(link()), found.f_type != TMPFS_MAGIC);
  monitor.Began(kernel_);
  EXPECT_EQ(Read().LastBegun()->name, "mlp/mm_out");
  monitor.Close(/*well=*/true);
}

TEST_F(KernelMonitorTest, WhatACrashLeftIsNotInTheWay) {
  config_.kernels = KernelMode::kNames;
  config_.crumb_dir = directory_;
  for (const uint64_t start_time : {1, 2}) {
    std::filesystem::remove(link());  // the run directory is another one under the same path
    Identity identity = Rank(2);
    identity.start_time = start_time;
    KernelMonitor monitor(config_, &operators_);
    EXPECT_TRUE(monitor.Open(identity, true, link()).ok()) << start_time;
  }
}

TEST_F(KernelMonitorTest, WithoutThatDirectoryThereAreNone) {
  config_.kernels = KernelMode::kNames;
  config_.crumb_dir = directory_ + "/missing";
  KernelMonitor monitor(config_, &operators_);
  EXPECT_THAT(monitor.Open(Rank(2), true, link()).message(), HasSubstr("cannot make breadcrumbs"));
  monitor.Began(kernel_);
  EXPECT_FALSE(monitor.leaves_crumbs());
}

TEST_F(KernelMonitorTest, AForkedChildLeavesNone) {
  config_.kernels = KernelMode::kNames;
  KernelMonitor monitor(config_, &operators_);
  ASSERT_TRUE(monitor.Open(Rank(2), true, link()).ok());
  monitor.InForkedChild();
  monitor.Began(kernel_);
  EXPECT_TRUE(Read().crumbs.empty());
}

TEST_F(KernelMonitorTest, APrintedTensorIsOneLine) {
  config_.kernels = KernelMode::kPrint;
  KernelMonitor monitor(config_, &operators_);
  ASSERT_TRUE(monitor.Open(Rank(2), true, link()).ok());
  const std::vector<float> values = {1, -2.5f, 0, 4, 0.5f, 1, 1, 1, 1, 1};
  const std::vector<int64_t> sizes = {2, 5};
  TensorMeta meta;
  meta.dtype = MakeDType("float32", 32);
  meta.sizes = sizes;
  PrintedTensor tensor{.kernel = "mm_out",
                       .call = 3,
                       .role = Role::kAfter,
                       .arg = "buf0",
                       .meta = &meta,
                       .bytes = std::as_bytes(std::span(values))};
  ::testing::internal::CaptureStderr();
  monitor.Print(tensor);
  // Mean 8 / 10; squared deviations 28.5 - 10 * 0.64 = 22.1, std = sqrt(22.1 / 9).
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tdump: rank 2  step -  mm_out::call3@after#buf0  [2, 5] float32 cpu  min -2.5  max 4  "
            "mean 0.8  std 1.56702  | 1 -2.5 0 4 0.5 1 1 1 ...\n");
  tensor.bytes = {};
  tensor.why_not = "cuda:0";
  ::testing::internal::CaptureStderr();
  monitor.Print(tensor);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              EndsWith("float32 cpu  (no values: cuda:0)\n"));
}

// B04 and B06: 1, -2, 448, NaN, and a format in which 0x80 is the only NaN.
TEST_F(KernelMonitorTest, StatisticsOfSmallFloatsArePrinted) {
  config_.kernels = KernelMode::kPrint;
  KernelMonitor monitor(config_, &operators_);
  ASSERT_TRUE(monitor.Open(Rank(2), true, link()).ok());
  const auto line = [&](const char* dtype, const std::vector<uint8_t>& bits) {
    const std::vector<int64_t> sizes = {static_cast<int64_t>(bits.size())};
    TensorMeta meta;
    meta.dtype = MakeDType(dtype, 8);
    meta.sizes = sizes;
    const PrintedTensor tensor{.kernel = "cpp_fused",
                               .role = Role::kBefore,
                               .arg = "arg0_1",
                               .meta = &meta,
                               .bytes = std::as_bytes(std::span(bits))};
    ::testing::internal::CaptureStderr();
    monitor.Print(tensor);
    return ::testing::internal::GetCapturedStderr();
  };
  // Deviations from 149 are -148, -151, 299.
  EXPECT_THAT(line("float8_e4m3fn", {0x38, 0xC0, 0x7E, 0x7F}),
              EndsWith("  min -2  max 448  mean 149  std 258.946  1 NaN  | 1 -2 448 nan\n"));
  EXPECT_THAT(line("float8_e4m3fnuz", {0x80, 0x00, 0x38}),
              EndsWith("  min 0  max 0.5  mean 0.25  std 0.353553  1 NaN  | nan 0 0.5\n"));
}

}  // namespace
}  // namespace tdump::launch
