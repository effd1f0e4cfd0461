#include "compare/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Leftover Make(const std::string& path, Role role, const std::string& arg, const std::string& cls,
              Shape shape) {
  Leftover leftover;
  leftover.key.path = path;
  leftover.key.role = role;
  leftover.key.arg = arg;
  leftover.cls = cls;
  leftover.shape = std::move(shape);
  return leftover;
}

Leftover Out(const std::string& path, const std::string& cls, Shape shape) {
  return Make(path, Role::kOutput, "", cls, std::move(shape));
}

std::vector<Leftover> InOrder(std::vector<Leftover> all) {
  for (size_t i = 0; i < all.size(); ++i) all[i].order = i;
  return all;
}

// "0-1 by argument"
std::vector<std::string> Pairs(const std::vector<Leftover>& a, const std::vector<Leftover>& b,
                               const LeftoverOptions& options = {}) {
  std::vector<std::string> texts;
  for (const LeftoverPair& pair : PairLeftovers(a, b, options)) {
    texts.push_back(std::to_string(pair.a) + "-" + std::to_string(pair.b) + " " +
                    std::string(ToString(pair.by)));
  }
  return texts;
}

TEST(PairLeftovers, ATupleAndABareOutput) {
  const auto tuple =
      InOrder({Make("x", Role::kOutput, "0", "L", {2}), Make("x", Role::kOutput, "1", "L", {2}),
               Make("y", Role::kGradOutput, "0", "L", {2})});
  const auto bare =
      InOrder({Make("y", Role::kGradOutput, "", "L", {2}), Make("x", Role::kOutput, "", "L", {2})});
  EXPECT_THAT(Pairs(tuple, bare), ElementsAre("0-1 by argument", "2-0 by argument"));
  EXPECT_THAT(Pairs(bare, tuple), ElementsAre("0-2 by argument", "1-0 by argument"));
}

TEST(PairLeftovers, APositionAndAKeyword) {
  const auto a = InOrder({Make("x", Role::kInput, "0", "L", {2, 3, 4}),
                          Make("x", Role::kInput, "kwargs.mask", "L", {3, 3})});
  const auto b = InOrder({Make("x", Role::kInput, "0.mask", "L", {3, 3}),
                          Make("x", Role::kInput, "kwargs.hidden_states", "L", {3, 2, 4})});
  EXPECT_THAT(Pairs(a, b), ElementsAre("0-1 by argument", "1-0 by argument"));
  // Two that could be it: neither is taken.
  const auto two = InOrder({Make("x", Role::kInput, "kwargs.q", "L", {24}),
                            Make("x", Role::kInput, "kwargs.k", "L", {24})});
  EXPECT_THAT(Pairs({a[0]}, two), IsEmpty());
  EXPECT_THAT(Pairs(two, {a[0]}), IsEmpty());
}

// What an optimizer keeps of a weight, or two weights of one module, may be as large.
TEST(PairLeftovers, WeightsByTheirNamesWhereNobodyMapsThem) {
  const auto a = InOrder({Make("x", Role::kParam, "scale", "L", {2}),
                          Make("x", Role::kState, "weight.exp_avg", "L", {2})});
  const auto b = InOrder({Make("x", Role::kParam, "gamma", "L", {2}),
                          Make("x", Role::kState, "bias.exp_avg", "L", {2})});
  EXPECT_THAT(Pairs(a, b, kSameNames), IsEmpty());
  EXPECT_THAT(Pairs(a, b), ElementsAre("0-0 by argument", "1-1 by argument"));
}

TEST(PairLeftovers, CallsAndMicroBatchesByTheirOrder) {
  std::vector<Leftover> calls, micros;
  for (uint32_t i = 0; i < 3; ++i) {
    calls.push_back(Out("x", "L", {2}));
    calls.back().key.call = i + 1;
    micros.push_back(Out("x", "L", {2}));
    micros.back().key.micro = 3 - i;  // the other way round
  }
  EXPECT_THAT(
      Pairs(InOrder(calls), InOrder(micros)),
      ElementsAre("0-2 by order of calls", "1-1 by order of calls", "2-0 by order of calls"));
  // Of another number of calls it is not known which is missing.
  micros.pop_back();
  EXPECT_THAT(Pairs(InOrder(calls), InOrder(micros), {.sequence = false}), IsEmpty());
}

// Streams of different length: B lacks a norm and has a dropout; names share nothing.
TEST(PairLeftovers, StreamsOfDifferentLengthAreAlignedByClassShapeAndOrder) {
  const auto a = InOrder({Out("enc.proj_in", "torch.nn.Linear", {2, 8}),
                          Out("enc.norm", "torch.nn.LayerNorm", {2, 8}),
                          Out("enc.proj_mid", "torch.nn.Linear", {2, 8}),
                          Out("enc.proj_out", "torch.nn.Linear", {2, 4})});
  const auto b =
      InOrder({Out("f1", "mine.ColumnParallelLinear", {2, 8}), Out("d", "torch.nn.Dropout", {2, 8}),
               Out("f2", "mine.ColumnParallelLinear", {2, 8}),
               Out("f3", "mine.RowParallelLinear", {2, 4})});
  EXPECT_THAT(Pairs(a, b), ElementsAre("0-0 by sequence", "2-2 by sequence", "3-3 by sequence"));
  EXPECT_THAT(Pairs(a, b, {.sequence = false}), IsEmpty());
}

TEST(PairLeftovers, RolesShapesAndOpsKeepThingsApart) {
  Leftover op = Out("x", "", {2});
  op.key.op = "aten::mm";
  Leftover backward = Out("y", "L", {2});
  backward.key.phase = Phase::kBackward;
  const auto a = InOrder({Out("x", "L", {2}), op, Make("x", Role::kInput, "0", "L", {2})});
  const auto b = InOrder({Out("z", "L", {3}), backward, Make("z", Role::kParam, "w", "L", {2})});
  EXPECT_THAT(Pairs(a, b), IsEmpty());
}

// The order of time decides, not that of the list; equal last components win over an earlier place.
TEST(PairLeftovers, NamesDecideWhereOrderAllowsSeveral) {
  const auto a = InOrder({Out("m.up_proj", "Linear", {2, 8})});
  const auto b = InOrder({Out("n.gate_proj", "Linear", {2, 8}), Out("n.up_proj", "Linear", {2, 8}),
                          Out("n.other", "Linear", {2, 8})});
  EXPECT_THAT(Pairs(a, b), ElementsAre("0-1 by sequence"));
  std::vector<Leftover> reversed = {b[1], b[0]};
  reversed[0].order = 5;
  reversed[1].order = 1;
  const auto both =
      InOrder({Out("m.gate_proj", "Linear", {2, 8}), Out("m.up_proj", "Linear", {2, 8})});
  EXPECT_THAT(Pairs(both, reversed), ElementsAre("0-1 by sequence", "1-0 by sequence"));
}

// One rank's share of a tensor is that tensor only under an equal name.
TEST(PairLeftovers, SharesOfRanks) {
  const auto whole = InOrder({Out("m.up_proj", "Linear", {2, 8}), Out("m.gate", "Linear", {2, 8})});
  const auto share = InOrder({Out("n.up_proj", "Linear", {2, 4}), Out("n.door", "Linear", {2, 4})});
  EXPECT_THAT(Pairs(whole, share), ElementsAre("0-0 by sequence"));
  EXPECT_THAT(Pairs(share, whole), ElementsAre("0-0 by sequence"));
}

// More than a table of all against all would hold: piece by piece, the same pairs.
TEST(PairLeftovers, LongStreamsAreAlignedPieceByPiece) {
  std::vector<Leftover> a, b;
  for (uint64_t i = 0; i < 10'000; ++i) {
    a.push_back(Out("a." + std::to_string(i), "Linear", {i % 97 + 1}));
    if (i % 10 != 3) b.push_back(Out("b." + std::to_string(i), "Linear", {i % 97 + 1}));
  }
  a = InOrder(a);
  b = InOrder(b);
  const auto pairs = PairLeftovers(a, b);
  size_t right = 0;
  for (const LeftoverPair& pair : pairs)
    right += a[pair.a].key.path.substr(2) == b[pair.b].key.path.substr(2) ? 1 : 0;
  EXPECT_EQ(pairs.size(), right);
  EXPECT_EQ(right, 9000u);
}

TEST(PairLeftovers, NothingOnOneSide) {
  EXPECT_THAT(Pairs({}, {Out("x", "L", {2})}), IsEmpty());
  EXPECT_THAT(Pairs({Out("x", "L", {2})}, {}), IsEmpty());
}

std::vector<std::string> Nearest(const Leftover& name, const std::vector<Leftover>& others,
                                 size_t count = 2) {
  std::vector<std::string> names;
  for (const size_t i : NearestNames(name, others, count)) names.push_back(ToText(others[i].key));
  return names;
}

TEST(NearestNames, ByComponentsThenRoleArgumentAndShape) {
  const Leftover name = Make("layers.4.mlp.down", Role::kParam, "weight", "Linear", {4, 8});
  EXPECT_THAT(Nearest(name, {Make("layers.4.mlp.down_proj", Role::kParam, "weight", "L", {4, 8}),
                             Make("layers.5.mlp.down", Role::kParam, "weight", "L", {4, 8}),
                             Make("layers.4.mlp.down", Role::kParam, "bias", "L", {4}),
                             Make("completely.different", Role::kOutput, "", "L", {1})}),
              ElementsAre("layers.4.mlp.down_proj@param#weight", "layers.5.mlp.down@param#weight"));
  EXPECT_THAT(Nearest(name, {Make("completely.different.thing", Role::kOutput, "", "L", {1})}),
              IsEmpty());
  EXPECT_THAT(Nearest(name, {}), IsEmpty());
}

TEST(NearestNames, AnotherPrefixIsNear) {
  EXPECT_THAT(Nearest(Out("model.decoder.layers.4.mlp.linear_fc2", "L", {2}),
                      {Out("decoder.layers.4.mlp.linear_fc2", "L", {2}),
                       Out("decoder.layers.4.mlp.linear_fc1", "L", {2})},
                      1),
              ElementsAre("decoder.layers.4.mlp.linear_fc2@output#"));
}

}  // namespace
}  // namespace tdump::compare
