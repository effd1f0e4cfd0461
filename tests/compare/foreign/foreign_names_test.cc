// Names of dumps of other tools against those of the other side: roles, prefixes, what is asked of
// a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/foreign/foreign_side.h"
#include "compare/picked_side.h"
#include "tests/compare/foreign/foreign_sides.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class ForeignNamesTest : public ForeignSideTest {};

TEST_F(ForeignNamesTest, NamesTakeTheRolesOfTheOtherSide) {
  Store("d.pt/x.pt", Pass({"a", "b.weight", "c", "d", "e"}));
  const auto side = Side("d.pt/x.pt");
  const FixedSide other({"a@output#0", "a@input#0", "b@param#weight", "c@output#", "c@output#1",
                         "d@input#0", "d@input#1"});
  side->TakeKeysOf(&other);
  // c is there as it is; of d there are two, and none is an output; e is not there.
  EXPECT_THAT(Keys(*side),
              ElementsAre("a@output#0", "b@param#weight", "c@output#", "d@output#", "e@output#"));
}

TEST_F(ForeignNamesTest, APrefixOfOneSideIsNoName) {
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
TEST_F(ForeignNamesTest, APrefixOfTensorsWhoseRolesAreKnownIsNoNameEither) {
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
TEST_F(ForeignNamesTest, APrefixIsFoundOverTheRanksOfAStep) {
  Store("d/x.pt", Pass({"model.l.0.w", "model.l.1.w", "model.l.2.w", "model.l.3.w"}));
  const auto side = Side("d/x.pt");
  const FixedSide other({"l.0@param#w", "l.1@param#w"}, {"l.2@param#w", "l.3@param#w"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("l.0@param#w", "l.1@param#w", "l.2@param#w", "l.3@param#w"));
  EXPECT_EQ(side->prefix().dropped, "model.");
}

TEST_F(ForeignNamesTest, APrefixIsNotPutBeforeANameThatIsThere) {
  Store("d/x.pt", Pass({"layers.0.mlp", "layers.1.mlp", "head"}));
  const auto side = Side("d/x.pt");
  const FixedSide other(
      {"model.layers.0.mlp@output#", "model.layers.1.mlp@output#", "head@output#"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("model.layers.0.mlp@output#", "model.layers.1.mlp@output#",
                                       "head@output#"));
}

// One layer's file is of no layer of the other side.
TEST_F(ForeignNamesTest, OfSeveralPrefixesNoneIsTaken) {
  Store("d/x.pt", Pass({"norm.weight", "norm.bias"}));
  const auto side = Side("d/x.pt");
  const FixedSide other({"layers.0.norm@param#weight", "layers.0.norm@param#bias",
                         "layers.1.norm@param#weight", "layers.1.norm@param#bias"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("norm@param#weight", "norm@param#bias"));
  EXPECT_TRUE(side->prefix().empty());
}

TEST_F(ForeignNamesTest, OfTwoDumpsOneDropsItsPrefix) {
  Store("d/long.pt", Pass({"module.a", "module.b"}));
  Store("d/short.pt", Pass({"a", "b"}));
  const auto longer = Side("d/long.pt"), shorter = Side("d/short.pt");
  longer->TakeKeysOf(shorter.get());
  shorter->TakeKeysOf(longer.get());
  EXPECT_THAT(Keys(*longer), ElementsAre("a@output#", "b@output#"));
  EXPECT_THAT(Keys(*shorter), ElementsAre("a@output#", "b@output#"));
}

// So that maps, which are about modules, apply to a checkpoint.
TEST_F(ForeignNamesTest, WeightsOfACheckpointAreParameters) {
  Store("d/x.pt", Pass({"a.b.weight", "a.b.bias", "a.bn.running_mean", "a.c", "weight"}));
  const auto side = Side("d/x.pt");
  const FixedSide other({"q@output#"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("a.b@param#weight", "a.b@param#bias",
                                       "a.bn@state#running_mean", "a.c@output#", "weight@output#"));
}

TEST_F(ForeignNamesTest, OfTwoCheckpointsWeightsAreParametersToo) {
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

TEST_F(ForeignNamesTest, AFewNamesMakeNoPrefix) {
  Store("d/x.pt", Pass({"x.a", "x.b", "x.c", "d"}));
  const auto side = Side("d/x.pt");
  const FixedSide other({"a@output#", "d@output#"});
  side->TakeKeysOf(&other);
  EXPECT_THAT(Keys(*side), ElementsAre("x.a@output#", "x.b@output#", "x.c@output#", "d@output#"));
  EXPECT_TRUE(side->prefix().empty());
}

TEST_F(ForeignNamesTest, OneDumpTakesWhatTheOtherSays) {
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

TEST_F(ForeignNamesTest, AGoldenFileIsWhatTheAddressNames) {
  Store("d/golden.npy", Array(1));
  auto other = PickedSide::Make(std::make_unique<FixedSide>(std::vector<std::string>{
                                    "m.a@output#0", "m.a@input#0", "b@output#"}),
                                {.step = 4, .rank = 1, .name = "m.a"}, "RUN:4/1/m.a");
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_THAT(Keys(**other), ElementsAre("m.a@output#0"));
  EXPECT_THAT(Passes(**other), ElementsAre("4.1.0"));
  const auto golden = Side("d/golden.npy");
  golden->TakeKeysOf(other->get());
  golden->TakeOnlyKey();
  EXPECT_THAT(Keys(*golden), ElementsAre("m.a@output#0"));
}

TEST_F(ForeignNamesTest, OfARunOnlyWhatTheDumpHas) {
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
  // However often a pass is read.
  EXPECT_THAT(Keys(left), SizeIs(3));
  EXPECT_EQ(left.left_out(), 2u);
}

// A wrapper (DDP) puts "module." before the names that msprobe sees.
TEST_F(ForeignNamesTest, OfMsprobesNamesAPrefixIsDropped) {
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
TEST_F(ForeignNamesTest, OfARunTheRolesThatMsprobeHas) {
  Store("d/q/step0/rank0/dump.json", R"({"data": {"Module.a.Linear.forward.0": {"input_args": [
      {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}]}}})");
  auto asked = Side("d/q")->Asks();
  ASSERT_TRUE(asked.ok());
  const AskedSide left(std::make_unique<FixedSide>(std::vector<std::string>{
                           "a@input#0", "a@output#", "a@param#weight", "b@input#0"}),
                       *asked);
  EXPECT_THAT(Keys(left), ElementsAre("a@input#0", "b@input#0"));
}

}  // namespace
}  // namespace tdump::compare::foreign::test
