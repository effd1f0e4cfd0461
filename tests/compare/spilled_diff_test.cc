// What is measured of the pairs may lie in a file or not: nothing that is said depends on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sstream>
#include <string>

#include "compare/diff.h"
#include "compare/html/page.h"
#include "compare/report.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

constexpr int kLayers = 40;

// Every rank holds all of a model whose layers are given what the ones before them return, within a
// module. The error of rank r is r * `error`; of one layer it is more.
FakeRun Copies(int32_t world, float error) {
  FakeRun run(world);
  for (uint64_t step = 0; step < 2; ++step) {
    for (int32_t rank = 0; rank < world; ++rank) {
      const auto values = [&](int layer) {
        std::vector<float> numbers;
        for (int i = 0; i < 96; ++i) {
          const auto wave = static_cast<float>((i * 37 + layer * 11 + rank * 5) % 17 - 8);
          const float scale = layer == kLayers / 2 && rank == 1 ? 300 : 1;
          numbers.push_back(static_cast<float>(i % 13 + 1 + layer) *
                            (1 + scale * error * static_cast<float>(rank) * wave));
        }
        return MakeTensor<float>("float32", {12, 8}, numbers);
      };
      PassBuilder pass = run.Pass(rank, step);
      pass.Param("norm", "weight", values(0));
      const uint64_t model = pass.Begin("model", "", {{"0", values(0)}});
      for (int layer = 0; layer < kLayers; ++layer) {
        const std::string path = "model.layers." + std::to_string(layer);
        const uint64_t begin = pass.Begin(path, "", {{"0", values(layer)}});
        pass.Tap(path, "inside", values(layer));
        pass.End(begin, path, "", {{"", values(layer + 1)}});
      }
      pass.End(model, "model", "", {{"", values(kLayers)}});
    }
  }
  return run;
}

struct Told {
  std::string report, text, rows, page;
  Overall overall = Overall::kNotComparable;
};

Told TellOf(const FakeRun& a, const FakeRun& b, const SpillOptions& spill) {
  Told told;
  html::PageData data;
  DiffOptions options;
  options.top = ~size_t{0};
  options.pass.spill = spill;
  options.on_row = [&](const Row& row) {
    told.rows += RowToJson(row) + "\n";
    data.Add(row);
  };
  const DiffReport report = DiffOk(a, b, options);
  const SideInfo left = a.side().Describe(), right = b.side().Describe();
  told.overall = report.overall;
  told.report = RenderJson(report, left, right, false);
  told.text = RenderText(report, left, right, false, Style(false));
  html::WritePage({.data = &data, .report = &report, .a = left, .b = right},
                  [&](std::string_view piece) { told.page += piece; });
  return told;
}

void ExpectSame(const Told& told, const Told& expected) {
  EXPECT_EQ(told.report, expected.report);
  EXPECT_EQ(told.text, expected.text);
  EXPECT_EQ(told.rows, expected.rows);
  EXPECT_EQ(told.page, expected.page);
}

struct Counted {
  std::atomic<int> writes{0}, reads{0};
};

// Counts, and fails calls of `name` from the n-th on.
FaultPlan Counting(Counted* counted, std::string name = "", int from = 0) {
  return [=](uint64_t, std::string_view call, std::string_view) {
    std::atomic<int> none{0};
    std::atomic<int>& count = call == "write"  ? counted->writes
                              : call == "read" ? counted->reads
                                               : none;
    const int before = count++;
    return call == name && before >= from ? ENOSPC : 0;
  };
}

class SpilledDiffTest : public testing::Test {
 protected:
  SpilledDiffTest() { EXPECT_TRUE(memory_->MakeDirs("/tmp", 0700).ok()); }
  static SpillOptions Spilled(Env* env) {
    return {.env = env, .directory = "/tmp", .in_memory = 0};
  }

  const FakeRun one_ = Copies(1, 0), many_ = Copies(24, 1e-4f), few_ = Copies(3, 1e-6f);
  std::unique_ptr<Env> memory_ = NewMemoryEnv();
  Counted counted_;
};

TEST_F(SpilledDiffTest, AllIsSaidAsOfMemory) {
  for (const auto& [a, b] : {std::pair(&one_, &many_), {&many_, &one_}, {&many_, &few_}}) {
    const Told expected = TellOf(*a, *b, {});
    EXPECT_EQ(expected.overall, Overall::kDiffers);
    const auto env = NewFaultyEnv(memory_.get(), Counting(&counted_));
    const int writes = counted_.writes;
    ExpectSame(TellOf(*a, *b, Spilled(env.get())), expected);
    EXPECT_GT(counted_.writes - writes, 20);
    EXPECT_GT(counted_.reads, counted_.writes);
  }
}

TEST_F(SpilledDiffTest, ADiskThatIsFullChangesNothing) {
  const Told expected = TellOf(one_, many_, {});
  for (const int writes : {0, 1, 7, 23}) {
    Counted counted;
    const auto env = NewFaultyEnv(memory_.get(), Counting(&counted, "write", writes));
    ExpectSame(TellOf(one_, many_, Spilled(env.get())), expected);
    EXPECT_GT(counted.writes, writes);
  }
  ExpectSame(TellOf(one_, many_, {.env = memory_.get(), .directory = "/none", .in_memory = 0}),
             expected);
}

// Numbers that are gone are no numbers.
TEST_F(SpilledDiffTest, AFileThatCannotBeReadIsDamage) {
  const auto env = NewFaultyEnv(memory_.get(), Counting(&counted_, "read", 5));
  const Told told = TellOf(one_, many_, Spilled(env.get()));
  EXPECT_EQ(told.overall, Overall::kDamaged);
  EXPECT_NE(told.report.find("temporary file"), std::string::npos);
}

}  // namespace
}  // namespace tdump::compare
