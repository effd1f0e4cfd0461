// One process against two that share its batch, each with a loss that is the mean over its part.
#include "compare/mean_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::vector<float> kGradient = {1, -2, 3, 4, 5, 6, -7, 8};

// Rows of two numbers.
Tensor Rows(std::vector<float> values, float factor) {
  for (float& value : values) value *= factor;
  return MakeTensor<float>("float32", {static_cast<int64_t>(values.size() / 2), 2}, values);
}

// `forward`: what the module returns. Its gradient `times` that of kGradient, but for one element.
struct Job {
  int32_t world = 1;
  float forward = 1, times = 1, first = 1;
  Role role = Role::kGradOutput;
};

FakeRun RunOf(const Job& job) {
  FakeRun run(job.world);
  const auto part = static_cast<ptrdiff_t>(kGradient.size()) / job.world;
  for (int32_t rank = 0; rank < job.world; ++rank) {
    PassBuilder pass = run.Pass(rank, 0);
    const auto begin = kGradient.begin() + rank * part;
    std::vector<float> own(begin, begin + part);
    pass.Module("first", Rows(own, 1), Rows(own, job.forward));
    if (rank == 0) own[0] *= job.first;
    pass.Param("fc", "", Rows(own, job.times));
    pass.last()->payload = Rows(own, job.times).record.payload;
    pass.last()->key.role = job.role;
    pass.last()->key.phase = Phase::kBackward;
  }
  return run;
}

DiffOptions Split(const std::string& topology = "dp=2") {
  DiffOptions options = WithDims("", "b[dp] h", 'B');
  options.job->topology_b = topology;
  return options;
}

std::vector<std::string> NotesOf(const Job& a, const Job& b, const DiffOptions& options = Split()) {
  return DiffOk(RunOf(a), RunOf(b), options).notes;
}

TEST(MeanHint, GradientsThatAreTimesLargerAreNotedWhateverTheOrigin) {
  for (const float forward : {1.0f, 1.5f}) {
    const DiffReport report =
        DiffOk(RunOf({}), RunOf({.world = 2, .forward = forward, .times = 2}), Split());
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, forward == 1 ? "fc" : "first");
    EXPECT_THAT(report.notes,
                Contains(AllOf(HasSubstr("1 pair of grad_output: B is 2 times A within the bound"),
                               HasSubstr("--allow-failed '@grad_output#'"))));
  }
}

TEST(MeanHint, TheOptionThatIsNamedDoesIt) {
  const FakeRun one = RunOf({}), two = RunOf({.world = 2, .times = 2});
  DiffOptions options = Split();
  options.pass.allow_failed = {NameFilter(), Named("@grad_output#")};
  EXPECT_EQ(DiffOk(one, two, options).overall, Overall::kSame);
  EXPECT_EQ(DiffOk(one, two, Split()).overall, Overall::kDiffers);
}

TEST(MeanHint, NothingElseIsOne) {
  const std::vector<std::pair<const char*, Job>> others = {
      {"three of two ranks", {.world = 2, .times = 3}},
      {"an error beside it", {.world = 2, .times = 2, .first = 1.001f}},
      {"no gradient", {.world = 2, .times = 2, .role = Role::kOutput}}};
  for (const auto& [what, job] : others)
    EXPECT_THAT(NotesOf({.role = job.role}, job), Not(Contains(HasSubstr(" times A")))) << what;
}

TEST(MeanHint, ASumThatShouldBeAMeanIsNotedWhereTheOriginIsAnother) {
  const auto gradients = [](float forward, const std::vector<float>& factors) {
    FakeRun run(static_cast<int32_t>(factors.size()));
    for (size_t rank = 0; rank < factors.size(); ++rank) {
      PassBuilder pass = run.Pass(static_cast<int32_t>(rank), 0);
      pass.Module("first", Rows(kGradient, 1), Rows(kGradient, forward));
      for (const char* name : {"weight", "bias"}) {
        pass.Param("fc", name, Rows(kGradient, factors[rank]));
        pass.last()->payload = Rows(kGradient, 1).record.payload;
        pass.last()->key.role = Role::kParamGrad;
        pass.last()->key.phase = Phase::kBackward;
      }
    }
    return run;
  };
  DiffOptions options = WithDims("@param_grad", "i o partial[dp]", 'B');
  options.job->topology_b = "dp=2";
  const auto notes = [&](float forward) {
    return DiffOk(gradients(1, {1}), gradients(forward, {0.5f, 1.5f}), options).notes;
  };
  EXPECT_THAT(notes(1.5f), Contains(AllOf(HasSubstr("partial[dp:mean]'"), HasSubstr("(2 pairs)"))));
  EXPECT_THAT(notes(1), Not(Contains(HasSubstr("partial[dp:mean]"))));  // the origin says it
}

// What a loss beside the model returns on each rank; the model's first module returns `forward`.
FakeRun WithLosses(const std::vector<float>& losses, float forward = 1) {
  FakeRun run(static_cast<int32_t>(losses.size()));
  for (size_t rank = 0; rank < losses.size(); ++rank) {
    PassBuilder pass = run.Pass(static_cast<int32_t>(rank), 0);
    pass.Module("first", Rows(kGradient, 1), Rows(kGradient, forward));
    const Tensor loss = MakeTensor<float>("float32", {}, {losses[rank]});
    pass.End(pass.Begin(".", "", {}), ".", "", {{"", loss}});
    pass.last()->key.root = "CrossEntropyLoss";
  }
  return run;
}

TEST(MeanHint, LossesOfPartsOfTheBatchAreNamedWithTheOptionThatTakesTheirMean) {
  // Losses of parts are often so alike that they pass for copies of one.
  const std::vector<std::vector<float>> of_ranks = {{0.5f, 3.5f}, {2.01f, 1.99f}};
  for (const std::vector<float>& losses : of_ranks) {
    const FakeRun one = WithLosses({2}), two = WithLosses(losses, 1.5f);
    EXPECT_THAT(DiffOk(one, two).notes,
                Contains(HasSubstr("--dims 'B:^CrossEntropyLoss@output: ... partial[rank:mean]'")));
    DiffOptions options = WithDims("CrossEntropyLoss@output", "partial[rank:mean]", 'B');
    EXPECT_EQ(DiffOk(WithLosses({2}), WithLosses(losses), options).overall, Overall::kSame);
  }
}

TEST(MeanHint, LossesWithAnotherMeanAreNotOne) {
  for (const std::vector<float>& losses : std::vector<std::vector<float>>{{0.5f, 3}, {2.01f, 2}})
    EXPECT_THAT(DiffOk(WithLosses({2}), WithLosses(losses)).notes,
                Not(Contains(HasSubstr(":mean]"))));
}

TEST(MeanHint, RanksAgainstRanksAreNotLookedAt) {
  Metrics metrics;
  metrics.cosine = 1;
  metrics.rms_a = 1;
  metrics.rms_b = 2;
  Outcome outcome;
  outcome.role = Role::kGradOutput;
  outcome.fails = true;
  outcome.comparison.evidence = Evidence::kPayload;
  outcome.comparison.metrics = metrics;
  MeanHints together(Topology(), *Topology::Parse("dp=2", 2)), apart;
  together.Add({}, outcome);
  apart.Add({}, outcome);
  EXPECT_THAT(together.Notes(""), testing::SizeIs(1));
  EXPECT_THAT(apart.Notes(""), IsEmpty());
  EXPECT_THAT(NotesOf({.world = 2}, {.world = 2, .times = 2}, {}),
              Not(Contains(HasSubstr(" times A"))));
}

}  // namespace
}  // namespace tdump::compare
