// What a launch of a compiled kernel is put together from, where the printer's calls do not come as
// they should.
#include "collectors/torch/compiled_kernels.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kernels.h"
#include "tests/collectors/started_rig.h"

namespace tdump::collectors {
namespace {

using ::testing::ElementsAre;

class Saved final : public KernelReports {
 public:
  KernelMode mode() const noexcept override { return KernelMode::kSave; }
  bool leaves_crumbs() const noexcept override { return false; }
  void Began(OperatorId) noexcept override {}
  void Ended(OperatorId) noexcept override {}
  void Print(const PrintedTensor&) noexcept override {}
};

constexpr char kSites[8] = {};                                      // in one object
const void* const kElsewhere = reinterpret_cast<const void*>(0x1);  // in none

class CompiledKernelsTest : public ::testing::Test {
 protected:
  void Tell(const at::Tensor& tensor, const char* arg, const char* stage, const char* kernel,
            const void* site) {
    EXPECT_EQ(tdump_torch_kernel_argument(&reports_, &tensor, arg, stage, kernel, site), 1);
  }
  // Arguments that were recorded before their launch.
  std::vector<std::string> Before() const {
    std::vector<std::string> args;
    for (const MemorySink::Kept& kept : rig_.sink.kept) {
      if (kept.role == Role::kBefore) args.push_back(kept.arg);
    }
    return args;
  }

  CollectorRig& rig_ = StartedRig();
  Saved reports_;
};

// buf0 may be written in place; that it is shows only at the argument behind it.
TEST_F(CompiledKernelsTest, AnArgumentInFrontOfOneThatHoldsAValueHoldsOneToo) {
  const at::Tensor written = at::ones({2}), read = at::ones({3});
  Tell(written, "buf0", "before_launch", "cpp_both", &kSites[0]);
  Tell(read, "arg0_1", "before_launch", "cpp_both", &kSites[1]);
  EXPECT_THAT(Before(), ElementsAre("buf0", "arg0_1"));
  EXPECT_EQ(written.use_count(), 1u);
  Tell(written, "buf0", "after_launch", "cpp_both", &kSites[2]);
  Tell(read, "arg0_1", "after_launch", "cpp_both", &kSites[3]);
  EXPECT_THAT(rig_.Calls(), ElementsAre("/cpp_both"));
}

// An exception left the launch: where the printer found the first tensor there is another now.
TEST_F(CompiledKernelsTest, ATensorThatIsGoneIsNotRead) {
  at::Tensor place = at::ones({2});
  Tell(place, "buf1", "before_launch", "cpp_gone", &kSites[4]);
  place = at::ones({5});
  const at::Tensor read = at::ones({3});
  Tell(read, "arg0_1", "before_launch", "cpp_gone", &kSites[5]);
  EXPECT_THAT(Before(), ElementsAre("arg0_1"));
  Tell(place, "buf1", "after_launch", "cpp_gone", &kSites[6]);
  Tell(read, "arg0_1", "after_launch", "cpp_gone", &kSites[7]);
}

TEST_F(CompiledKernelsTest, AnotherModelClosesTheLaunchUnderWay) {
  const at::Tensor tensor = at::ones({2});
  Tell(tensor, "buf0", "before_launch", "cpp_left", &kSites[0]);
  Tell(tensor, "arg0_1", "before_launch", "cpp_left", kElsewhere);
  Tell(tensor, "arg0_1", "after_launch", "cpp_left", kElsewhere);
  EXPECT_THAT(Before(), ElementsAre("arg0_1"));
  EXPECT_THAT(rig_.Calls(), ElementsAre("/cpp_left!", "/cpp_left"));
}

// E13: the printer of torch would read what is not there.
TEST_F(CompiledKernelsTest, ArgumentsThatAreNotThereAreIgnored) {
  const at::Tensor undefined, scalar = at::scalar_tensor(7, at::kLong);
  for (const char* stage : {"before_launch", "after_launch"}) {
    EXPECT_EQ(tdump_torch_kernel_argument(&reports_, nullptr, "arg0_1", stage, "cpp_some", kSites),
              1);
    Tell(undefined, "arg1_1", stage, "cpp_some", &kSites[1]);
    Tell(scalar, "arg2_1", stage, "cpp_some", &kSites[2]);
  }
  EXPECT_EQ(
      tdump_torch_kernel_message(&reports_, nullptr, "before_launch - cpp_some - arg0_1", kSites),
      1);
  EXPECT_THAT(Before(), ElementsAre("arg2_1"));
  EXPECT_THAT(rig_.Calls(), ElementsAre("/cpp_some"));
  EXPECT_EQ(rig_.sink.kept.back().dtype, "int64");
  EXPECT_TRUE(rig_.sink.kept.back().sizes.empty());
  EXPECT_EQ(rig_.sink.kept.back().data.size(), 8u);
}

}  // namespace
}  // namespace tdump::collectors
