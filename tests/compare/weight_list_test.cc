// Which weights reports count, and what they say of one that differs.
#include "compare/weight_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Tensor kOnes = Vector<float>("float32", {1, 1, 1, 1});
const Tensor kOneOff = Vector<float>("float32", {1, 1, 1.5, 1});

// Two steps with a parameter and a buffer, of which `full` keeps the values.
FakeRun TwoSteps(const Tensor& weight, const Tensor& mean, bool full) {
  FakeRun run(1);
  for (const uint64_t step : {0, 1}) {
    PassBuilder pass = run.Pass(0, step);
    for (const char* name : {"weight", "running_mean"}) {
      const bool buffer = name[0] == 'r';
      const Tensor& value = step == 0 ? kOnes : buffer ? mean : weight;
      pass.Param(buffer ? "bn1" : "fc", name, value);
      if (buffer) pass.last()->key.role = Role::kState;
      if (full) pass.last()->payload = value.record.payload;
    }
  }
  return run;
}

DiffOptions Allowing(const std::string& name) {
  DiffOptions options;
  options.pass.allow_failed = Named(name);
  return options;
}

TEST(WeightList, WhatMayDifferIsNoOriginAndDoesNotCount) {
  for (const bool full : {false, true}) {
    SCOPED_TRACE(full);
    const FakeRun good = TwoSteps(kOnes, kOnes, full);
    const DiffReport buffer = DiffOk(good, TwoSteps(kOnes, kOneOff, full));
    EXPECT_EQ(buffer.overall, Overall::kDiffers);

    const DiffReport allowed = DiffOk(good, TwoSteps(kOnes, kOneOff, full), Allowing("bn"));
    EXPECT_EQ(allowed.overall, Overall::kSame);
    EXPECT_FALSE(allowed.origin);
    EXPECT_FALSE(allowed.first_bits);
    const std::string text = Joined(Text(allowed));
    EXPECT_THAT(text,
                HasSubstr("1 of 1 parameters and 1 of 1 buffers equal on every rank at step 0 "
                          "1 that differs is allowed"));
    EXPECT_THAT(text, HasSubstr(full ? "SAME 3 of 4 within bounds (bitwise 3); 1 outside, allowed"
                                     : "SAME 3 of 4 within bounds (bitwise 3); 1 difference by "
                                       "hash, allowed"));

    const DiffReport other = DiffOk(good, TwoSteps(kOneOff, kOneOff, full), Allowing("bn"));
    EXPECT_EQ(other.overall, Overall::kDiffers);
    ASSERT_TRUE(other.origin);
    EXPECT_EQ(other.origin->parameter, "fc.weight");
    EXPECT_EQ(other.parameters.buffers_differing, 0u);
  }
}

TEST(WeightList, OneThatMayDifferFromTheStartIsNotSaidToBeEqual) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    pass.Param("fc", "weight", kOnes).Param("bn1", "weight", run == &a ? kOnes : kOneOff);
  }
  EXPECT_THAT(Text(DiffOk(a, b, Allowing("bn1"))),
              HasSubstr("weights   1 of 2 parameters equal on every rank\n"
                        "          1 that differs is allowed\n"));
}

TEST(WeightList, WhatMayDifferIsCountedInTheDocumentToo) {
  for (const bool full : {false, true}) {
    SCOPED_TRACE(full);
    const DiffReport report = DiffOk(TwoSteps(kOnes, kOnes, full), TwoSteps(kOneOff, kOneOff, full),
                                     Allowing("running_mean"));
    const auto json = nlohmann::json::parse(RenderJson(report, {}, {}, false));
    EXPECT_EQ(json["parameters"]["allowed_names"], 0);
    EXPECT_EQ(json["buffers"]["allowed_names"], 1);
    EXPECT_EQ(json["counts"]["allowed"], full ? 1 : 0);
    EXPECT_EQ(json["counts"]["allowed_by_hash"], full ? 0 : 1);
  }
}

TEST(WeightList, AllAreNamedWhereAllAreAskedFor) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    for (int i = 0; i < 5; ++i)
      pass.Param("fc", "weight" + std::to_string(i), run == &a ? kOnes : kOneOff);
  }
  const std::string few = Text(DiffOk(a, b));
  EXPECT_THAT(few, AllOf(HasSubstr("not on rank 0: fc.weight2\n          2 more: --all, or --jsonl "
                                   "FILE\n"),
                         Not(HasSubstr("fc.weight3"))));
  DiffOptions options;
  options.top = ~size_t{0};
  const std::string all = Text(DiffOk(a, b, options));
  EXPECT_THAT(all, AllOf(HasSubstr("not on rank 0: fc.weight3\n          not on rank 0: "
                                   "fc.weight4\n"),
                         Not(HasSubstr(" more: "))));
}

TEST(WeightList, ByHowMuchAWeightDiffersIsSaid) {
  const DiffReport report = DiffOk(TwoSteps(kOnes, kOnes, true), TwoSteps(kOneOff, kOnes, true));
  const std::string text = Text(report);
  EXPECT_THAT(Joined(text), HasSubstr("its parameter differs: fc.weight: 1 of 4 elements, max abs "
                                      "0.5 at [2], A 1, B 1.5"));
  EXPECT_THAT(text,
              HasSubstr("\nlook closer: tdump-view 'b@0:1/0/fc@param#weight' --values 8 --at 2\n"));
}

TEST(WeightList, OfOneWithNaNThePlaceIsSaid) {
  const Tensor nan = Vector<float>("float32", {1, NAN, 1, 1});
  const std::string text = Joined(Text(DiffOk(TwoSteps(kOnes, kOnes, true),  //
                                              TwoSteps(nan, kOnes, true))));
  EXPECT_THAT(text, HasSubstr("fc.weight: 1 of 4 elements, NaN or infinities on one side in 1 at "
                              "[1], A 1, B nan"));
}

TEST(WeightList, ABufferIsCalledOne) {
  const std::string text =
      Joined(Text(DiffOk(TwoSteps(kOnes, kOnes, false), TwoSteps(kOnes, kOneOff, false))));
  EXPECT_THAT(text,
              AllOf(HasSubstr("its buffer differs: bn1.running_mean"), Not(HasSubstr("(Adam)"))));
}

// One rounding of float32 apart.
const Tensor kNearOnes = Vector<float>("float32", {1, std::nextafter(1.0f, 2.0f), 1, 1});

TEST(WeightList, WhatRoundingExplainsIsAllowedWithOrWithoutOtherTensors) {
  const FakeRun good = TwoSteps(kOnes, kOnes, true), near = TwoSteps(kNearOnes, kOnes, true);
  const DiffReport alone = DiffOk(good, near);
  EXPECT_EQ(alone.overall, Overall::kSame);
  EXPECT_THAT(Text(alone), HasSubstr("SAME  4 of 4 within bounds (bitwise 3); 1 parameter differs "
                                     "in bits"));
  FakeRun more = TwoSteps(kOnes, kOnes, true), more_near = TwoSteps(kNearOnes, kOnes, true);
  for (FakeRun* run : {&more, &more_near}) run->Pass(0, 2).Module("fc", kOnes, kOnes);
  EXPECT_EQ(DiffOk(more, more_near).overall, Overall::kSame);
  DiffOptions bits;
  bits.pass.require_bits = true;
  EXPECT_EQ(DiffOk(good, near, bits).overall, Overall::kDiffers);
  // Of what was not measured nothing is known to be within.
  EXPECT_EQ(DiffOk(TwoSteps(kOnes, kOnes, false), TwoSteps(kNearOnes, kOnes, false)).overall,
            Overall::kDiffers);
}

// A parameter that differs before another one, within its bound.
TEST(WeightList, TheOriginIsOutsideItsBound) {
  const auto run_of = [](const Tensor& first, const Tensor& second) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    for (const auto& [path, value] : {std::pair("first", &first), std::pair("second", &second)}) {
      pass.Param(path, "weight", *value);
      pass.last()->payload = value->record.payload;
    }
    return run;
  };
  const DiffReport report = DiffOk(run_of(kOnes, kOnes), run_of(kNearOnes, kOneOff));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 1u);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->parameter, "second.weight");
}

}  // namespace
}  // namespace tdump::compare
