// The origin among stages of a pipeline that both runs have, and that are compared rank by rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kStages = 3, kLayers = 3;  // of each stage

Tensor Value(float value) { return Matrix(2, 2, {value, value + 1, value + 2, value + 4}); }

// How the stages are written down. The layers are numbered from 0 on in each.
struct Pipeline {
  std::optional<int> fault;  // of the layers of the model: what it makes is wrong
  bool root_inputs = true;
  bool turned = false;  // the last rank holds the first stage
  bool coordinates = true;
  bool hashes = true;
};

FakeRun RunOf(const Pipeline& pipeline) {
  FakeRun run(kStages);
  // What goes into a layer, by its number in the model.
  const auto given = [&](int layer) {
    return Value(static_cast<float>(layer) + (layer > pipeline.fault.value_or(99) ? 0.5f : 0.0f));
  };
  for (int rank = 0; rank < kStages; ++rank) {
    const int stage = pipeline.turned ? kStages - 1 - rank : rank;
    if (pipeline.coordinates) run.Place(rank, "pp=" + std::to_string(stage));
    PassBuilder pass = run.Pass(rank, 0);
    const int first = stage * kLayers;
    uint64_t root = 0;
    if (pipeline.root_inputs) root = pass.Begin(".", "", {{"0", given(first)}});
    for (int layer = 0; layer < kLayers; ++layer)
      pass.Module("layers." + std::to_string(layer), given(first + layer),
                  given(first + layer + 1));
    if (pipeline.root_inputs) pass.End(root, ".", "", {});
    if (pipeline.hashes) continue;
    for (io::Record* record = pass.last(); record->id > 0; --record) {
      record->hash.reset();
      record->parts_kept &= ~kPartHash;
      if (record->id == 1) break;
    }
  }
  return run;
}

DiffReport Faulty(Pipeline pipeline, int layer) {
  const FakeRun a = RunOf(pipeline);
  pipeline.fault = layer;
  return DiffOk(a, RunOf(pipeline));
}

void ExpectOrigin(const DiffReport& report, int32_t rank, const std::string& name) {
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
  EXPECT_TRUE(report.origin->certain);
  EXPECT_EQ(report.origin->rank, rank);
  EXPECT_EQ(report.origin->name, name);
}

TEST(StageOrigin, AStageIsNotBlamedForWhatItWasGiven) {
  for (const bool root_inputs : {true, false}) {
    for (const bool turned : {false, true}) {
      for (int layer = 0; layer < kStages * kLayers; ++layer) {
        SCOPED_TRACE(testing::Message() << root_inputs << turned << " layer " << layer);
        const DiffReport report =
            Faulty({.fault = {}, .root_inputs = root_inputs, .turned = turned}, layer);
        const int stage = layer / kLayers;
        ExpectOrigin(report, turned ? kStages - 1 - stage : stage,
                     "layers." + std::to_string(layer % kLayers));
        // Layers of that name on other ranks are others.
        EXPECT_THAT(report.origin->ranks_alike, IsEmpty());
        EXPECT_THAT(report.origin->ranks_agreeing, IsEmpty());
      }
    }
  }
}

TEST(StageOrigin, InputsOfTheFirstStageAloneAreTheModels) {
  const DiffReport report = Faulty({}, 1);
  EXPECT_EQ(report.inputs.compared, 1u);
  EXPECT_EQ(report.inputs.equal, 1u);
  EXPECT_FALSE(report.inputs.first_differing_step);
  EXPECT_THAT(Joined(Text(report, 3, 3)), Not(HasSubstr("INPUTS DIFFER")));
  // Given other data, all stages differ.
  const DiffReport data = Faulty({}, -1);
  EXPECT_EQ(data.origin->kind, OriginKind::kInputs);
  EXPECT_EQ(data.origin->rank, 0);
  EXPECT_EQ(data.inputs.differing_pairs, 1u);
}

// Integers that a later stage is given come from no other stage.
TEST(StageOrigin, LabelsOfTheLastStageAreInputsOfTheModel) {
  const auto run = [](int64_t label) {
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      run.Place(rank, "pp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      std::vector<PassBuilder::Argument> in = {{"0", Value(1)}};
      if (rank == 1) in.push_back({"labels", Vector<int64_t>("int64", {label})});
      const uint64_t root = pass.Begin(".", "", in);
      pass.Module("layers.0", Value(1), Value(2));
      pass.End(root, ".", "", {});
    }
    return run;
  };
  const DiffReport report = DiffOk(run(1), run(2));
  EXPECT_THAT(report.inputs.differing, ElementsAre("labels"));
  EXPECT_EQ(report.inputs.compared, 2u);  // and the first stage's
}

// What the last stage alone is given is an input of the model too where ranks are put together,
// also under a name that the first stage has for something else.
TEST(StageOrigin, LabelsAreKeptWhereRanksArePutTogether) {
  constexpr int64_t kTokens = 7;
  const auto run = [](const std::string& arg, std::optional<int64_t> of_first, int64_t label) {
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      run.Place(rank, "pp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      std::vector<PassBuilder::Argument> in = {{"0", Value(static_cast<float>(rank))}};
      const std::optional<int64_t> second = rank == 0 ? of_first : label;
      if (second) in.push_back({arg, Vector<int64_t>("int64", {*second})});
      const uint64_t root = pass.Begin(".", "", in);
      pass.Module("layers.0", Value(1), Value(2));
      pass.End(root, ".", "", {});
    }
    return run;
  };
  DiffOptions together;
  together.job = JobOptions{};
  for (const std::optional<int64_t> of_first : {std::optional<int64_t>(), std::optional(kTokens)}) {
    SCOPED_TRACE(of_first.has_value());
    const FakeRun a = run("1", of_first, 1);
    const DiffReport same = DiffOk(a, run("1", of_first, 1), together);
    EXPECT_EQ(same.overall, Overall::kSame);
    EXPECT_EQ(same.inputs.equal, of_first ? 3u : 2u);
    const DiffReport other = DiffOk(a, run("1", of_first, 2), together);
    EXPECT_EQ(other.overall, Overall::kDiffers);
    EXPECT_THAT(other.inputs.differing, ElementsAre("1"));
    EXPECT_EQ(other.inputs.compared, of_first ? 3u : 2u);
  }
  // All stages were given the tokens.
  EXPECT_EQ(DiffOk(run("1", kTokens, kTokens), run("1", kTokens, kTokens), together).inputs.equal,
            2u);
}

// Gradients come from the last stage, what the optimizer makes of them after all.
TEST(StageOrigin, BackwardWorkIsOrderedTheOtherWayRound) {
  const auto run = [](float gradient_of_last, float gradient_of_first) {
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      run.Place(rank, "pp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      pass.Module("layers.0", Value(1), Value(2));
      pass.Param("layers.0", "weight", Value(rank == 0 ? gradient_of_first : gradient_of_last));
      pass.last()->key.role = Role::kParamGrad;
      pass.last()->key.phase = Phase::kBackward;
    }
    return run;
  };
  const DiffReport last = DiffOk(run(1, 1), run(2, 2));
  EXPECT_EQ(last.origin->rank, 1);
  const DiffReport first = DiffOk(run(1, 1), run(1, 2));
  EXPECT_EQ(first.origin->rank, 0);
}

TEST(StageOrigin, WorkAfterTheBackwardComesLast) {
  const auto run = [](float gradient, float after) {
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      run.Place(rank, "pp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      pass.Module("layers.0", Value(1), Value(2));
      pass.Param("layers.0", "weight", Value(rank == 1 ? gradient : 1));
      pass.last()->key.role = Role::kParamGrad;
      pass.last()->key.phase = Phase::kBackward;
      pass.Tap(".", "norm", Value(rank == 0 ? after : 1));
    }
    return run;
  };
  EXPECT_EQ(DiffOk(run(1, 1), run(2, 3)).origin->rank, 1);
  EXPECT_EQ(DiffOk(run(1, 1), run(1, 3)).origin->rank, 0);
}

// Chunk c of stage s holds layer c * 2 + s of the model, which `fault` makes wrong.
FakeRun Interleaved(int fault) {
  FakeRun run(2);
  for (const int32_t rank : {0, 1}) {
    run.Place(rank, "pp=" + std::to_string(rank));
    PassBuilder pass = run.Pass(rank, 0);
    for (const int chunk : {0, 1}) {
      const auto in_chunk = static_cast<uint32_t>(chunk);
      const int layer = chunk * 2 + rank;
      const auto value = [&](int at) {
        return Value(static_cast<float>(at) + (at > fault ? 0.5f : 0.0f));
      };
      const uint64_t root = pass.Begin(".", "", {{"0", value(layer)}});
      pass.last()->key.chunk = in_chunk;
      pass.last()->key.call = 0;
      pass.Module("layers.0", value(layer), value(layer + 1));
      for (io::Record* record : {pass.last(), pass.last() - 1}) {
        record->key.chunk = in_chunk;
        record->key.call = 0;
      }
      pass.End(root, ".", "", {});
      for (const int back : {1, 2}) (pass.calls()->end() - back)->call.chunk = in_chunk;
    }
  }
  return run;
}

TEST(StageOrigin, ChunksOfAnInterleavedPipelineTakeTheirTurns) {
  DiffOptions together;
  together.job = JobOptions{};
  for (const DiffOptions& options : {DiffOptions(), together}) {
    for (int fault = 0; fault < 4; ++fault) {
      SCOPED_TRACE(testing::Message() << (options.job ? "together, " : "") << "layer " << fault);
      const DiffReport report = DiffOk(Interleaved(99), Interleaved(fault), options);
      ExpectOrigin(report, fault % 2, "layers.0");
      EXPECT_EQ(report.origin->row->key.chunk, static_cast<uint32_t>(fault / 2));
      EXPECT_EQ(report.inputs.equal, report.inputs.compared);
    }
  }
}

// Nobody says that the ranks are stages; what they were given is what others made.
TEST(StageOrigin, WithoutCoordinatesValuesTellWhoMadeThem) {
  for (const bool root_inputs : {true, false}) {
    for (int layer = 0; layer < kStages * kLayers; ++layer) {
      SCOPED_TRACE(testing::Message() << root_inputs << " layer " << layer);
      const DiffReport report =
          Faulty({.fault = {}, .root_inputs = root_inputs, .coordinates = false}, layer);
      ExpectOrigin(report, layer / kLayers, "layers." + std::to_string(layer % kLayers));
    }
  }
  EXPECT_THAT(Faulty({.fault = {}, .coordinates = false}, 1).notes,
              Contains("rank 1 was given what layers.2 of rank 0 made; no coordinates say where "
                       "ranks are: if they are stages of a pipeline, --topology pp=N"));
}

// The pass of the rank that was given what another one made is not the one with the origin.
TEST(StageOrigin, WithoutCoordinatesTheErrorGrowthIsOfTheOriginsRank) {
  for (const bool turned : {false, true}) {
    const DiffReport report = Faulty({.fault = {}, .turned = turned, .coordinates = false}, 1);
    ExpectOrigin(report, turned ? kStages - 1 : 0, "layers.1");
    EXPECT_EQ(report.growth.rank, report.origin->rank);
    const auto first = std::find_if(report.growth.points.begin(), report.growth.points.end(),
                                    [](const GrowthPoint& point) { return point.fails; });
    ASSERT_NE(first, report.growth.points.end());
    EXPECT_EQ(first->name, "layers.1");
  }
}

TEST(StageOrigin, WithoutCoordinatesAndHashesInputsAreNotCertain) {
  const DiffReport report = Faulty({.fault = {}, .coordinates = false, .hashes = false}, 1);
  EXPECT_FALSE(report.origin->certain);
  const std::string text = Joined(Text(report, 3, 3));
  EXPECT_THAT(text, Not(HasSubstr("INPUTS DIFFER")));
  EXPECT_THAT(text, HasSubstr("or what a stage of a pipeline before it made"));
}

// Data parallel ranks without coordinates: one was given other data, and gradients are summed.
TEST(StageOrigin, WithoutCoordinatesOtherDataOfEveryRankAreInputs) {
  const auto run = [](float data) {
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      PassBuilder pass = run.Pass(rank, 0);
      const float in = data + static_cast<float>(10 * rank);
      const uint64_t root = pass.Begin(".", "", {{"0", Value(in)}});
      pass.Module("dropout", Value(in), Value(in)).Module("fc", Value(in), Value(in + 5));
      pass.End(root, ".", "", {});
    }
    return run;
  };
  const DiffReport report = DiffOk(run(1), run(2));
  EXPECT_EQ(report.origin->kind, OriginKind::kInputs);
  EXPECT_TRUE(report.origin->certain);
  EXPECT_EQ(report.origin->rank, 0);
  EXPECT_THAT(report.notes, IsEmpty());
}

}  // namespace
}  // namespace tdump::compare
