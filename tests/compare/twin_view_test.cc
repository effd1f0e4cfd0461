// Records of which the hash alone was kept, and the same bytes in another record: what a loss is
// given, as captures have it by default.
#include "compare/twin_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "compare/worst_elements.h"
#include "tests/compare/job_runs.h"
#include "tests/compare/team_world.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;

// Numbers that differ in rounding by `change` of a last place.
Tensor Values(float first, float change = 0, std::vector<int64_t> sizes = {4, 2}) {
  std::vector<float> values;
  for (int i = 0; i < 8; ++i) values.push_back((first + static_cast<float>(i)) * (1 + change));
  return MakeTensor<float>("float32", std::move(sizes), values);
}
constexpr float kRounding = 1.2e-7f;

struct Step {
  Tensor head = Values(1), aux = Values(20);
  Tensor given = Values(1);  // to the loss
  bool has_values = true;    // of what the modules return
};

void Fill(FakeRun* run, const Step& step, int32_t rank = 0) {
  PassBuilder pass = run->Pass(rank, 0);
  for (const auto& [name, out] : {std::pair("head", &step.head), {"aux", &step.aux}}) {
    pass.Module(name, kInput, *out);
    if (!step.has_values) pass.last()->payload.reset();
  }
  const uint64_t begin = pass.Begin("loss", "", {{"0", step.given}});
  pass.last()->payload.reset();
  pass.End(begin, "loss", "", {{"", Vector<float>("float32", {0.5f})}});
}

FakeRun RunOf(const Step& step) {
  FakeRun run(1);
  Fill(&run, step);
  return run;
}

Step Rounded(std::vector<int64_t> sizes = {4, 2}) {
  return {.head = Values(1, kRounding), .given = Values(1, kRounding, std::move(sizes))};
}

TEST(TwinView, HashesAreJudgedByTheValuesOfEqualBytes) {
  const DiffReport report = DiffOk(RunOf({}), RunOf(Rounded()));
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  EXPECT_EQ(report.counts.read, 2u);
  EXPECT_EQ(report.counts.failing_by_hash, 0u);
  EXPECT_FALSE(report.origin);
}

TEST(TwinView, OfAnotherShapeIsOne) {
  const Step flat{.given = Values(1, 0, {8})};
  EXPECT_EQ(DiffOk(RunOf(flat), RunOf(Rounded({8}))).overall, Overall::kSame);
}

TEST(TwinView, OneSideMayHaveTheValuesItself) {
  FakeRun full(1);
  PassBuilder pass = full.Pass(0, 0);
  const Step step = Rounded();
  pass.Module("head", kInput, step.head).Module("aux", kInput, step.aux);
  pass.Module("loss", step.given, Vector<float>("float32", {0.5f}));
  const DiffReport report = DiffOk(RunOf({}), full);
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  EXPECT_EQ(report.counts.read, 2u);
}

// The loss is given what another module returns, which agrees.
TEST(TwinView, TwinsBeyondTheBoundDiffer) {
  const DiffReport report = DiffOk(RunOf({}), RunOf({.given = Values(20)}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 1u);
  EXPECT_EQ(report.counts.failing_by_hash, 0u);
  EXPECT_EQ(RenderVerdict(report, false), "DIFFERS  1 of 6 outside their bound");
}

TEST(TwinView, WithoutATwinOnBothSidesNothingChanges) {
  const std::string by_hash = "by hash, which does not say by how much";
  Step first, second = Rounded();
  second.head = Values(1);
  EXPECT_THAT(RenderVerdict(DiffOk(RunOf(first), RunOf(second)), false), HasSubstr(by_hash));
  EXPECT_THAT(RenderVerdict(DiffOk(RunOf(second), RunOf(first)), false), HasSubstr(by_hash));
  second = Rounded();
  first.has_values = second.has_values = false;
  EXPECT_THAT(RenderVerdict(DiffOk(RunOf(first), RunOf(second)), false), HasSubstr(by_hash));
}

// Equal bytes that are other numbers, or fewer of them where a dimension is stored once.
TEST(TwinView, OfAnotherDtypeOrLengthIsNone) {
  std::vector<Tensor> heads = {Values(1), Values(1, kRounding)};
  for (Tensor& head : heads) head.record.dtype = DTypeOf("int32");
  const DiffReport report =
      DiffOk(RunOf({.head = heads[0]}), RunOf({.head = heads[1], .given = Values(1, kRounding)}));
  EXPECT_EQ(report.counts.failing_by_hash, 1u);
  Step expanded[] = {{}, Rounded()};
  for (Step& step : expanded) {
    step.given.record.sizes = {4, 4};
    step.given.record.strides = {4, 1};
  }
  EXPECT_EQ(DiffOk(RunOf(expanded[0]), RunOf(expanded[1])).counts.failing_by_hash, 1u);
  for (Step& step : expanded) {
    step.given.record.sizes = {3, 4, 2};
    step.given.record.strides = {0, 2, 1};
  }
  EXPECT_EQ(DiffOk(RunOf(expanded[0]), RunOf(expanded[1])).counts.failing_by_hash, 0u);
}

// Counts walks over the metadata.
class WalkedView : public WrappedView {
 public:
  WalkedView(std::unique_ptr<StepView> view, int* walks)
      : WrappedView(std::move(view)), walks_(walks) {}
  Status ForEachTensor(const VisitTensor& visit) const override {
    ++*walks_;
    return view().ForEachTensor(visit);
  }

 private:
  int* const walks_;
};

TEST(TwinView, NothingIsLookedUpForEqualHashesAndThenOnce) {
  const FakeRun run = RunOf({}), other = RunOf(Rounded());
  const auto open = [](const FakeRun& of, int* walks) {
    const CapturedRun side = of.side();
    return std::make_unique<TwinView>(
        std::make_unique<WalkedView>(*side.Open(side.passes()[0]), walks));
  };
  int walks = 0;
  const auto a = open(run, &walks), b = open(run, &walks), c = open(other, &walks);
  constexpr uint64_t kGiven = 5;  // its id
  const auto given = [](const StepView& view) { return *view.Get(kGiven); };
  EXPECT_FALSE((TwinViews{a.get(), b.get()}).ShowFor(given(*a), given(*b)));
  EXPECT_EQ(walks, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(given(*a).payload && i == 0);
    EXPECT_EQ((TwinViews{a.get(), c.get()}).ShowFor(given(*a), given(*c)), i == 0);
  }
  EXPECT_EQ(walks, 2);
  ASSERT_TRUE(given(*c).payload);
  EXPECT_EQ(c->Known(kGiven), nullptr);
  EXPECT_EQ(given(*c).key.path, "loss");
  std::vector<std::byte> bytes(given(*c).payload->logical_bytes);
  const io::Record record = given(*c);
  ASSERT_TRUE((*c->Open(record))(0, bytes).ok());
  EXPECT_EQ(bytes, Rounded().given.payload);
  size_t with_values = 0;
  EXPECT_TRUE(c->ForEachTensor([&](const io::Record& each) {
                 with_values += each.payload.has_value();
                 return true;
               }).ok());
  EXPECT_EQ(with_values, 6u);
}

TEST(TwinView, RanksThatArePutTogetherHaveTwins) {
  FakeRun a(2), b(2);
  for (int32_t rank = 0; rank < 2; ++rank) {
    Fill(&a, {}, rank);
    Fill(&b, Rounded(), rank);
  }
  DiffOptions options;
  options.job = JobOptions{};
  const DiffReport report = DiffOk(a, b, options);
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  EXPECT_EQ(report.counts.read, 2u);
}

TEST(TwinView, AnyNumberOfProcessesGivesTheReportOfOne) {
  for (const bool is_job : {false, true}) {
    FakeRun a(3), b(3);
    for (int32_t rank = 0; rank < 3; ++rank) {
      Fill(&a, {}, rank);
      // Where ranks are compared one by one, by another process than the first.
      Fill(&b, is_job || rank == 2 ? Step{.given = Values(20)} : Step(), rank);
    }
    const auto report = [&](Team* team) {
      DiffOptions options;
      options.top = ~size_t{0};
      options.team = team;
      if (is_job) options.job = JobOptions{};
      WorstCollector worst(3);  // reads again
      options.on_pass = [&](const PassDiff& pass, const PassPair& pair) {
        worst.AddPass(pass, pair);
      };
      const CapturedRun left = a.side(), right = b.side();
      DiffReport made = DiffOk(a, b, options);
      worst.FillIn(&made);
      if (team == nullptr || team->rank() == 0) {
        EXPECT_EQ(made.counts.failing, 1u);
        EXPECT_EQ(made.counts.failing_by_hash, 0u);
        EXPECT_TRUE(made.origin && made.origin->row &&
                    made.origin->row->worst_elements.size() == 3);
      }
      return RenderJson(made, left.Describe(), right.Describe(), false);
    };
    const std::string alone = report(nullptr);
    TeamWorld world(3);
    std::vector<std::thread> others;
    for (int rank = 1; rank < 3; ++rank) {
      others.emplace_back([&, rank] {
        TeamMember member(&world, rank);
        report(&member);
      });
    }
    TeamMember first(&world, 0);
    EXPECT_EQ(report(&first), alone) << is_job;
    for (std::thread& other : others) other.join();
  }
}

}  // namespace
}  // namespace tdump::compare
