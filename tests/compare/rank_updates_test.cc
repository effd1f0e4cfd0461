// Weights that parted because Adam made its step of gradients that differ by rounding, where ranks
// are compared one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compare/report.h"
#include "compare/steps_before.h"
#include "compare/team.h"
#include "tests/compare/team_world.h"
#include "tests/compare/trained_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kSteps = 4;

struct Fault {
  int32_t rank = 1;
  uint64_t step = 2;                                  // the first one whose weights are wrong
  float rate = kRate;                                 // of the update that made them
  float state = 1;                                    // what the optimizer keeps of the one before
  float gradient = 1;                                 // and its gradient
  std::function<void(Numbers* weights)> change = {};  // of these
};

// Adam without a memory. Each step and rank has a gradient, and a rounding of it, of its own.
FakeRun Trained(int32_t ranks, uint32_t seed, const Fault* fault = nullptr) {
  FakeRun run(ranks);
  std::vector<Numbers> weights(static_cast<size_t>(ranks), Weights());
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const auto place = static_cast<uint32_t>(step * 16 + static_cast<uint64_t>(rank));
      Numbers& own = weights[static_cast<size_t>(rank)];
      Numbers gradient = Gradient(1e-6, seed * 1000 + place);
      const bool is_wrong = fault != nullptr && rank == fault->rank && step + 1 == fault->step;
      if (is_wrong)
        for (float& x : gradient) x *= fault->gradient;
      Numbers mean, squares;
      for (const float x : gradient) {
        const float kept = is_wrong ? fault->state * x : x;
        mean.push_back(0.1f * kept);
        squares.push_back(0.001f * kept * kept);
      }
      PassBuilder pass = run.Pass(rank, step);
      Add(&pass, Role::kParam, "weight", own);
      pass.Module("fc", kInput, kWhole);
      AddGradient(&pass, gradient);
      Add(&pass, Role::kState, "weight.exp_avg", mean);
      Add(&pass, Role::kState, "weight.exp_avg_sq", squares);
      for (size_t i = 0; i < kCount; ++i)
        own[i] -= (is_wrong ? fault->rate : kRate) * gradient[i] / (std::abs(gradient[i]) + 1e-8f);
      if (is_wrong && fault->change) fault->change(&own);
    }
  }
  return run;
}

DiffReport DiffWith(const Fault* fault, unsigned threads = 1) {
  DiffOptions options;
  options.pass.threads = threads;
  options.top = ~size_t{0};
  return DiffOk(Trained(3, 1), Trained(3, 2, fault), options);
}

TEST(RankUpdates, TheRoundingOfTinyGradientsExplainsWholeStepsOfEachRank) {
  for (const unsigned threads : {1u, 4u}) {
    const DiffReport report = DiffWith(nullptr, threads);
    EXPECT_EQ(report.overall, Overall::kSame) << Text(report, 3, 3);
    EXPECT_THAT(report.notes, testing::Contains(HasSubstr("its last update explains")));
  }
}

// What fails first, which is the origin.
std::string FirstOf(const DiffReport& report) {
  if (report.overall != Overall::kDiffers || report.failing.empty() || !report.origin) return "";
  const Row& row = report.failing.front();
  EXPECT_EQ(report.origin->step, row.step_b);
  EXPECT_EQ(report.origin->rank, row.rank_b);
  return "rank " + std::to_string(row.rank_b) + " step " + std::to_string(row.step_b) + " " +
         ToText(row.key);
}

TEST(RankUpdates, FaultsOfOneRankAreFound) {
  const std::string weight = "rank 1 step 2 fc@param#weight";
  for (const float rate : {0.0f, 0.5f * kRate, 2 * kRate})
    EXPECT_EQ(FirstOf(DiffWith(std::make_unique<Fault>(Fault{.rate = rate}).get())), weight)
        << rate;
  const auto one = [](Numbers* weights) { (*weights)[9] += 1e-4f; };
  const auto far = [](Numbers* weights) { (*weights)[8] += 20 * kRate; };
  for (const auto& change : std::vector<std::function<void(Numbers*)>>{one, far}) {
    const Fault fault{.change = change};
    EXPECT_EQ(FirstOf(DiffWith(&fault)), weight);
  }
  const Fault gradient{.gradient = 2}, state{.state = 2};
  EXPECT_THAT(FirstOf(DiffWith(&gradient)), HasSubstr("rank 1 step 1 fc@param_grad#weight"));
  EXPECT_THAT(FirstOf(DiffWith(&state)), HasSubstr("rank 1 step 1 fc@state#weight.exp_avg"));
}

TEST(RankUpdates, CopiesOfOneRunAreNotExcused) {
  DiffOptions options;
  options.across = "tp";
  EXPECT_EQ(DiffOk(Trained(2, 1), Trained(2, 2), options).overall, Overall::kDiffers);
}

void ExpectTheReportOfOne(const FakeRun& a, const FakeRun& b, bool is_same) {
  const auto report = [&](Team* team) {
    DiffOptions options;
    options.top = ~size_t{0};
    options.pass.threads = 2;
    options.team = team;
    return Text(DiffOk(a, b, options), 3, 3);
  };
  const std::string alone = report(nullptr);
  EXPECT_EQ(alone.find("SAME") != std::string::npos, is_same) << alone;
  for (const int size : {2, 3, 4, 5, 20}) {
    SCOPED_TRACE(size);
    TeamWorld world(size);
    std::vector<std::thread> others;
    for (int rank = 1; rank < size; ++rank) {
      others.emplace_back([&, rank] {
        TeamMember member(&world, rank);
        report(&member);
      });
    }
    TeamMember first(&world, 0);
    EXPECT_EQ(report(&first), alone);
    for (std::thread& other : others) other.join();
  }
}

TEST(RankUpdates, AnyNumberOfProcessesGivesTheReportOfOne) {
  const Fault fault{.rank = 2, .rate = 0};
  for (const Fault* each : std::vector<const Fault*>{nullptr, &fault})
    ExpectTheReportOfOne(Trained(3, 1), Trained(3, 2, each), each == nullptr);
}

// RMSprop with momentum, whose gradients are off by rounding from step `first` on.
FakeRun WithMomentum(uint64_t first, uint32_t seed) {
  constexpr int32_t kRanks = 3;
  FakeRun run(kRanks);
  std::vector<Numbers> momenta(kRanks, Numbers(kCount, 0));
  std::vector<Numbers> weights(kRanks, Weights());
  for (uint64_t step = 0; step < 3; ++step) {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const Numbers gradient = Gradient(step < first ? 0 : 1e-6, seed);
      PassBuilder pass = run.Pass(static_cast<int32_t>(rank), step);
      Add(&pass, Role::kParam, "weight", weights[rank]);
      pass.Module("fc", kInput, kWhole);
      AddGradient(&pass, gradient);
      Numbers squares;
      for (size_t i = 0; i < kCount; ++i) {
        squares.push_back(0.01f * gradient[i] * gradient[i]);
        float& momentum = momenta[rank][i];
        momentum = 0.9f * momentum + gradient[i] / (std::sqrt(squares[i]) + 1e-8f);
        weights[rank][i] -= 0.1f * kRate * momentum;
      }
      Add(&pass, Role::kState, "weight.momentum_buffer", momenta[rank]);
      Add(&pass, Role::kState, "weight.square_avg", squares);
    }
  }
  return run;
}

// Of a step that is equal nothing is known: what is kept after the next one is held to its
// gradient.
TEST(RankUpdates, AMomentumIsJudgedAlikeByAnyNumberOfProcesses) {
  ExpectTheReportOfOne(WithMomentum(0, 1), WithMomentum(0, 2), true);
  ExpectTheReportOfOne(WithMomentum(2, 1), WithMomentum(2, 2), false);
}

TEST(StepsBefore, OfPassesThatAreNotOneStepApartNothingIsKnown) {
  const FakeRun a = Trained(1, 1), b = Trained(1, 2);
  const CapturedRun of_a = a.side(), of_b = b.side();
  std::vector<PassPair> pairs;
  for (const size_t step : {0, 1, 3}) pairs.push_back({of_a.passes()[step], of_b.passes()[step]});
  const PassDiffOptions options;
  StepsBefore steps(of_a, of_b, pairs, options, [](size_t, size_t) { return true; });
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Result<PassDiff> diff = DiffPass(of_a, of_b, pairs[i], options);
    ASSERT_TRUE(diff.ok());
    steps.Put(i, &*diff);
  }
  EXPECT_EQ(steps.Before(0), nullptr);
  ASSERT_NE(steps.Before(1), nullptr);
  EXPECT_EQ(steps.Before(1)->entries.size(), 4u);  // the weight, its gradient, two numbers kept
  EXPECT_EQ(steps.Before(2), nullptr);
}

}  // namespace
}  // namespace tdump::compare
