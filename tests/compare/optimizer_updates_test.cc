// Weights that parted because Adam made its step of gradients that differ by rounding.
#include "compare/optimizer_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <utility>

#include "compare/report.h"
#include "tests/compare/trained_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Change = std::function<void(Numbers* weights)>;

FakeRun Training(int32_t ranks, const Numbers& gradient, const Numbers& kept,
                 const Change& change = {}, float rate = kRate) {
  FakeRun run(ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    PassBuilder first = run.Pass(rank, 0);
    Add(&first, Role::kParam, "weight", Weights());
    first.Module("fc", kInput, kWhole);
    AddGradient(&first, gradient);
    Numbers mean, squares;
    for (const float x : kept) {
      mean.push_back(0.1f * x);
      squares.push_back(0.001f * x * x);
    }
    Add(&first, Role::kState, "weight.exp_avg", mean);
    Add(&first, Role::kState, "weight.exp_avg_sq", squares);
    Numbers weights = Stepped(kept, rate);
    if (change) change(&weights);
    PassBuilder second = run.Pass(rank, 1);
    Add(&second, Role::kParam, "weight", weights);
    second.Module("fc", kInput, kWhole);
  }
  return run;
}

const Numbers kOfA = Gradient(0, 1), kOfB = Gradient(1e-6, 2);

const char kCopies[] = "... replicated[rank]";

DiffReport DiffWith(const FakeRun& b) {
  return DiffOk(Training(1, kOfA, kOfA), b, WithDims("fc", kCopies));
}

std::vector<std::string> Failing(const DiffReport& report) {
  std::vector<std::string> names;
  for (const Row& row : report.failing) names.push_back(ToText(row.key));
  return names;
}

TEST(OptimizerUpdates, TheRoundingOfTinyGradientsExplainsWholeSteps) {
  const Numbers of_a = Stepped(kOfA, kRate), of_b = Stepped(kOfB, kRate);
  float most = 0;
  for (size_t i = 0; i < kCount; ++i) most = std::max(most, std::abs(of_a[i] - of_b[i]));
  ASSERT_GT(most, kRate);  // the other sign
  const DiffReport report = DiffWith(Training(2, kOfB, kOfB));
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report, 1, 2);
}

TEST(OptimizerUpdates, AnotherRateIsFound) {
  for (const float rate : {0.0f, 0.0099f, 0.02f})
    EXPECT_THAT(Failing(DiffWith(Training(2, kOfB, kOfB, {}, rate))),
                ElementsAre("fc@param#weight"))
        << rate;
}

// Each is below what a weight may be off by.
TEST(OptimizerUpdates, UpdatesThatNeverCameAreFoundWhenTheyAddUp) {
  constexpr float kSmall = 2e-8f;
  const auto training = [](int32_t ranks, const Numbers& gradient, float rate) {
    FakeRun run(ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      for (int64_t step = 0; step < 8; ++step) {
        PassBuilder pass = run.Pass(rank, step);
        Numbers weights = Weights();
        for (float& w : weights) w -= static_cast<float>(step) * rate;
        Add(&pass, Role::kParam, "weight", weights);
        pass.Module("fc", kInput, kWhole);
        AddGradient(&pass, gradient);
        Add(&pass, Role::kState, "weight.exp_avg", gradient);
      }
    }
    return run;
  };
  const FakeRun a = training(1, kOfA, kSmall);
  const auto diff = [&](float rate) {
    return DiffOk(a, training(2, kOfB, rate), WithDims("fc", kCopies));
  };
  EXPECT_EQ(diff(kSmall).overall, Overall::kSame) << Text(diff(kSmall), 1, 2);
  EXPECT_EQ(diff(0).overall, Overall::kDiffers);
}

TEST(OptimizerUpdates, OneElementThatIsOffIsFound) {
  const auto change = [](Numbers* weights) { (*weights)[9] += 1e-4f; };
  EXPECT_THAT(Failing(DiffWith(Training(2, kOfB, kOfB, change))), ElementsAre("fc@param#weight"));
  // Of a gradient of size 1, as all but one in eight.
  ASSERT_GT(std::abs(kOfA[9]), 0.01);
}

// A step that overflowed, and was left out: the weights stay.
TEST(OptimizerUpdates, WhatIsNaNInBothRunsExplainsNothing) {
  const auto training = [](int32_t ranks, const Numbers& gradient, float factor) {
    const auto change = [&](Numbers* weights) {
      *weights = Weights();
      for (float& w : *weights) w *= factor;
    };
    return Training(ranks, gradient, Numbers(kCount, NAN), change);
  };
  const auto diff = [&](float factor) {
    return DiffOk(training(1, kOfA, 1), training(2, kOfB, factor), WithDims("fc", kCopies));
  };
  EXPECT_EQ(diff(1).overall, Overall::kSame) << Text(diff(1), 1, 2);
  EXPECT_THAT(Failing(diff(1.02f)), ElementsAre("fc@param#weight"));
}

// One that is NaN in both runs tells nothing of the others.
TEST(OptimizerUpdates, ANumberThatIsNaNInBothRunsLeavesTheOthersExplained) {
  const auto diff = [](float lost, float off) {
    const auto change = [&](Numbers* weights) { (*weights)[4] = lost; };
    const auto change_b = [&](Numbers* weights) {
      change(weights);
      (*weights)[9] += off;
    };
    return DiffOk(Training(1, kOfA, kOfA, change), Training(2, kOfB, kOfB, change_b),
                  WithDims("fc", kCopies));
  };
  for (const float lost : {NAN, INFINITY}) {
    EXPECT_EQ(diff(lost, 0).overall, Overall::kSame) << Text(diff(lost, 0), 1, 2);
    EXPECT_THAT(Failing(diff(lost, 1e-4f)), ElementsAre("fc@param#weight"));
  }
}

// Whatever rounding left of its gradient: no step of A is as large.
TEST(OptimizerUpdates, AStepThatIsTooLargeIsFound) {
  const auto change = [](Numbers* weights) { (*weights)[8] += 20 * kRate; };
  EXPECT_THAT(Failing(DiffWith(Training(2, kOfB, kOfB, change))), ElementsAre("fc@param#weight"));
  ASSERT_LT(std::abs(kOfA[8]), 1e-6);
}

TEST(OptimizerUpdates, AStateThatIsWrongExplainsNoWeight) {
  Numbers doubled = kOfB;
  for (float& x : doubled) x *= 2;
  EXPECT_THAT(Failing(DiffWith(Training(2, kOfB, doubled))),
              testing::Contains(HasSubstr("weight.exp_avg")));
}

// Plain gradient descent from 0: of a parameter that is its update, whole.
FakeRun Descent(int32_t ranks, const Numbers& gradient, bool records_gradient,
                const Change& change = {}, float rate = kRate) {
  FakeRun run(ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    PassBuilder first = run.Pass(rank, 0);
    Add(&first, Role::kParam, "weight", Numbers(kCount, 0));
    first.Module("fc", kInput, kWhole);
    first.last_call()->arguments = {
        {.role = Role::kInput, .arg = "0", .dtype = "float32", .sizes = {1024, kColumns}},
        {.role = Role::kOutput, .arg = "", .dtype = "float32", .sizes = {1024, kRows}}};
    const auto arguments = first.last_call()->arguments;
    if (records_gradient) AddGradient(&first, gradient);
    Numbers weights;
    for (const float x : gradient) weights.push_back(-rate * x);
    if (change) change(&weights);
    PassBuilder second = run.Pass(rank, 1);
    Add(&second, Role::kParam, "weight", weights);
    second.Module("fc", kInput, kWhole);
    second.last_call()->arguments = arguments;
  }
  return run;
}

DiffReport DescentDiff(bool records_gradient, const Change& change = {}, float rate = kRate) {
  return DiffOk(Descent(1, kOfA, records_gradient),
                Descent(2, kOfB, records_gradient, change, rate),
                WithDims("fc", "... replicated[rank]"));
}

TEST(OptimizerUpdates, WhereNothingIsKeptTheGradientExplainsThem) {
  const DiffReport report = DescentDiff(/*records_gradient=*/true);
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report, 1, 2);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("its last update explains")));
  // Of an update of which nothing is known nothing is explained.
  EXPECT_THAT(Failing(DescentDiff(false)), ElementsAre("fc@param#weight"));
}

TEST(OptimizerUpdates, AnotherRateOfWhatStartedAtZeroIsFound) {
  for (const bool records : {true, false}) {
    for (const double factor : {0.0, 0.5, 0.9999, 1.0001, 2.0})
      EXPECT_THAT(Failing(DescentDiff(records, {}, static_cast<float>(factor * kRate))),
                  ElementsAre("fc@param#weight"))
          << records << factor;
  }
}

TEST(OptimizerUpdates, OneElementOfWhatStartedAtZeroIsFound) {
  const auto off = [](Numbers* weights) { (*weights)[9] *= 1.001f; };
  const auto zero = [](Numbers* weights) { (*weights)[9] = 0; };
  const auto noise = [](Numbers* weights) {
    for (size_t i = 0; i < kCount; ++i) (*weights)[i] *= i % 2 == 0 ? 1.00003f : 0.99997f;
  };
  for (const bool records : {true, false}) {
    for (const Change& change : std::vector<Change>{off, zero, noise})
      EXPECT_THAT(Failing(DescentDiff(records, change)), ElementsAre("fc@param#weight")) << records;
  }
}

// Gradients that rounding alone makes, but for one: Adam makes whole steps of them.
Numbers Tiny(uint32_t seed) {
  std::mt19937 values(1), errors(seed);
  std::normal_distribution<double> value, error;
  Numbers gradient(kCount);
  for (size_t i = 0; i < kCount; ++i)
    gradient[i] = i == 0 ? 1 : static_cast<float>(1e-9 * value(values) + 2e-9 * error(errors));
  return gradient;
}

// A module whose bias starts at next to nothing, beside a weight of size 1 that does not move
// (`has_weight`), and what it returns one step later.
FakeRun Biased(int32_t ranks, const Numbers& gradient, const Tensor& out, bool has_weight) {
  FakeRun run(ranks);
  const auto add = [&](PassBuilder* pass, const Numbers& bias) {
    Add(pass, Role::kParam, "bias", bias);
    if (has_weight) Add(pass, Role::kParam, "weight", Numbers(kCount, 1));
  };
  for (int32_t rank = 0; rank < ranks; ++rank) {
    PassBuilder first = run.Pass(rank, 0);
    add(&first, Numbers(kCount, 1e-3f));
    first.Module("fc", kInput, kWhole);
    Numbers mean, squares, bias;
    for (const float x : gradient) {
      mean.push_back(0.1f * x);
      squares.push_back(0.001f * x * x);
      bias.push_back(1e-3f - kRate * x / (std::abs(x) + 1e-12f));
    }
    Add(&first, Role::kState, "bias.exp_avg", mean);
    Add(&first, Role::kState, "bias.exp_avg_sq", squares);
    PassBuilder second = run.Pass(rank, 1);
    add(&second, bias);
    second.Module("fc", kInput, out);
  }
  return run;
}

TEST(OptimizerUpdates, ABiasExcusesWhatItMoves) {
  const Tensor near = Matrix(2, 4, {1.01f, 1.99f, 3.02f, 4.01f, 4.98f, 6.01f, 7.02f, 7.99f});
  const Tensor far = Matrix(2, 4, {2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor other = Matrix(2, 4, {-8, 7, -6, 5, -4, 3, 2, -1});
  const auto failing = [&](const Tensor& out, bool has_weight) {
    return Failing(DiffOk(Biased(1, Tiny(1), kWhole, has_weight),
                          Biased(2, Tiny(2), out, has_weight), WithDims("fc", kCopies)));
  };
  EXPECT_THAT(failing(kWhole, true), testing::IsEmpty());
  EXPECT_THAT(failing(near, true), testing::IsEmpty());
  for (const Tensor& out : {far, other}) EXPECT_THAT(failing(out, true), ElementsAre("fc@output#"));
  // One that parted altogether, and is all that is known of the module, excuses nothing.
  for (const Tensor& out : {near, far, other})
    EXPECT_THAT(failing(out, false), ElementsAre("fc@output#"));
}

using Codes = std::vector<uint16_t>;  // of bfloat16

// Of a size of 0.5 to 4, `more` roundings larger.
Tensor CoarseWeights(uint16_t more, uint16_t more_of_first) {
  std::mt19937 random(2);
  Codes codes;
  for (size_t i = 0; i < 1024; ++i) {
    const auto code = static_cast<uint16_t>(0x3F00 + random() % (3 * 0x80));
    const auto sign = static_cast<uint16_t>(random() % 2 << 15);
    codes.push_back(static_cast<uint16_t>((code | sign) + (i == 0 ? more_of_first : more)));
  }
  return MakeTensor<uint16_t>("bfloat16", {16, 64}, codes);
}

// Weights that `after` follows one step later, and a momentum that is `noise` off.
FakeRun Coarse(int32_t ranks, double noise, const Tensor& after) {
  FakeRun run(ranks);
  const auto add = [](PassBuilder* pass, Role role, const char* name, const Tensor& tensor) {
    pass->Param("fc", name, tensor);
    pass->last()->key.role = role;
    pass->last()->payload = tensor.record.payload;
  };
  std::mt19937 values(1), errors(3);
  std::normal_distribution<double> value, error;
  Numbers momentum;
  for (size_t i = 0; i < 1024; ++i) {
    // Of the first weight nothing is known.
    const double off = i == 0 && noise > 0 ? -2 : 1;
    momentum.push_back(
        static_cast<float>(i == 0 ? 1e-9 * off : value(values) * (1 + noise * error(errors))));
  }
  for (int32_t rank = 0; rank < ranks; ++rank) {
    PassBuilder first = run.Pass(rank, 0);
    add(&first, Role::kParam, "weight", CoarseWeights(0, 0));
    first.Module("fc", kInput, kWhole);
    add(&first, Role::kState, "weight.exp_avg", Matrix(16, 64, momentum));
    PassBuilder second = run.Pass(rank, 1);
    add(&second, Role::kParam, "weight", after);
    second.Module("fc", kInput, kWhole);
  }
  return run;
}

// Each element is within its own bound, as of weights that something scaled.
TEST(OptimizerUpdates, AGainOfCoarseWeightsIsNotExplained) {
  const auto failing = [](uint16_t more, uint16_t more_of_first) {
    return Failing(DiffOk(Coarse(1, 0, CoarseWeights(0, 20)),
                          Coarse(2, 1e-7, CoarseWeights(more, more_of_first)),
                          WithDims("fc", kCopies)));
  };
  EXPECT_THAT(failing(0, 20), testing::IsEmpty());
  EXPECT_THAT(failing(2, 20), ElementsAre("fc@param#weight"));
  // Nor where the update explains one that is outside its bound.
  EXPECT_THAT(failing(0, 50), testing::IsEmpty());
  EXPECT_THAT(failing(2, 50), ElementsAre("fc@param#weight"));
}

// Each rank's gradient is rounded in its own way: each copy counts for itself.
FakeRun Parted(int32_t ranks, float off) {
  FakeRun run(ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const Numbers kept = Gradient(1e-6, 10 + static_cast<uint32_t>(rank));
    Numbers mean, squares, weights = Stepped(kept, kRate);
    for (const float x : kept) {
      mean.push_back(0.1f * x);
      squares.push_back(0.001f * x * x);
    }
    if (rank + 1 == ranks) weights[9] += off;
    PassBuilder first = run.Pass(rank, 0);
    Add(&first, Role::kParam, "weight", Weights());
    first.Module("fc", kInput, kWhole);
    AddGradient(&first, kept);
    Add(&first, Role::kState, "weight.exp_avg", mean);
    Add(&first, Role::kState, "weight.exp_avg_sq", squares);
    PassBuilder second = run.Pass(rank, 1);
    Add(&second, Role::kParam, "weight", weights);
    second.Module("fc", kInput, kWhole);
  }
  return run;
}

TEST(OptimizerUpdates, CopiesThatDifferAreExplainedEachByItsOwn) {
  EXPECT_THAT(Failing(DiffWith(Parted(8, 0))), testing::IsEmpty());
  // Less than the sum of what eight explain.
  for (const int32_t ranks : {1, 2, 8})
    EXPECT_THAT(Failing(DiffWith(Parted(ranks, 4e-6f))), ElementsAre("fc@param#weight"));
}

}  // namespace
}  // namespace tdump::compare
