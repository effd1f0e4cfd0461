#include "compare/pass_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;

// A step of two micro-batches of four rows on each rank, which hold copies, and the gradient that
// they add up to, in bfloat16. The last rank alone has `own`: its calls are the step's too.
FakeRun TwoMicroBatches(int32_t ranks, uint16_t gradient) {
  FakeRun run(ranks);
  const Tensor in = Matrix(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
  for (int32_t rank = 0; rank < ranks; ++rank) {
    PassBuilder pass = run.Pass(rank, 0);
    for (const uint32_t micro : {0u, 1u}) {
      const size_t first = pass.records()->size();
      pass.Module("fc", in, in);
      pass.last_call()->call.micro = micro;
      pass.last_call()->arguments = {
          {.role = Role::kInput, .arg = "0", .dtype = "bfloat16", .sizes = {4, 2}},
          {.role = Role::kOutput, .arg = "", .dtype = "bfloat16", .sizes = {4, 2}}};
      for (size_t i = first; i < pass.records()->size(); ++i)
        (*pass.records())[i].key.micro = micro;
    }
    if (rank == ranks - 1) pass.Module("own", in, in);
    const Tensor tensor =
        MakeTensor<uint16_t>("bfloat16", {2, 2}, {0x3f80, 0x4000, gradient, 0x4080});
    pass.Param("fc", "weight", tensor);
    pass.last()->key.role = Role::kParamGrad;
    pass.last()->payload = tensor.record.payload;
  }
  return run;
}

TEST(PassJudge, CallsThatEveryRankMadeCountOnceForAGradient) {
  std::string bound;
  DiffOptions options = WithDims("", "... replicated[rank]");
  options.on_row = [&](const Row& row) {
    if (row.key.role == Role::kParamGrad) bound = row.bound;
  };
  for (const int32_t ranks : {1, 2, 4}) {
    DiffOk(TwoMicroBatches(1, 0x4040), TwoMicroBatches(ranks, 0x4041), options);
    // Rounded once for each micro-batch, of four terms each.
    EXPECT_THAT(bound, HasSubstr("(sqrt(2) * 0.0039 + sqrt(8) * 6e-08)")) << ranks;
  }
}

// Two threads number their calls each from 0.
TEST(PassJudge, CallsOfTwoThreadsCountEach) {
  const auto two_threads = [](uint16_t gradient) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const Tensor in = Matrix(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
    for (const uint32_t lane : {0u, 1u}) {
      pass.Module("fc", in, in);
      pass.last_call()->call.lane = lane;
      pass.last_call()->arguments = {
          {.role = Role::kInput, .arg = "0", .dtype = "bfloat16", .sizes = {4, 2}},
          {.role = Role::kOutput, .arg = "", .dtype = "bfloat16", .sizes = {4, 2}}};
    }
    const Tensor tensor =
        MakeTensor<uint16_t>("bfloat16", {2, 2}, {0x3f80, 0x4000, gradient, 0x4080});
    pass.Param("fc", "weight", tensor);
    pass.last()->key.role = Role::kParamGrad;
    pass.last()->payload = tensor.record.payload;
    return run;
  };
  std::string bound;
  DiffOptions options;
  options.on_row = [&](const Row& row) {
    if (row.key.role == Role::kParamGrad) bound = row.bound;
  };
  DiffOk(two_threads(0x4040), two_threads(0x4041), options);
  EXPECT_THAT(bound, HasSubstr("(sqrt(2) * 0.0039 + sqrt(8) * 6e-08)"));
}

}  // namespace
}  // namespace tdump::compare
