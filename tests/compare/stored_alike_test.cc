// Quantised weights of which one side kept less than the values.
#include "compare/stored_alike.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compare/report.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

struct Quantised8 {
  std::vector<int8_t> integers;
  float scale;
};

enum class Kept { kAll, kHashes };

// On each of `ranks`; beside it a module, so that operators can be judged.
FakeRun RunOf(const Quantised8& weight, Kept kept, int32_t ranks = 1) {
  const Tensor value = Vector<float>("float32", {1, 2});
  FakeRun run(ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    PassBuilder pass = run.Pass(rank, 0);
    const auto add = [&](const std::string& name, const Tensor& tensor) {
      pass.Param("mlp", name, tensor);
      if (kept == Kept::kAll) pass.last()->payload = tensor.record.payload;
    };
    add("weight", Vector<int8_t>("int8", weight.integers));
    add("weight_scale", Vector<float>("float32", {weight.scale}));
    pass.Module("mlp", value, value);
  }
  return run;
}

DiffReport Weights(const FakeRun& a, const FakeRun& b) {
  DiffOptions options;
  options.pass.select = Named("weight");
  return DiffOk(a, b, options);
}

const Quantised8 kGood = {{1, -2, 3}, 0.5f}, kOtherScale = {{1, -2, 3}, 0.25f},
                 kOtherIntegers = {{1, -2, 4}, 0.5f}, kSameNumbers = {{2, -4, 6}, 0.25f};

TEST(ShowStoredAlike, HashesOfIntegersAreComparedWithIntegers) {
  for (const bool swapped : {false, true}) {
    const auto diff = [&](const Quantised8& other) {
      const FakeRun full = RunOf(kGood, Kept::kAll), less = RunOf(other, Kept::kHashes);
      return swapped ? Weights(less, full) : Weights(full, less);
    };
    const DiffReport same = diff(kGood);
    EXPECT_EQ(same.overall, Overall::kSame) << swapped;
    EXPECT_EQ(same.counts.paired, 2u);  // the scale too
    EXPECT_EQ(same.counts.unpaired_a + same.counts.unpaired_b, 0u);
    EXPECT_EQ(diff(kOtherScale).overall, Overall::kDiffers) << swapped;
    EXPECT_EQ(diff(kOtherIntegers).overall, Overall::kDiffers) << swapped;
  }
}

TEST(ShowStoredAlike, WithValuesOnBothSidesTheNumbersCount) {
  const DiffReport report = Weights(RunOf(kGood, Kept::kAll), RunOf(kSameNumbers, Kept::kAll));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 1u);
}

TEST(ShowStoredAlike, WhereRanksArePutTogetherToo) {
  const FakeRun full = RunOf(kGood, Kept::kAll);
  EXPECT_EQ(Weights(full, RunOf(kGood, Kept::kHashes, 2)).overall, Overall::kSame);
  EXPECT_EQ(Weights(full, RunOf(kOtherScale, Kept::kHashes, 2)).overall, Overall::kDiffers);
}

}  // namespace
}  // namespace tdump::compare
