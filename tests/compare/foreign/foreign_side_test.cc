// Dumps of other tools as sides: what is found in a directory, and what a step of it holds.
#include "compare/foreign/foreign_side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "compare/diff.h"
#include "compare/late_view.h"
#include "compare/pairing.h"
#include "compare/picked_side.h"
#include "tests/compare/foreign/foreign_sides.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ForeignSideTest, PassFilesOfSeveralRanks) {
  for (const char* rank : {"TP0_PP0_Rank0_pid9", "TP1_PP0_Rank1_pid10"}) {
    for (const char* pass : {"Pass00000.pt", "Pass00010.pt"})
      Store(std::string("dump/") + rank + "/" + pass, Pass({"model.a", "model.b"}));
  }
  const auto side = Side("dump");
  EXPECT_EQ(side->world(), 2);
  EXPECT_THAT(Passes(*side), ElementsAre("0.0.0", "0.1.0", "10.0.0", "10.1.0"));
  EXPECT_EQ(side->CoordinatesOf(1), "tp=1 pp=0");
  EXPECT_EQ(side->rank(), std::nullopt);
  EXPECT_EQ(Side("dump/TP1_PP0_Rank1_pid10")->rank(), 1);
  EXPECT_THAT(Keys(*side), ElementsAre("model.a@output#", "model.b@output#"));
  // One rank of it.
  EXPECT_THAT(Passes(*Side("dump/TP1_PP0_Rank1_pid10")), ElementsAre("0.1.0", "10.1.0"));
  // One file of it.
  EXPECT_THAT(Passes(*Side("dump/TP1_PP0_Rank1_pid10/Pass00010.pt")), ElementsAre("0.0.0"));
}

// SGLang's hook on `model` writes the file before it takes that module's output.
TEST_F(ForeignSideTest, WhatSglangWritesWithTheNextPassIsPutBack) {
  const std::string directory = "dump/TP0_PP0_Rank0_pid9/";
  Store(directory + "Pass00000.pt", Pass({"visual", "model.a", "model.b"}));
  Store(directory + "Pass00001.pt", Pass({"model", "lm_head", "visual", "model.a"}, 1));
  Store(directory + "Pass00002.pt", Pass({"model", "lm_head", "model.a"}, 2));
  Store(directory + "Pass00004.pt", Pass({"model", "lm_head"}, 4));
  const auto side = Side("dump");
  EXPECT_THAT(Keys(*side, 0), ElementsAre("visual@output#", "model.a@output#", "model.b@output#",
                                          "model@output#", "lm_head@output#"));
  EXPECT_THAT(Keys(*side, 1),
              ElementsAre("visual@output#", "model.a@output#", "model@output#", "lm_head@output#"));
  EXPECT_THAT(Keys(*side, 2), ElementsAre("model.a@output#"));  // the file of pass 3 is not there
  EXPECT_THAT(Keys(*side, 3), ElementsAre());
  EXPECT_THAT(side->late(), ElementsAre("model", "lm_head"));
}

// Without the first file nobody knows what a pass begins with; phyai writes a pass whole.
TEST_F(ForeignSideTest, OtherPassFilesAreTakenAsTheyAre) {
  Store("dump/TP0_PP0_Rank0_pid9/Pass00001.pt", Pass({"model", "model.a"}));
  EXPECT_THAT(Keys(*Side("dump")), ElementsAre("model@output#", "model.a@output#"));
  Store("phyai/rank0_pid9/pass00000.pt", Pass({"model.a"}));
  Store("phyai/rank0_pid9/pass00001.pt", Pass({"model", "model.a"}));
  EXPECT_THAT(Keys(*Side("phyai"), 1), ElementsAre("model@output#", "model.a@output#"));
}

TEST_F(ForeignSideTest, PassesThatWereExported) {
  const std::string file =
      Safetensors(R"({"a@output#":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", Raw(1.0f));
  for (const char* name : {"step0_rank0", "step0_rank1", "step10_rank0", "step2_rank0",
                           "step2_rank0_p1", "step2_rank0_extra_2"})
    Store(std::string("ex/") + name + ".safetensors", file);
  const auto side = Side("ex");
  EXPECT_EQ(side->world(), 2);
  EXPECT_THAT(Passes(*side), ElementsAre("0.0.0", "0.1.0", "2.0.0", "2.0.0", "2.0.1", "10.0.0"));
  EXPECT_THAT(Keys(*side, 5), ElementsAre("a@output#"));
  EXPECT_FALSE(side->passes()[2].extra);
  EXPECT_TRUE(side->passes()[3].extra);
  EXPECT_EQ(side->passes()[3].nth, 0u);
  // Whoever else has files of such names has others beside them.
  Store("other/step0_rank0_up.npz", Zip({{"x.npy", Array(1)}}));
  Store("other/step1_rank0_up.npz", Zip({{"x.npy", Array(1)}}));
  EXPECT_THAT(Passes(*Side("other")), ElementsAre("0.0.0"));
}

TEST_F(ForeignSideTest, TwoProcessesOfOneRank) {
  Store("dump/rank0_pid5/pass00000.pt", Pass({"a"}));
  Store("dump/rank0_pid40/pass00000.pt", Pass({"a::call1"}));
  const auto side = Side("dump");
  EXPECT_THAT(Passes(*side), ElementsAre("0.0.0", "0.0.1"));
  EXPECT_THAT(Keys(*side, 1), ElementsAre("a::call1@output#"));
}

TEST_F(ForeignSideTest, TwoFilesOfOneStepAreBothThere) {
  Store("dump/rank0_pid5/pass00001.pt", Pass({"a"}));
  Store("dump/rank0_pid5/pass1.pt", Pass({"a"}, 1));
  Store("other/rank0_pid5/pass00001.pt", Pass({"a"}));
  const auto both = Side("dump"), one = Side("other");
  const auto pairing = PairPasses(*both, *one, {});
  ASSERT_TRUE(pairing.ok());
  EXPECT_EQ(pairing->pairs.size(), 1u);
  ASSERT_EQ(pairing->only_a.size(), 1u);
  EXPECT_EQ(pairing->only_a[0].step, 1u);
}

TEST_F(ForeignSideTest, ARankThatNoJobHasIsRefused) {
  Store("dump/TP0_PP0_Rank0_pid5/Pass00000.pt", Pass({"a"}));
  Store("dump/TP0_PP0_Rank1073741824_pid5/Pass00000.pt", Pass({"a"}));
  EXPECT_THAT(Why("dump"), HasSubstr("rank 1073741824: ranks below 1048576 are compared"));
  Store("tags/step=0___rank=99999999999___name=a.pt", Pass({"a"}));
  EXPECT_THAT(Why("tags"), HasSubstr("ranks below"));
}

TEST_F(ForeignSideTest, AJobWithoutRanksHasTheNumberOfItsProcess) {
  for (const char* place : {"d/step0/proc77", "d/step0/proc9", "d/step1/proc77"})
    Store(std::string(place) + "/dump.json", R"({"data": {}})");
  EXPECT_THAT(Passes(*Side("d")), ElementsAre("0.0.0", "0.0.1", "1.0.0"));
  EXPECT_THAT(Passes(*Side("d/step1/proc77")), ElementsAre("1.0.0"));
}

TEST_F(ForeignSideTest, AModuleWhoseInputWasDumpedFirstEnclosesItsParts) {
  const char* names[] = {"m.inputs.0", "m.a.inputs.0", "m.a.output", "m.output"};
  for (size_t i = 0; i < std::size(names); ++i) {
    Store("tags/step=0___rank=0___dump_index=" + std::to_string(i + 1) + "___name=non_intrusive__" +
              names[i] + ".pt",
          Pass({"value"}));
  }
  const auto side = Side("tags");
  const auto step = side->Open(side->passes()[0]);
  ASSERT_TRUE(step.ok());
  std::map<std::string, std::pair<uint64_t, uint64_t>> calls;
  (void)(*step)->ForEachCall([&](const io::CallRecord& call) {
    calls[call.path] = {call.call.begin, call.call.end};
    return true;
  });
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_LT(calls["m"].first, calls["m.a"].first);
  EXPECT_GT(calls["m"].second, calls["m.a"].second);
}

// As where another process compared it.
TEST_F(ForeignSideTest, StatisticsAreKnownWhereAPassIsOpenedLater) {
  Store("d/step0/rank0/dump.json", R"({"data": {"Module.a.Linear.forward.0": {"output": [
      {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 3, "Min": 1}]}}})");
  const auto side = Side("d");
  const LateView view([&] { return side->Open(side->passes()[0]); });
  const auto record = view.Get(1);
  ASSERT_TRUE(record.ok());
  const auto summary = view.SummaryOf(*record);
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->max, 3);
}

TEST_F(ForeignSideTest, RecordsAndTheirValues) {
  Store("dump/rank0_pid5/pass00000.pt", Pass({"a", "b"}, 5));
  const auto side = Side("dump");
  const auto step = side->Open(side->passes()[0]);
  ASSERT_TRUE(step.ok());
  const auto record = (*step)->Get(2);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->dtype.view(), "float32");
  EXPECT_EQ(record->parts_kept, kPartMeta | kPartPayload);
  EXPECT_EQ(record->payload->logical_bytes, 8u);
  const auto read = (*step)->Open(*record);
  ASSERT_TRUE(read.ok());
  float values[2] = {};
  ASSERT_TRUE((*read)(0, std::as_writable_bytes(std::span(values))).ok());
  EXPECT_THAT(values, ElementsAre(6, 7));
  EXPECT_FALSE((*step)->Get(3).ok());
  EXPECT_FALSE((*step)->Get(0).ok());
  // A call for each, in the order of the file.
  std::vector<std::string> calls;
  (void)(*step)->ForEachCall([&](const io::CallRecord& call) {
    calls.push_back(call.path + std::to_string(call.call.begin));
    return true;
  });
  EXPECT_THAT(calls, ElementsAre("a1", "b3"));
  EXPECT_EQ(record->call_begin, 3u);
}

TEST_F(ForeignSideTest, FilesOfTheDumper) {
  const std::string value = TorchZip(
      Pickle(Dict({{"value", Tensor(Storage("FloatStorage", "0", 1), 0, {1}, {1})},
                   {"meta", Dict({{"dims", Text("t[tp]")},
                                  {"x", Tensor(Storage("FloatStorage", "0", 1), 0, {1}, {1})}})}})),
      {{"0", Raw(1.0f)}});
  Store("root/dump_1/step=0___rank=1___dump_index=10___name=b___pp_rank=0___tp_rank=3.pt", value);
  Store("root/dump_1/step=0___rank=1___dump_index=9___name=a___layer_id=2.pt", value);
  Store("root/dump_1/step=1___rank=0___dump_index=1___name=a.pt", value);
  const auto side = Side("root");
  EXPECT_THAT(Passes(*side), ElementsAre("0.1.0", "1.0.0"));
  // In the order of dumping, not of names.
  EXPECT_THAT(Keys(*side), ElementsAre("a[layer_id=2]@output#", "b@output#"));
  EXPECT_EQ((*side->Open(side->passes()[0]))->Get(1)->dims, "t[tp]");
  EXPECT_EQ(side->CoordinatesOf(1), "pp=0 tp=3");
  EXPECT_EQ(side->CoordinatesOf(0), "");
  Store("root/dump_2/step=0___name=a.pt", value);
  EXPECT_THAT(Why("root"), HasSubstr("several dumps: dump_1, dump_2"));
  EXPECT_THAT(Passes(*Side("root/dump_2")), ElementsAre("0.0.0"));
}

TEST_F(ForeignSideTest, WhatTheDumperDidNotCallAValueIsListed) {
  Store("dump/step=0___rank=0___name=a.pt", Pass({"value", "other", "meta"}));
  const auto side = Side("dump");
  EXPECT_THAT(Keys(*side), ElementsAre("a@output#"));
  EXPECT_THAT(Keys(*side), ElementsAre("a@output#"));  // opened twice, told once
  EXPECT_THAT(side->skipped(), ElementsAre(HasSubstr("'other': only 'value' is a dumped tensor")));
}

TEST_F(ForeignSideTest, StepsAndRanksOfMsprobe) {
  const std::string index = R"({"data": {"Module.a.Linear.forward.0": {
    "input_args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1],
                    "data_name": "Module.a.Linear.forward.0.input.0.npy"}],
    "output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [7]}]}}})";
  for (const char* place : {"d/step0/rank0", "d/step0/rank1", "d/step3/rank0"}) {
    Store(std::string(place) + "/dump.json", index);
    Store(std::string(place) + "/dump_tensor_data/Module.a.Linear.forward.0.input.0.npy", Array(1));
  }
  const auto side = Side("d");
  EXPECT_THAT(Passes(*side), ElementsAre("0.0.0", "0.1.0", "3.0.0"));
  EXPECT_THAT(Keys(*side), ElementsAre("a@input#0", "a@output#"));
  EXPECT_THAT(Passes(*Side("d/step3")), ElementsAre("3.0.0"));
  EXPECT_THAT(Passes(*Side("d/step0/rank1")), ElementsAre("0.1.0"));
  // Statistics only: known, without values.
  const auto step = side->Open(side->passes()[0]);
  EXPECT_EQ((*step)->Get(2)->parts_kept, kPartMeta);
  EXPECT_THAT((*step)->Get(2)->sizes, ElementsAre(7));
  EXPECT_FALSE((*step)->Open(*(*step)->Get(2)).ok());
}

TEST_F(ForeignSideTest, MsprobeWithoutItsIndex) {
  Store("d/rank/dump_tensor_data/Module.a.Linear.forward.1.output.0.npy", Array(1));
  EXPECT_THAT(Keys(*Side("d")), ElementsAre("a::call1@output#0"));
}

TEST_F(ForeignSideTest, FilesOfTensors) {
  Store("g/x.npy", Array(1));
  Store("g/a/y.npz", Zip({{"p.npy", Array(2)}, {"q.npy", Array(3)}}));
  EXPECT_THAT(Keys(*Side("g/x.npy")), ElementsAre("x@output#"));
  EXPECT_THAT(Keys(*Side("g/a/y.npz")), ElementsAre("p@output#", "q@output#"));
  EXPECT_THAT(Keys(*Side("g")), ElementsAre("x@output#"));
}

// Where the ranks of the other side are put together a file is no rank's.
TEST_F(ForeignSideTest, WhichStepsThereAreIsSaidOfARankOrOfTheWhole) {
  Store("g/x.npy", Array(1));
  const auto file = Side("g/x.npy");
  EXPECT_THAT(file->WhyMissing(kAllRanks), testing::EndsWith("g/x.npy' has step 0"));
  EXPECT_THAT(file->WhyMissing(0), testing::EndsWith("x.npy' has step 0 of rank 0"));
  EXPECT_THAT(file->WhyMissing(3), testing::EndsWith("x.npy' has nothing of rank 3"));
  for (const char* rank : {"TP0_PP0_Rank0_pid9", "TP1_PP0_Rank1_pid10"})
    Store(std::string("dump/") + rank + "/Pass00010.pt", Pass({"model.a"}));
  EXPECT_THAT(Side("dump")->WhyMissing(kAllRanks), testing::EndsWith("dump' has step 10"));
}

TEST_F(ForeignSideTest, WhatIsNoneSaysWhatWasLookedFor) {
  Store("g/readme.txt", "x");
  EXPECT_THAT(Why("g"), testing::AllOf(HasSubstr("SGLang"), HasSubstr("dump.json"),
                                       HasSubstr("safetensors")));
  EXPECT_NE(Why("nowhere"), "");
  Store("ours/rank0_pid5/pass00000.tdp", "x");
  Store("ours/manifest.tdm", "x");
  EXPECT_NE(Why("ours"), "");
  EXPECT_NE(Why("ours/rank0_pid5"), "");
}

TEST_F(ForeignSideTest, AFileOfSomethingElseIsNone) {
  for (const char* text : {"", "steps: 0-3\n", "some notes, longer than any magic number is\n"}) {
    Store("d/tdump.yaml", text);
    const auto none = ForeignSide::Open(env_.get(), "d/tdump.yaml");
    EXPECT_EQ(none.status().code(), StatusCode::kNotFound) << text;
    EXPECT_THAT(none.status().message(), testing::HasSubstr("tdump.yaml' is no file of tensors"));
  }
  Store("d/arrays", Array(1));
  EXPECT_TRUE(ForeignSide::Open(env_.get(), "d/arrays").ok());
  // What says that it is one and is not is damaged.
  Store("d/x.npy", "");
  EXPECT_TRUE(ForeignSide::Open(env_.get(), "d/x.npy").ok());
}

TEST_F(ForeignSideTest, ADamagedFileIsDamageAndTheOthersAreRead) {
  Store("d/a.npy", Array(1));
  Store("d/b.npy", Array(2).substr(0, 70));
  Store("d/c.pt", "no tensors");
  const auto side = Side("d");
  const auto step = side->Open(side->passes()[0]);
  ASSERT_TRUE(step.ok());
  EXPECT_EQ((*step)->damage().size(), 2u);
  EXPECT_EQ((*step)->damage()[0].file, "d/b.npy");
  EXPECT_THAT((*step)->damage()[1].what, HasSubstr("torch.save (.pt), NumPy (.npy, .npz)"));
  EXPECT_TRUE((*step)->Get(1).ok());
}

TEST_F(ForeignSideTest, WhatIsNotReadIsListed) {
  const std::string evil = Global("posix", "system") + "(" + Text("true") + "tR";
  Store(
      "d/a.pt",
      TorchZip(
          Pickle(Dict({{"x", evil}, {"y", Tensor(Storage("FloatStorage", "0", 1), 0, {1}, {1})}})),
          {{"0", Raw(1.0f)}}));
  const auto side = Side("d/a.pt");
  EXPECT_THAT(Keys(*side), ElementsAre("y@output#"));
  EXPECT_THAT(side->skipped(), ElementsAre(HasSubstr("posix.system")));
}

// The float8 numbers 1 and -2 with a scale of 0.5 stand for 0.5 and -1.
TEST_F(ForeignSideTest, AQuantisedCheckpointIsComparedAsTheNumbersItStandsFor) {
  const std::vector<float> numbers = {0.5f, -1.0f};
  Store("d/f.safetensors",
        Safetensors(R"({"l.a.weight": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}})",
                    RawAll(numbers)));
  const auto quantised = [&](const std::string& name, float scale) {
    Store("d/" + name,
          Safetensors(R"({"l.a.weight": {"dtype": "F8_E4M3", "shape": [1, 2], )"
                      R"("data_offsets": [0, 2]}, "l.a.weight_scale": {"dtype": "F32", )"
                      R"("shape": [], "data_offsets": [2, 6]}})",
                      "\x38\xC0" + Raw(scale)));
  };
  quantised("q.safetensors", 0.5f);
  quantised("wrong.safetensors", 1.0f);
  const auto diff = [&](const std::string& other, DiffReport* report) {
    const auto a = Side("d/f.safetensors"), b = Side("d/" + other);
    a->TakeKeysOf(b.get());
    b->TakeKeysOf(a.get());
    DiffOptions options;
    options.pass.compute = *ParsePrecision("fp8");
    std::vector<Row> rows;
    options.on_row = [&](const Row& row) { rows.push_back(row); };
    auto done = Diff(*a, *b, options);
    EXPECT_TRUE(done.ok()) << done.status().message();
    if (done.ok()) *report = std::move(*done);
    return rows;
  };
  DiffReport report;
  const std::vector<Row> rows = diff("q.safetensors", &report);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "l.a.weight");
  EXPECT_EQ(rows[0].key.role, Role::kParam);
  EXPECT_EQ(rows[0].comparison.metrics->max_abs, 0);
  EXPECT_THAT(rows[0].comparison.notes,
              ElementsAre("B dequantised from float8_e4m3fn, per tensor"));
  EXPECT_EQ(report.counts.unpaired_b, 0u);  // the scale is a part of the weight
  EXPECT_EQ(report.overall, Overall::kSame);
  (void)diff("wrong.safetensors", &report);
  EXPECT_EQ(report.overall, Overall::kDiffers);
}

TEST_F(ForeignSideTest, OneTensorOfAFile) {
  Store("d/y.npz", Zip({{"p.npy", Array(2)}, {"q.npy", Array(3)}}));
  const auto side = Side("d/y.npz");
  const Status missing = side->KeepOnly("r");
  EXPECT_THAT(missing.message(), HasSubstr("no tensor 'r'; it has 2 tensors: p, q"));
  ASSERT_TRUE(side->KeepOnly("q").ok());
  // The only one that is left takes the only key of the other side.
  const FixedSide other({"m@output#"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("q@output#"));
  side->TakeOnlyKey();
  EXPECT_THAT(Keys(*side), ElementsAre("m@output#"));
}

TEST_F(ForeignSideTest, AnAddressThatNamesNothing) {
  const auto why = [](Picked picked) {
    const auto side =
        PickedSide::Make(std::make_unique<FixedSide>(std::vector<std::string>{"a@input#0"}),
                         std::move(picked), "RUN");
    return side.ok() ? "" : side.status().message();
  };
  EXPECT_EQ(why({.step = 4, .rank = 0, .name = "a"}), "");
  EXPECT_THAT(why({.step = 3}), HasSubstr("there is no step 3; there are 4"));
  EXPECT_THAT(why({.step = 4, .rank = 2}), HasSubstr("step 4 has no rank 2; it has 0-1"));
  EXPECT_THAT(why({.step = 4}), HasSubstr("name one: RUN/0"));
  EXPECT_THAT(why({.step = 4, .rank = 0, .name = "b"}), HasSubstr("no tensor there is named 'b'"));
}

}  // namespace
}  // namespace tdump::compare::foreign::test
