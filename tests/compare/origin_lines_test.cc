#include "compare/origin_lines.h"

#include <gtest/gtest.h>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

const Tensor kValue = Vector<float>("float32", {1, 2});
const Tensor kOther = Vector<float>("float32", {3, 4});

TEST(OriginLines, InputsOfTheOriginThatAreNotJudgedDoNotAgree) {
  const auto run_of = [](const Tensor& output) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    const uint64_t call = pass.Begin("fc", "", {{"0", kValue}});
    pass.last()->payload.reset();
    pass.last()->hash.reset();
    pass.End(call, "fc", "", {{"", output}});
    return run;
  };
  const DiffReport report = DiffOk(run_of(kValue), run_of(kOther));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(OriginLines(*report.origin).front(),
            "its inputs are not judged: their values were not kept on both sides");
}

// What it is made of was recorded, with the operator's other calls.
TEST(OriginLines, AGradientOfAParameterHasNoInputsOfItsOwn) {
  const auto run_of = [](const Tensor& gradient) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    pass.Module("fc", kValue, kValue);
    const uint64_t call = pass.Begin("fc", "", {});
    pass.End(call, "fc", "", {{"weight", gradient}});
    pass.last()->key.role = Role::kParamGrad;
    return run;
  };
  const DiffReport report = DiffOk(run_of(kValue), run_of(kOther));
  ASSERT_TRUE(report.origin);
  ASSERT_EQ(report.origin->row->key.role, Role::kParamGrad);
  EXPECT_EQ(OriginLines(*report.origin).front(),
            "what it is made of, the operator's input and grad_output, is compared by itself where "
            "it was recorded");
}

}  // namespace
}  // namespace tdump::compare
