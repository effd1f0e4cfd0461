// Whole diffs of runs whose ranks are stages of a pipeline, and count their layers from 0 on or
// not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// F12: stages of a pipeline that number their layers from 0 on.
FakeRun Stages(const std::vector<std::vector<Tensor>>& layers, bool with_coordinates) {
  FakeRun run(static_cast<int32_t>(layers.size()));
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    const auto rank = static_cast<int32_t>(stage);
    if (with_coordinates) run.Place(rank, "pp=" + std::to_string(stage));
    PassBuilder pass = run.Pass(rank, 0);
    for (size_t layer = 0; layer < layers[stage].size(); ++layer)
      pass.Module("layers." + std::to_string(layer), kInput, layers[stage][layer]);
  }
  return run;
}

FakeRun Layers(const std::vector<Tensor>& layers) { return Stages({layers}, false); }

Tensor Value(float value) { return Matrix(2, 2, {value, value, value, value}); }

TEST(StagesDiff, StagesThatCountFromZeroGetTheNumbersOfTheModel) {
  const FakeRun whole = Layers({Value(1), Value(2), Value(3)});
  const DiffReport report = DiffOk(whole, Stages({{Value(1), Value(2)}, {Value(3)}}, true));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 6u);
  EXPECT_THAT(report.notes, Contains(HasSubstr("layer 0 of the last stage is layer 2")));
  const DiffReport wrong = DiffOk(whole, Stages({{Value(1), Value(2)}, {Value(4)}}, true));
  EXPECT_EQ(wrong.overall, Overall::kDiffers);
  EXPECT_EQ(wrong.origin->rank, 1);
}

TEST(StagesDiff, OfWhatEveryStageHoldsTheEndsAreTheModels) {
  FakeRun a(1), b(2);
  PassBuilder whole = a.Pass(0, 0);
  const uint64_t root = whole.Begin("decoder", "", {{"0", Value(1)}});
  whole.Module("decoder.layers.0", Value(1), Value(2))
      .Module("decoder.layers.1", Value(2), Value(3));
  whole.End(root, "decoder", "", {{"", Value(3)}});
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, "pp=" + std::to_string(rank));
    const float in = static_cast<float>(rank + 1);
    PassBuilder pass = b.Pass(rank, 0);
    const uint64_t outer = pass.Begin("decoder", "", {{"0", Value(in)}});
    pass.Module("decoder.layers.0", Value(in), Value(in + 1));
    pass.End(outer, "decoder", "", {{"", Value(in + 1)}});
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 6u);
}

TEST(StagesDiff, AWeightThatTwoStagesShareIsOne) {
  FakeRun a(1), b(2);
  a.Pass(0, 0)
      .Param("embedding", "weight", kWhole)
      .Module("layers.0", kInput, kInput)
      .Module("layers.1", kInput, kInput);
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, "pp=" + std::to_string(rank));
    b.Pass(rank, 0).Param("embedding", "weight", kWhole).Module("layers.0", kInput, kInput);
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.equal_by_hash, 5u);
}

TEST(StagesDiff, StagesAreNotPairedByNameAlone) {
  // Nobody says that the ranks are stages: rank 1's layers.0 is no copy of rank 0's, and the layers
  // that only A has stay alone.
  const DiffReport report =
      DiffOk(Layers({Value(1), Value(2)}), Stages({{Value(1)}, {Value(2)}}, false));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_EQ(report.counts.failing, 1u);
  EXPECT_EQ(report.failing[0].rank_b, 1);
  const auto asks = HasSubstr(
      "if they are stages of a pipeline that number layers from 0, "
      "--topology B:pp=2");
  EXPECT_THAT(report.notes, Contains(asks));
  // Both hold the same: no digest differs, and still layers.1 is missing.
  const DiffReport equal =
      DiffOk(Layers({Value(1), Value(1)}), Stages({{Value(1)}, {Value(1)}}, false));
  EXPECT_EQ(equal.overall, Overall::kDiffers);
  EXPECT_EQ(equal.counts.unpaired_a, 2u);
}

// Rank 1's layers.0 is layer 1 of the model: no copy of rank 0's, whatever it is called.
TEST(StagesDiff, RanksOfTwoStagesAreNotCompared) {
  const FakeRun run = Stages({{Value(1)}, {Value(2)}}, true);
  const auto of = [&](int32_t a, int32_t b, const DiffOptions& options = {}) {
    const auto report = Diff(run.side(a), run.side(b), options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : DiffReport();
  };
  for (const DiffReport& report : {of(0, 1), of(0, 1, WithDims("fc", "..."))}) {
    EXPECT_EQ(report.overall, Overall::kNotComparable);
    EXPECT_EQ(report.counts.paired, 0u);
    EXPECT_EQ(report.why_not,
              "run is stage 0 of a pipeline (pp) and run stage 1: their layers are not the same; "
              "name ranks of one stage, or compare the whole runs");
  }
  EXPECT_EQ(of(1, 1).overall, Overall::kSame);
  // Nobody says that the ranks are stages.
  const FakeRun unknown = Stages({{Value(1)}, {Value(2)}}, false);
  EXPECT_EQ(Diff(unknown.side(0), unknown.side(1), {})->overall, Overall::kDiffers);
  EXPECT_THAT(Diff(unknown.side(0), unknown.side(1), {})->notes,
              Contains(HasSubstr("layers of ranks 0 and 1 differ throughout")));
  // Copies of one layer, but for one fault.
  const FakeRun copies =
      Stages({{Value(1), Value(2)}, {Value(1), Value(3)}}, /*with_coordinates=*/false);
  EXPECT_THAT(Diff(copies.side(0), copies.side(1), {})->notes, IsEmpty());
  EXPECT_THAT(DiffOk(Layers({Value(1), Value(2)}), copies).notes, IsEmpty());
  // What the user selects may be the same: tied embeddings.
  DiffOptions selected;
  selected.pass.select = [](const std::string&) { return true; };
  EXPECT_NE(of(0, 1, selected).overall, Overall::kNotComparable);
  EXPECT_THAT(of(0, 1, selected).notes, Contains(HasSubstr("stage 0 of a pipeline")));
  // A map may say which layer it is.
  DiffOptions mapped;
  mapped.job = JobOptions{};
  mapped.job->map = *NameMap::Parse("version: 1\nrules: [{name: layers, to: layers}]", "m.yaml");
  EXPECT_NE(of(0, 1, mapped).overall, Overall::kNotComparable);
}

// Weights that every layer begins with tell nothing: ones of a norm.
TEST(StagesDiff, WeightsOfLayersThatDifferBetweenRanksAskForStages) {
  const auto run = [](const std::vector<float>& weights) {
    FakeRun run(static_cast<int32_t>(weights.size()));
    for (size_t rank = 0; rank < weights.size(); ++rank) {
      run.Pass(static_cast<int32_t>(rank), 0)
          .Param("layers.0.fc", "weight", Value(weights[rank]))
          .Param("layers.0.fc", "bias", Value(weights[rank] + 10))
          .Param("layers.0.norm", "weight", Value(1));
    }
    return run;
  };
  const auto asks = Contains(HasSubstr("--topology B:pp=2"));
  EXPECT_THAT(DiffOk(run({2}), run({2, 3})).notes, asks);
  EXPECT_THAT(DiffOk(run({2}), run({3, 3})).notes, Not(asks));
}

TEST(StagesDiff, ChunksOfAnInterleavedPipelineComeInTheirOrder) {
  FakeRun b(2);
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, "pp=" + std::to_string(rank));
    PassBuilder pass = b.Pass(rank, 0);
    for (const uint32_t chunk : {0u, 1u}) {
      // Chunk c of stage s is the (c * 2 + s)-th.
      pass.Module("layers.0", kInput, Value(static_cast<float>(chunk * 2 + rank)));
      pass.last()->key.chunk = (pass.last() - 1)->key.chunk = chunk;
      pass.last()->key.call = (pass.last() - 1)->key.call = 0;
    }
  }
  const DiffReport report = DiffOk(Layers({Value(0), Value(1), Value(2), Value(3)}), b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 8u);
  EXPECT_EQ(report.counts.bits_equal, 8u);
}

TEST(StagesDiff, GlobalNumbersStay) {
  FakeRun b(2);
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, "pp=" + std::to_string(rank));
    b.Pass(rank, 0).Module("layers." + std::to_string(rank), kInput,
                           Value(static_cast<float>(rank)));
  }
  const DiffReport report = DiffOk(Layers({Value(0), Value(1)}), b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.notes, IsEmpty());
}

TEST(StagesDiff, AnErrorOfAnEarlierStageComesFirst) {
  // Rank 1 (stage 1) counts its own time: its calls have smaller numbers than rank 0's last one.
  FakeRun a(1), b(2);
  PassBuilder whole = a.Pass(0, 0);
  for (const char* name : {"layers.0", "layers.1", "layers.2", "layers.3"})
    whole.Module(name, kInput, kInput);
  b.Place(0, "pp=0");
  b.Place(1, "pp=1");
  PassBuilder first = b.Pass(0, 0), second = b.Pass(1, 0);
  first.Module("layers.0", kInput, kInput).Module("layers.1", kInput, Value(5));
  second.Module("layers.2", kInput, Value(6)).Module("layers.3", kInput, kInput);
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.counts.failing, 2u);
  EXPECT_EQ(report.origin->name, "layers.1");
  EXPECT_EQ(report.origin->rank, 0);
}

}  // namespace
}  // namespace tdump::compare
