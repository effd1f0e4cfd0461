// Dumps of other tools as sides: what is found in a directory, and what a step of it holds.
#include "compare/foreign/foreign_side.h"
#include "compare/late_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "compare/late_view.h"
#include "compare/pairing.h"
#include "compare/picked_side.h"
#include "tests/compare/foreign/bytes.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file of torch.save with one tensor [n] for each name, its values first, first + 1, ...
std::string Pass(const std::vector<std::string>& names, float first = 0) {
  std::vector<std::pair<std::string, std::string>> items;
  for (size_t i = 0; i < names.size(); ++i)
    items.emplace_back(names[i],
                       Tensor(Storage("FloatStorage", "0", 8), static_cast<int32_t>(i), {2}, {1}));
  std::vector<float> values;
  for (int i = 0; i < 8; ++i) values.push_back(first + static_cast<float>(i));
  return TorchZip(Pickle(Dict(items)), {{"0", RawAll(values)}});
}
std::string Array(float value) { return Npy(NpyHeader("<f4", false, "(1,)"), Raw(value)); }

class ForeignSideTest : public testing::Test {
 protected:
  void Store(const std::string& path, const std::string& bytes) {
    const std::string directory = path.substr(0, path.rfind('/'));
    ASSERT_TRUE(env_->MakeDirs(directory, 0700).ok());
    ASSERT_TRUE(WriteFileAtomically(env_.get(), path, bytes, 0600).ok());
  }
  std::unique_ptr<ForeignSide> Side(const std::string& path) {
    auto side = ForeignSide::Open(env_.get(), path);
    EXPECT_TRUE(side.ok()) << side.status().message();
    return side.ok() ? std::move(*side) : nullptr;
  }
  std::string Why(const std::string& path) {
    const auto side = ForeignSide::Open(env_.get(), path);
    return side.ok() ? "" : side.status().message();
  }
  // "step.rank.process" of each pass.
  static std::vector<std::string> Passes(const RunSide& side) {
    std::vector<std::string> texts;
    for (const PassRef& pass : side.passes())
      texts.push_back(std::to_string(pass.step) + "." + std::to_string(pass.rank) + "." +
                      std::to_string(pass.process));
    return texts;
  }
  static std::vector<std::string> Keys(const RunSide& side, size_t pass = 0) {
    std::vector<std::string> keys;
    auto step = side.Open(side.passes().at(pass));
    EXPECT_TRUE(step.ok()) << step.status().message();
    if (!step.ok()) return keys;
    EXPECT_TRUE((*step)->damage().empty());
    (void)(*step)->ForEachTensor([&](const io::Record& record) {
      keys.push_back(ToText(record.key));
      return true;
    });
    return keys;
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
};

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

// A side with one step of the given keys, of rank 1 others where it has some.
class FixedSide : public RunSide {
 public:
  explicit FixedSide(const std::vector<std::string>& keys,
                     const std::vector<std::string>& keys_of_1 = {})
      : keys_(keys), keys_of_1_(keys_of_1) {
    for (const int rank : {0, 1}) {
      PassRef pass{.rank = rank, .step = 4};
      passes_.push_back(pass);
    }
  }
  SideInfo Describe() const override { return {.label = "fixed"}; }
  const std::string& label() const override { return label_; }
  int32_t world() const override { return 2; }
  const std::vector<PassRef>& passes() const override { return passes_; }
  Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const override {
    DumpContents contents;
    for (const std::string& text : pass.rank == 1 && !keys_of_1_.empty() ? keys_of_1_ : keys_) {
      DumpTensor tensor;
      tensor.name.key = *ParseKey(text);
      contents.tensors.push_back(tensor);
    }
    return std::unique_ptr<StepView>(std::make_unique<ForeignStep>(std::move(contents)));
  }
  std::vector<io::Damage> DamageOf(int32_t) const override { return {}; }
  std::string WhyMissing(int32_t) const override { return ""; }

 private:
  const std::string label_ = "fixed";
  const std::vector<std::string> keys_, keys_of_1_;
  std::vector<PassRef> passes_;
};

TEST_F(ForeignSideTest, NamesTakeTheRolesOfTheOtherSide) {
  Store("d.pt/x.pt", Pass({"a", "b.weight", "c", "d", "e"}));
  const auto side = Side("d.pt/x.pt");
  const FixedSide other({"a@output#0", "a@input#0", "b@param#weight", "c@output#", "c@output#1",
                         "d@input#0", "d@input#1"});
  side->TakeKeysOf(&other);
  // c is there as it is; of d there are two, and none is an output; e is not there.
  EXPECT_THAT(Keys(*side),
              ElementsAre("a@output#0", "b@param#weight", "c@output#", "d@output#", "e@output#"));
}

TEST_F(ForeignSideTest, APrefixOfOneSideIsNoName) {
  Store("d/long.pt", Pass({"model.a.weight", "model.b.0.weight", "model.b.1.weight", "step"}));
  Store("d/short.pt", Pass({"a.weight", "b.0.weight", "b.1.weight"}));
  const auto longer = Side("d/long.pt"), shorter = Side("d/short.pt");
  const FixedSide without({"a@param#weight", "b.0@param#weight", "b.1@param#weight"});
  const FixedSide with(
      {"m.net.a@param#weight", "m.net.b.0@param#weight", "m.net.b.1@param#weight"});
  longer->TakeKeysOf(&without);
  EXPECT_THAT(Keys(*longer), ElementsAre("a@param#weight", "b.0@param#weight", "b.1@param#weight",
                                         "step@output#"));
  EXPECT_EQ(longer->prefix().dropped, "model.");
  shorter->TakeKeysOf(&with);
  EXPECT_THAT(Keys(*shorter), ElementsAre("m.net.a@param#weight", "m.net.b.0@param#weight",
                                          "m.net.b.1@param#weight"));
  EXPECT_EQ(shorter->prefix().added, "m.net.");
}

// The dumper's names say what is a parameter, and so does torch of what is one.
TEST_F(ForeignSideTest, APrefixOfTensorsWhoseRolesAreKnownIsNoNameEither) {
  const std::string value =
      TorchZip(Pickle(Dict({{"value", Tensor(Storage("FloatStorage", "0", 1), 0, {1}, {1})}})),
               {{"0", Raw(1.0f)}});
  for (const std::string name : {"a.weight", "b.0.bias", "b.1.weight"}) {
    Store("plain/step=0___rank=0___name=param__" + name + ".pt", value);
    Store("tags/step=0___rank=0___name=param__model." + name + ".pt", value);
  }
  Store("d/plain.pt", Pass({"a.weight", "b.0.bias", "b.1.weight"}));
  Store("d/model.pt", Pass({"model.a.weight", "model.b.0.bias", "model.b.1.weight"}));
  const auto right =
      testing::UnorderedElementsAre("a@param#weight", "b.0@param#bias", "b.1@param#weight");
  const auto pair = [&](const std::string& x, const std::string& y) {
    const auto a = Side(x), b = Side(y);
    a->TakeKeysOf(b.get());
    b->TakeKeysOf(a.get());
    EXPECT_THAT(Keys(*a), right) << x << " against " << y;
    EXPECT_THAT(Keys(*b), right) << x << " against " << y;
  };
  pair("tags", "d/plain.pt");
  pair("d/plain.pt", "tags");
  pair("plain", "d/model.pt");
  pair("tags", "plain");
  // A run, without the prefix and with another one.
  for (const std::string& before : {std::string(), std::string("m.")}) {
    std::vector<std::string> keys;
    for (const char* key : {"a@param#weight", "b.0@param#bias", "b.1@param#weight"})
      keys.push_back(before + key);
    const FixedSide run(keys);
    const auto side = Side(before.empty() ? "tags" : "plain");
    side->TakeKeysOf(&run);
    EXPECT_THAT(Keys(*side), testing::UnorderedElementsAreArray(keys));
  }
}

// Of a pipeline each rank has some of the layers.
TEST_F(ForeignSideTest, APrefixIsFoundOverTheRanksOfAStep) {
  Store("d/x.pt", Pass({"model.l.0.w", "model.l.1.w", "model.l.2.w", "model.l.3.w"}));
  const auto side = Side("d/x.pt");
  const FixedSide other({"l.0@param#w", "l.1@param#w"}, {"l.2@param#w", "l.3@param#w"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("l.0@param#w", "l.1@param#w", "l.2@param#w", "l.3@param#w"));
  EXPECT_EQ(side->prefix().dropped, "model.");
}

TEST_F(ForeignSideTest, APrefixIsNotPutBeforeANameThatIsThere) {
  Store("d/x.pt", Pass({"layers.0.mlp", "layers.1.mlp", "head"}));
  const auto side = Side("d/x.pt");
  const FixedSide other(
      {"model.layers.0.mlp@output#", "model.layers.1.mlp@output#", "head@output#"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("model.layers.0.mlp@output#", "model.layers.1.mlp@output#",
                                       "head@output#"));
}

// One layer's file is of no layer of the other side.
TEST_F(ForeignSideTest, OfSeveralPrefixesNoneIsTaken) {
  Store("d/x.pt", Pass({"norm.weight", "norm.bias"}));
  const auto side = Side("d/x.pt");
  const FixedSide other({"layers.0.norm@param#weight", "layers.0.norm@param#bias",
                         "layers.1.norm@param#weight", "layers.1.norm@param#bias"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("norm@param#weight", "norm@param#bias"));
  EXPECT_TRUE(side->prefix().empty());
}

TEST_F(ForeignSideTest, OfTwoDumpsOneDropsItsPrefix) {
  Store("d/long.pt", Pass({"module.a", "module.b"}));
  Store("d/short.pt", Pass({"a", "b"}));
  const auto longer = Side("d/long.pt"), shorter = Side("d/short.pt");
  longer->TakeKeysOf(shorter.get());
  shorter->TakeKeysOf(longer.get());
  EXPECT_THAT(Keys(*longer), ElementsAre("a@output#", "b@output#"));
  EXPECT_THAT(Keys(*shorter), ElementsAre("a@output#", "b@output#"));
}

// So that maps, which are about modules, apply to a checkpoint.
TEST_F(ForeignSideTest, WeightsOfACheckpointAreParameters) {
  Store("d/x.pt", Pass({"a.b.weight", "a.b.bias", "a.bn.running_mean", "a.c", "weight"}));
  const auto side = Side("d/x.pt");
  const FixedSide other({"q@output#"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("a.b@param#weight", "a.b@param#bias",
                                       "a.bn@state#running_mean", "a.c@output#", "weight@output#"));
}

TEST_F(ForeignSideTest, OfTwoCheckpointsWeightsAreParametersToo) {
  Store("d/x.pt", Pass({"m.a.weight", "m.b.bias", "m.bn.running_mean", "m.c"}));
  Store("d/y.pt", Pass({"a.weight", "b.bias", "bn.running_mean", "c"}));
  const auto a = Side("d/x.pt"), b = Side("d/y.pt");
  a->TakeKeysOf(b.get());
  b->TakeKeysOf(a.get());
  for (const ForeignSide* side : {a.get(), b.get()})
    EXPECT_THAT(Keys(*side), ElementsAre("a@param#weight", "b@param#bias", "bn@state#running_mean",
                                         "c@output#"));
  // A dump of what was computed has outputs, whatever they are called.
  Store("d/p/rank0_pid5/pass00000.pt", Pass({"a.weight", "c"}));
  const auto pass = Side("d/p"), files = Side("d/y.pt");
  pass->TakeKeysOf(files.get());
  files->TakeKeysOf(pass.get());
  EXPECT_THAT(Keys(*pass), ElementsAre("a.weight@output#", "c@output#"));
  EXPECT_EQ(Keys(*files)[0], "a.weight@output#");
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

TEST_F(ForeignSideTest, AFewNamesMakeNoPrefix) {
  Store("d/x.pt", Pass({"x.a", "x.b", "x.c", "d"}));
  const auto side = Side("d/x.pt");
  const FixedSide other({"a@output#", "d@output#"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("x.a@output#", "x.b@output#", "x.c@output#", "d@output#"));
  EXPECT_TRUE(side->prefix().empty());
}

TEST_F(ForeignSideTest, OneDumpTakesWhatTheOtherSays) {
  const std::string parameter = Global("torch._utils", "_rebuild_parameter") + "(" +
                                Tensor(Storage("FloatStorage", "0", 1), 0, {1}, {1}) + "\x88" +
                                Global("collections", "OrderedDict") + ")RtR";
  const auto file = [](const std::string& value) {
    return TorchZip(Pickle(Dict({{"a.w", value}, {"l", "](" + value + "e"}})), {{"0", Raw(1.0f)}});
  };
  Store("d/a.pt", file(parameter));
  Store("d/b.pt", file(Tensor(Storage("FloatStorage", "0", 1), 0, {1}, {1})));
  const auto a = Side("d/a.pt"), b = Side("d/b.pt");
  a->TakeKeysOf(b.get());
  b->TakeKeysOf(a.get());
  EXPECT_THAT(Keys(*a), ElementsAre("a@param#w", "l@param#0"));
  EXPECT_THAT(Keys(*b), ElementsAre("a@param#w", "l@param#0"));
}

TEST_F(ForeignSideTest, AGoldenFileIsWhatTheAddressNames) {
  Store("d/golden.npy", Array(1));
  auto other = PickedSide::Make(std::make_unique<FixedSide>(std::vector<std::string>{
                                    "m.a@output#0", "m.a@input#0", "b@output#"}),
                                {.step = 4, .rank = 1, .name = "m.a"}, "RUN:4/1/m.a");
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_THAT(Keys(**other), ElementsAre("m.a@output#0"));
  EXPECT_THAT(Passes(**other), ElementsAre("0.0.0"));
  const auto golden = Side("d/golden.npy");
  golden->TakeKeysOf(other->get());
  golden->TakeOnlyKey();
  EXPECT_THAT(Keys(*golden), ElementsAre("m.a@output#0"));
}

TEST_F(ForeignSideTest, OfARunOnlyWhatTheDumpHas) {
  Store("d/p/rank0_pid5/pass00000.pt", Pass({"a", "m.forward_batch_info.ids"}));
  const auto side = Side("d/p");
  const std::vector<std::string> keys = {"a@output#0", "a@input#0", "a@param#w", "b@output#",
                                         "m@input#forward_batch_info.ids"};
  const FixedSide other(keys);
  side->TakeKeysOf(&other);
  auto asked = side->Asks();
  ASSERT_TRUE(asked.ok());
  const AskedSide left(std::make_unique<FixedSide>(keys), *asked);
  EXPECT_THAT(Keys(left), ElementsAre("a@output#0", "b@output#", "m@input#forward_batch_info.ids"));
  EXPECT_EQ(left.left_out(), 2u);
}

// A wrapper (DDP) puts "module." before the names that msprobe sees.
TEST_F(ForeignSideTest, OfMsprobesNamesAPrefixIsDropped) {
  Store("d/step0/rank0/dump.json", R"({"data": {
    "Module.module.Net.forward.0": {"input_args": [{"type": "torch.Tensor", "dtype": "torch.int64", "shape": [2]}]},
    "Module.module.a.Linear.forward.0": {"output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}],
      "parameters": {"weight": {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}}},
    "Functional.linear.0.forward": {"output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}]}}})");
  const FixedSide run({".@input#0", "a@output#", "a@param#weight"});
  const auto side = Side("d");
  side->TakeKeysOf(&run);
  EXPECT_THAT(Keys(*side),
              ElementsAre(".@input#0", "a@output#", "a@param#weight", "Functional.linear@output#"));
  EXPECT_EQ(side->prefix().dropped, "module.");
}

// What it lacks of a role that it has is a difference.
TEST_F(ForeignSideTest, OfARunTheRolesThatMsprobeHas) {
  Store("d/q/step0/rank0/dump.json", R"({"data": {"Module.a.Linear.forward.0": {"input_args": [
      {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}]}}})");
  auto asked = Side("d/q")->Asks();
  ASSERT_TRUE(asked.ok());
  const AskedSide left(std::make_unique<FixedSide>(std::vector<std::string>{
                           "a@input#0", "a@output#", "a@param#weight", "b@input#0"}),
                       *asked);
  EXPECT_THAT(Keys(left), ElementsAre("a@input#0", "b@input#0"));
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
