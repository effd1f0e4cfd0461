// F12 as processes: two ranks that both have a "layers.0", which holds other values on each.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/tools/diff_process.h"

namespace tdump::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DiffStagesTest : public DiffProcessTest {
 protected:
  static TensorImage Layer(const std::string& path, float value) {
    return Out<float>(path, "float32", {value, value + 0.5f});
  }
  // Stages that number their layers from 0; one layer each.
  void MakeStages(const std::string& name, const std::vector<float>& values, bool say_so,
                  const std::string& layer = "layers.0") {
    for (size_t stage = 0; stage < values.size(); ++stage) {
      ProcessImage::Options options = {.rank = static_cast<int32_t>(stage),
                                       .world = static_cast<int32_t>(values.size())};
      if (say_so) options.coordinates = "pp=" + std::to_string(stage);
      ProcessImage(env_, Path(name), options)
          .Expect(layer)
          .Tensors(0, {Layer(layer, values[stage])})
          .Exit(1);
    }
  }
  // One process that has all layers.
  void MakeWhole(const std::string& name, const std::vector<float>& values) {
    std::vector<TensorImage> layers;
    for (size_t i = 0; i < values.size(); ++i)
      layers.push_back(Layer("layers." + std::to_string(i), values[i]));
    MakeOneStep(name, layers);
  }
};

TEST_F(DiffStagesTest, TheMergedManifestKeepsBothUnderTheirRanks) {
  for (const bool say_so : {false, true}) {
    const std::string run = say_so ? "stages" : "unknown";
    MakeStages(run, {1, 7}, say_so);
    for (int time = 0; time < 2; ++time) {  // the second time of the merged manifest
      EXPECT_THAT(Run("tdump-view", {run + ":0/0/layers.0", "--values", "2"}).out,
                  HasSubstr("= 1  1.5\n"));
      EXPECT_THAT(Run("tdump-view", {run + ":0/1/layers.0", "--values", "2"}).out,
                  HasSubstr("= 7  7.5\n"));
      const auto merged = Run("tdump-merge", {run, "--strict"});
      EXPECT_EQ(merged.status, 0) << merged.out << merged.err;
    }
  }
}

TEST_F(DiffStagesTest, StagesAreNotPairedByNameAlone) {
  MakeStages("stages", {1, 7}, true);
  MakeStages("unknown", {1, 7}, false);
  const auto known = Diff({"stages/rank0", "stages/rank1"});
  EXPECT_EQ(known.status, 2);
  EXPECT_THAT(known.out, HasSubstr("NOT COMPARABLE  stages@0/rank0 is stage 0 of a pipeline (pp)"));
  EXPECT_THAT(known.out, Not(HasSubstr("max abs")));
  // That they are copies has to be said.
  for (const char* axis : {"dp", "pp"})
    EXPECT_EQ(Diff({"unknown", "--across", axis}).status, 2) << axis;
  EXPECT_EQ(Diff({"unknown", "--across", "pp", "--topology", "pp=2"}).status, 2);
  // Against the whole model the second stage's layer 0 is its layer 1, where the ranks say so.
  MakeWhole("whole", {1, 7});
  EXPECT_EQ(Diff({"whole", "stages"}).status, 0);
  const auto by_name = Diff({"whole", "unknown"});
  EXPECT_EQ(by_name.status, 1);
  EXPECT_THAT(by_name.out, HasSubstr("--topology B:pp=2"));
  EXPECT_EQ(Diff({"whole", "unknown", "--topology", "B:pp=2"}).status, 0);
}

TEST_F(DiffStagesTest, AMapOfLayersIsAppliedAndRecorded) {
  MakeStages("stages", {1, 7}, true, "decoder.layers.0");
  MakeWhole("whole", {1, 0, 7});  // the second stage begins with layer 2
  std::ofstream(Path("map.yaml")) << "sides: {whole: {looks_like: '^layers'}, "
                                     "stages: {looks_like: '^decoder'}}\n"
                                     "layers: [{name: 'layers\\.(\\d+)', stages: [0, 2]}]\n"
                                     "rules: [{name: 'decoder\\.layers', to: layers}]\n";
  const std::vector<std::string> mapped = {
      "whole",      "stages",     "--map", "map.yaml", "--allow-unpaired",
      "^layers.1$", "--topology", "B:pp=2"};
  const auto done = Diff(mapped);
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  EXPECT_THAT(done.out, HasSubstr("\nmap       map.yaml: A has whole names, B stages names\n"));
  std::vector<std::string> lines = mapped;
  lines.insert(lines.end(), {"--jsonl", "rows"});
  EXPECT_EQ(Diff(lines).status, 0);
  EXPECT_THAT(Text(Path("rows")), HasSubstr("\"name_a\":\"layers.2\""));
  EXPECT_EQ(Report(mapped)["job"]["map"], "map.yaml: A has whole names, B stages names");
}

}  // namespace
}  // namespace tdump::tools
