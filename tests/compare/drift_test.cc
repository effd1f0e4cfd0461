// Whole diffs of runs whose weights part on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

const Tensor kInput = Vector<float>("float32", {1, 2});
const Tensor kGood = Vector<float>("float32", {3, 4});
const Tensor kBad = Vector<float>("float32", {3, 5});
const Tensor kNear = Vector<float>("float32", {3, 4.0f + 0x1p-21f});  // one rounding away

void FullParam(PassBuilder* pass, const std::string& path, const Tensor& weight,
               const std::string& name = "weight") {
  pass->Param(path, name, weight);
  pass->last()->payload = weight.record.payload;
}

struct Step {
  Tensor weight, first, second;  // of module "second"; what the modules return
};

FakeRun Training(const std::vector<Step>& steps) {
  FakeRun run(1);
  for (size_t i = 0; i < steps.size(); ++i) {
    PassBuilder pass = run.Pass(0, i);
    FullParam(&pass, "second", steps[i].weight);
    pass.Module("first", kInput, steps[i].first);
    pass.Module("second", steps[i].first, steps[i].second);
  }
  return run;
}

const Step kAgrees = {kGood, kGood, kGood};

nlohmann::json JsonOf(const DiffReport& report) {
  return nlohmann::json::parse(RenderJson(report, {}, {}, false));
}

TEST(Drift, AWeightIsNamedFromTheStepOnAtWhichItParts) {
  const FakeRun a = Training({kAgrees, kAgrees, kAgrees});
  const FakeRun b = Training({kAgrees, kAgrees, {kBad, kGood, kBad}});
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->step, 2u);
  EXPECT_EQ(report.origin->name, "second");
  EXPECT_EQ(report.origin->parameter, "second.weight");
  EXPECT_TRUE(report.origin->drifted);
  EXPECT_THAT(Text(report), HasSubstr("weights   1 of 1 parameters equal on every rank at step 0\n"
                                      "          not on rank 0 from step 2 on: second.weight\n"));
  EXPECT_THAT(Text(report), HasSubstr("at an earlier step it was equal"));
}

TEST(Drift, AWeightAloneIsTheOriginOfItsStep) {
  const DiffReport report =
      DiffOk(Training({kAgrees, kAgrees}), Training({kAgrees, {kBad, kGood, kGood}}));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kParameter);
  EXPECT_EQ(report.origin->step, 1u);
}

TEST(Drift, WhatFollowsFromAnEarlierStepIsNotBlamed) {
  const DiffReport report =
      DiffOk(Training({kAgrees, kAgrees}), Training({{kGood, kBad, kBad}, {kBad, kGood, kBad}}));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->step, 0u);
  EXPECT_EQ(report.origin->name, "first");
  EXPECT_EQ(report.parameters.differing_names, 0u);
  EXPECT_THAT(
      Text(report),
      HasSubstr("weights   1 of 1 parameters equal on every rank at step 0\n"
                "          1 outside its bound later, after other records; farthest: rank 0, "
                "step 1, second.weight,\n          14.0 dB\n"));
  EXPECT_EQ(report.parameters.following_names, 1u);
}

// Beside it a weight and a buffer that are far off, and with `by_hash` one whose values were not
// kept, nor in another record, and that differs from the start.
DiffReport WithAWeightThatBecameNaN(bool by_hash) {
  const auto run_of = [&](bool other) {
    FakeRun run(1);
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = run.Pass(0, step);
      const bool later = other && step == 1;
      FullParam(&pass, "one", later ? kBad : kGood);
      FullParam(&pass, "two", later ? Vector<float>("float32", {3, NAN}) : kGood);
      FullParam(&pass, "norm", later ? kBad : kGood);
      pass.last()->key.role = Role::kState;
      pass.last()->key.arg = "running_mean";
      if (by_hash)
        pass.Param("hashed", "weight", Vector<float>("float32", {7, other ? 8.0f : 9.0f}));
      pass.Module("first", kInput, other ? kBad : kGood);
    }
    return run;
  };
  return DiffOk(run_of(false), run_of(true));
}

TEST(Drift, AWeightThatBecameNaNIsTheFarthest) {
  const DiffReport report = WithAWeightThatBecameNaN(/*by_hash=*/false);
  EXPECT_THAT(Joined(Text(report)),
              HasSubstr("3 outside their bounds later, after other records; farthest: rank 0, step "
                        "1, two.weight, NaN or infinities on one side"));
  const auto json = JsonOf(report);
  EXPECT_EQ(json["parameters"]["following_names"], 2);
  const auto& farthest = json["parameters"]["farthest"];
  EXPECT_EQ(farthest["name"], "two.weight");
  EXPECT_EQ(farthest["rank"], 0);
  EXPECT_EQ(farthest["step"], 1);
  EXPECT_EQ(farthest["special"], true);
  EXPECT_EQ(farthest["sqnr_db"], "inf");  // what is finite agrees
  EXPECT_EQ(json["buffers"]["following_names"], 1);
  EXPECT_EQ(json["buffers"]["farthest"]["name"], "norm.running_mean");
  EXPECT_EQ(json["buffers"]["farthest"]["special"], false);
  EXPECT_NEAR(json["buffers"]["farthest"]["sqnr_db"].get<double>(), 14, 0.1);
}

TEST(Drift, WhatIsKnownByHashIsNotSaidOfWhatFollows) {
  EXPECT_THAT(Joined(Text(WithAWeightThatBecameNaN(/*by_hash=*/true))),
              HasSubstr("not on rank 0: hashed.weight by hash, which does not say by how much 3 "
                        "more outside their bounds later"));
}

// Its values were not kept at the first step: nothing says that it was equal then.
TEST(Drift, AWeightIsFirstSeenWhereItIsJudged) {
  const auto run_of = [](const Tensor& weight) {
    FakeRun run(1);
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = run.Pass(0, step);
      FullParam(&pass, "second", weight);
      pass.Module("second", kInput, kGood);
      if (step == 1) continue;
      io::Record* const record = &pass.records()->front();
      record->payload.reset();
      record->hash.reset();
      record->parts_asked = record->parts_kept = kPartMeta;
    }
    return run;
  };
  const DiffReport report = DiffOk(run_of(kGood), run_of(kBad));
  EXPECT_EQ(report.parameters.differing_names, 1u);
  EXPECT_EQ(report.parameters.drifted_names, 0u);
  EXPECT_THAT(Text(report), HasSubstr("weights   0 of 1 parameters equal on every rank at step 1"));
}

TEST(Drift, TheCurveIsOfTheStepOfTheOrigin) {
  const DiffReport report = DiffOk(Training({kAgrees, kAgrees, kAgrees}),
                                   Training({kAgrees, {kGood, kNear, kGood}, {kGood, kBad, kBad}}));
  ASSERT_TRUE(report.origin);
  EXPECT_TRUE(report.origin->by_bits);
  EXPECT_EQ(report.origin->step, 1u);
  EXPECT_EQ(report.growth.step, 1u);
}

TEST(Drift, RoundingOfTheStepBeforeExplainsTheRoundingOfAWeight) {
  const FakeRun a = Training({kAgrees, kAgrees});
  const Step later = {kNear, kGood, kGood};
  EXPECT_EQ(DiffOk(a, Training({{kGood, kGood, kNear}, later})).parameters.differing_names, 0u);
  EXPECT_EQ(DiffOk(a, Training({kAgrees, later})).parameters.differing_names, 1u);
  // Beyond rounding it does not.
  const Step beyond = {kBad, kGood, kGood};
  EXPECT_EQ(DiffOk(a, Training({{kGood, kGood, kNear}, beyond})).parameters.differing_names, 1u);
}

TEST(Drift, AWeightFirstSeenLaterIsNoCauseOfWhatWasBefore) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    const Tensor& value = run == &a ? kGood : kBad;
    PassBuilder first = run->Pass(0, 0);
    first.Module("second", kInput, value);
    PassBuilder later = run->Pass(0, 1);
    FullParam(&later, "second", value);
  }
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->step, 0u);
  EXPECT_EQ(report.origin->parameter, "");
  EXPECT_EQ(report.parameters.differing_names, 1u);  // it is not known to have been equal
  EXPECT_THAT(Text(report), Not(HasSubstr("at an earlier step it was equal")));
}

// The shards of a weight are one weight, whichever of them differs.
TEST(Drift, AWeightThatRanksShareIsNamedFromItsStepOn) {
  const Tensor whole = Vector<float>("float32", {1, 2, 3, 4}),
               left = Vector<float>("float32", {1, 2}), right = Vector<float>("float32", {3, 4}),
               drifted = Vector<float>("float32", {3, 5});
  FakeRun a(1), b(2);
  for (const uint64_t step : {0, 1}) {
    PassBuilder one = a.Pass(0, step);
    FullParam(&one, "first", whole);
    one.Module("first", kInput, kGood);
    one.Module("second", kGood, kGood);
    for (const int32_t rank : {0, 1}) {
      PassBuilder pass = b.Pass(rank, step);
      FullParam(&pass, "first", rank == 0 ? left : step == 0 ? right : drifted);
      pass.Module("first", kInput, kGood);
      pass.Module("second", kGood, step == 0 ? kGood : kBad);
    }
  }
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kParameter);
  EXPECT_EQ(report.origin->parameter, "first.weight");
  EXPECT_EQ(report.origin->step, 1u);
  EXPECT_EQ(report.origin->rank, 1);
  EXPECT_TRUE(report.origin->drifted);
  EXPECT_THAT(Text(report), HasSubstr("not on rank 1 from step 1 on: first.weight\n"));
}

TEST(Drift, WeightsThatWereNotSeenAtTheStepAreTold) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    const bool other = run == &b;
    PassBuilder first = run->Pass(0, 0);
    FullParam(&first, "second", kGood);
    first.Module("second", kInput, other ? kNear : kGood);
    first.End(first.Begin("second", "", {}), "second", "", {{"grad", kGood}});
    first.last()->key.role = Role::kParamGrad;
    PassBuilder later = run->Pass(0, 1);
    later.Module("second", kInput, other ? kBad : kGood);
    later.Param("second", "weight.exp_avg", kGood);  // which is no weight
    later.last()->key.role = Role::kState;
  }
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->step, 1u);
  EXPECT_TRUE(report.origin->weights_unseen);
  EXPECT_THAT(Text(report), HasSubstr("weights were not recorded at this step"));
}

// By another learning rate: the first step is equal bit for bit. Recorded is what a signature has
// of weights, those of the first step by their hash.
struct Unseen {
  std::string boundary = "optimizer (SGD)";
  uint64_t other_from = 1;  // step
  bool records_weights = false, other_state = false;
};
DiffReport WithUnseen(const Unseen& of) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    run->identity(0)->boundary = of.boundary;
    for (const uint64_t step : {0, 1}) {
      const bool other = run == &b && step >= of.other_from;
      PassBuilder pass = run->Pass(0, step);
      if (step == 0 || of.records_weights)
        pass.Param("second", "weight", other && of.records_weights ? kBad : kGood);
      pass.Module("second", kInput, other && !of.other_state ? kBad : kGood);
      if (!of.other_state) continue;
      FullParam(&pass, "second", other ? kBad : kGood, "weight.exp_avg");
      pass.last()->key.role = Role::kState;
    }
  }
  return DiffOk(a, b);
}

TEST(Drift, WeightsThatWereNotSeenAreToldThoughAllBeforeIsEqual) {
  const DiffReport report = WithUnseen({});
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->step, 1u);
  EXPECT_EQ(report.origin->name, "second");
  EXPECT_TRUE(report.origin->weights_unseen);
  EXPECT_EQ(JsonOf(report)["origin"]["weights_unseen"], true);
  EXPECT_THAT(Joined(Text(report)),
              HasSubstr("weights were not recorded at this step: they may have parted before it, "
                        "by what updates them (another learning rate, say) or by rounding; "
                        "capture role param at every step to see"));
}

TEST(Drift, WeightsThatCannotHavePartedAreNotToldOf) {
  // No step was before it, nothing trains them, they were recorded, or the origin is what an
  // optimizer makes of gradients.
  for (const Unseen& of : {Unseen{.other_from = 0}, Unseen{.boundary = "forward"},
                           Unseen{.records_weights = true}, Unseen{.other_state = true}}) {
    const DiffReport report = WithUnseen(of);
    ASSERT_TRUE(report.origin);
    EXPECT_FALSE(report.origin->weights_unseen) << of.boundary << of.other_from;
    EXPECT_THAT(Text(report), Not(HasSubstr("weights were not recorded")));
  }
}

TEST(Drift, AWeightThatPartedMakesNoNaN) {
  const Tensor nan = Vector<float>("float32", {3, NAN});
  const FakeRun a = Training({kAgrees, kAgrees});
  const auto second = [&](const Tensor& weight, const Tensor& first, const Tensor& out) {
    return DiffOk(a, Training({kAgrees, {weight, first, out}}));
  };
  const DiffReport report = second(kBad, kBad, nan);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "first");
  EXPECT_FALSE(report.beyond_drift);  // the origin is no weight's
  const DiffReport alone = second(kBad, kGood, nan);
  ASSERT_TRUE(alone.origin);
  EXPECT_EQ(alone.origin->name, "second");
  EXPECT_EQ(alone.origin->parameter, "");
  EXPECT_FALSE(alone.beyond_drift);  // it is the origin
}

// Two modules, of which the first has a weight; the second one's output is NaN.
TEST(Drift, NaNIsNamedBesideAWeightThatParted) {
  const Tensor nan = Vector<float>("float32", {3, NAN});
  const auto run = [&](const Tensor& weight, const Tensor& of_first, const Tensor& of_second) {
    FakeRun run(1);
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = run.Pass(0, step);
      FullParam(&pass, "first", step == 0 ? kGood : weight);
      pass.Module("first", kInput, step == 0 ? kGood : of_first);
      pass.Module("second", kGood, step == 0 ? kGood : of_second);
    }
    return run;
  };
  const FakeRun a = run(kGood, kGood, kGood);
  EXPECT_FALSE(DiffOk(a, run(kBad, kBad, kBad)).beyond_drift);
  EXPECT_EQ(JsonOf(DiffOk(a, run(kBad, kBad, kBad)))["beyond_drift"], nullptr);
  const DiffReport report = DiffOk(a, run(kBad, kBad, nan));
  ASSERT_TRUE(report.origin && report.beyond_drift);
  EXPECT_EQ(report.origin->name, "first");
  EXPECT_TRUE(report.origin->drifted);
  EXPECT_EQ(report.beyond_drift->name, "second");
  EXPECT_EQ(JsonOf(report)["beyond_drift"]["name"], "second");
  EXPECT_EQ(JsonOf(report)["parameters"]["farthest"], nullptr);
  EXPECT_THAT(Joined(Text(report)), HasSubstr("ALSO rank 0, step 1, second, output"));
  EXPECT_THAT(Joined(Text(report)), HasSubstr("NaN on one side only 1"));
  // The output of the first agrees: its weight is only a little off.
  const DiffReport later = DiffOk(a, run(kBad, kGood, nan));
  ASSERT_TRUE(later.origin);
  EXPECT_EQ(later.origin->name, "second");
  EXPECT_EQ(later.origin->kind, OriginKind::kOperator);
  // A weight that is NaN may make it.
  const DiffReport spoilt = DiffOk(a, run(nan, kGood, nan));
  ASSERT_TRUE(spoilt.origin);
  EXPECT_EQ(spoilt.origin->parameter, "first.weight");
  EXPECT_THAT(Joined(Text(spoilt)), HasSubstr("second output: 1 of 2 elements outside"));
}

// Modules in a row, the weight of the first off by `weight_db`, and what each returns by `out_db`.
constexpr size_t kCount = 1 << 12;
using Numbers = std::vector<float>;

Numbers Noisy(Numbers numbers, double db, std::mt19937* random) {
  std::normal_distribution<float> normal(0, static_cast<float>(std::pow(10, -db / 20)));
  for (float& x : numbers) x += normal(*random);
  return numbers;
}
Tensor Of(const Numbers& numbers) {
  return MakeTensor<float>("float32", {64, static_cast<int64_t>(kCount / 64)}, numbers);
}

// Of the second of two steps: elements of weights that are off by 1e-3.
struct Parted {
  size_t first = 0;             // of the first module
  size_t bias = 0, weight = 0;  // of the second
  double out_db = 200;          // of what the second returns
};
FakeRun TwoModules(const Parted& parted) {
  std::mt19937 values(7), noise(3);
  FakeRun run(1);
  const Numbers numbers = Noisy(Numbers(kCount), 0, &values);
  const Tensor in = Of(Noisy(Numbers(kCount), 0, &values));
  const Tensor between = Of(Noisy(Numbers(kCount), 0, &values));
  const Numbers out = Noisy(Numbers(kCount), 0, &values);
  for (const uint64_t step : {0, 1}) {
    PassBuilder pass = run.Pass(0, step);
    const auto with = [&](size_t count) {
      Numbers changed = numbers;
      for (size_t i = 0; i < count && step == 1; ++i) changed[i] += 1e-3f;
      return Of(changed);
    };
    FullParam(&pass, "first", with(parted.first));
    FullParam(&pass, "second", with(parted.bias), "bias");
    FullParam(&pass, "second", with(parted.weight));
    pass.Module("first", in, between);
    pass.Module("second", between, Of(step == 0 ? out : Noisy(out, parted.out_db, &noise)));
  }
  return run;
}

TEST(Drift, TheWeightOfAnOperatorThatAddsAnErrorComesBeforeOneThatOnlyDrifted) {
  const FakeRun a = TwoModules({});
  const auto blamed = [&](const Parted& parted) {
    const DiffReport report = DiffOk(a, TwoModules(parted));
    return report.origin ? report.origin->parameter : "none";
  };
  EXPECT_EQ(blamed({.first = 2, .weight = kCount, .out_db = 60}), "second.weight");
  EXPECT_EQ(blamed({.first = 2, .bias = 2, .weight = kCount, .out_db = 60}), "second.weight");
  // Its weight agrees: what differs elsewhere is said first.
  EXPECT_EQ(blamed({.first = 2, .out_db = 60}), "first.weight");
  // Or the output is hardly worse than rounding makes it, which is 120 dB.
  EXPECT_EQ(blamed({.first = 2, .weight = 2, .out_db = 115}), "first.weight");
}

FakeRun WithNoise(uint32_t seed, double weight_db, const std::vector<double>& out_db) {
  std::mt19937 values(7), noise(seed);
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  FullParam(&pass, "0", Of(Noisy(Noisy(Numbers(kCount), 0, &values), weight_db, &noise)));
  Tensor in = Of(Noisy(Numbers(kCount), 0, &values));
  for (size_t i = 0; i < out_db.size(); ++i) {
    const Tensor out = Of(Noisy(Noisy(Numbers(kCount), 0, &values), out_db[i], &noise));
    pass.Module(std::to_string(i), in, out);
    in = out;
  }
  return run;
}

NoiseModel NoiseBetween(const FakeRun& a, const FakeRun& b) {
  NoiseModel noise;
  DiffOptions options;
  options.on_pass = [&](const PassDiff& diff, const PassPair&) {
    for (const Outcome& outcome : diff.outcomes) {
      const auto record = diff.a->Get(outcome.ids.a);
      noise.Add(NameOf(*record), record->key, outcome.comparison.verdict.bitwise == Answer::kSame,
                outcome.comparison.metrics);
    }
  };
  DiffOk(a, b, options);
  return noise;
}

TEST(Drift, AWeightWithinTheNoiseIsNoCauseOfWhatALaterOperatorAdds) {
  const FakeRun a = WithNoise(1, 60, {60, 60, 60, 60});
  DiffOptions options;
  options.pass.noise =
      std::make_shared<NoiseModel>(NoiseBetween(a, WithNoise(2, 60, {60, 60, 60, 60})));
  EXPECT_EQ(DiffOk(a, WithNoise(3, 60, {60, 60, 60, 60}), options).overall, Overall::kSame);
  const DiffReport report = DiffOk(a, WithNoise(3, 60, {60, 60, 17, 17}), options);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "2");
  EXPECT_FALSE(report.origin->by_bits);
}

}  // namespace
}  // namespace tdump::compare
