// Lists that dims take from records of the same step: packed=@cu_seqlens, sizes=@counts.
#include "compare/record_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "compare/diff.h"
#include "compare/report.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;

using Lengths = std::vector<int64_t>;

template <class T>
Tensor Numbers(const std::string& dtype, const Lengths& numbers, bool nested = false) {
  std::vector<int64_t> sizes = {static_cast<int64_t>(numbers.size())};
  if (nested) sizes.insert(sizes.begin(), 1);
  return MakeTensor<T>(dtype, sizes, std::vector<T>(numbers.begin(), numbers.end()));
}
Tensor Int32(const Lengths& numbers) { return Numbers<int32_t>("int32", numbers); }

Lengths Bounds(const Lengths& lengths) {
  Lengths bounds = {0};
  for (const int64_t length : lengths) bounds.push_back(bounds.back() + length);
  return bounds;
}

int64_t Sum(const Lengths& lengths) { return std::accumulate(lengths.begin(), lengths.end(), 0l); }

// Rows of two columns, of these tokens.
Tensor Tokens(const std::vector<int64_t>& tokens, int seed) {
  std::vector<float> values;
  for (const int64_t token : tokens) {
    values.push_back(static_cast<float>(100 * token + seed));
    values.push_back(static_cast<float>(-token));
  }
  return MakeTensor<float>("float32", {static_cast<int64_t>(tokens.size()), 2}, values);
}

std::vector<int64_t> Range(int64_t count) {
  std::vector<int64_t> range(static_cast<size_t>(count));
  std::iota(range.begin(), range.end(), int64_t{0});
  return range;
}

// The tokens of rank `rank` of `n`, which shares every sequence as `kind` says: worked out token by
// token.
std::vector<int64_t> Held(const std::string& kind, const Lengths& lengths, int64_t n,
                          int64_t rank) {
  std::vector<int64_t> held;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const int64_t pieces = kind == "zigzag" ? 2 * n : n;
    for (int64_t i = 0; i < length; ++i) {
      // Of pieces that differ by one at most the longer ones come first.
      int64_t piece = 0;
      for (int64_t end = 0; end <= i; ++piece)
        end += length / pieces + (piece < length % pieces ? 1 : 0);
      --piece;
      int64_t owner = piece;
      if (kind == "zigzag" && piece >= n) owner = 2 * n - 1 - piece;
      if (kind == "striped") owner = i % n;
      if (owner == rank) held.push_back(begin + i);
    }
    begin += length;
  }
  return held;
}

// Of each step, the lengths by which tokens are shared, and what is recorded of them.
struct Step {
  Lengths lengths;
  Tensor recorded;
};

FakeRun OneRank(const std::vector<Step>& steps) {
  FakeRun run(1);
  for (size_t step = 0; step < steps.size(); ++step)
    run.Pass(0, step).Module("attn", Tokens({1}, 0), Tokens(Range(Sum(steps[step].lengths)), 3));
  return run;
}

FakeRun Ranks(int32_t n, const std::string& kind, const std::vector<Step>& steps,
              const std::string& dims = "") {
  FakeRun run(n);
  for (size_t step = 0; step < steps.size(); ++step) {
    for (int32_t rank = 0; rank < n; ++rank) {
      PassBuilder pass = run.Pass(rank, step);
      pass.Tap("data", "cu_seqlens", steps[step].recorded);
      pass.Module("attn", Tokens({1}, 0), Tokens(Held(kind, steps[step].lengths, n, rank), 3));
      pass.last()->dims = dims;
    }
  }
  return run;
}

constexpr char kWithoutTap[] = "data";

DiffReport Compare(const FakeRun& a, const FakeRun& b, DiffOptions options) {
  options.allow_unpaired = Named(kWithoutTap);
  return DiffOk(a, b, options);
}

// Random lengths that change from step to step, recorded in one of four ways.
TEST(RecordNumbers, SequencesOfEveryStepAreSplitByItsOwnLengths) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  int wrong = 0;
  for (int round = 0; round < 120; ++round) {
    const auto n = static_cast<int32_t>(2 + below(3));
    const std::string kind = round % 3 == 0 ? "contiguous" : round % 3 == 1 ? "zigzag" : "striped";
    std::vector<Step> steps, swapped;
    for (int64_t step = below(3); step >= 0; --step) {
      Lengths lengths;
      for (int64_t count = 2 + below(4); count > 0; --count)
        lengths.push_back(below(3) ? 1 + below(20) : 0);
      lengths.push_back(2 * n + 1);  // shared unlike the others
      lengths.push_back(1);
      const auto record = [&](const Lengths& of) {
        return round % 4 == 0   ? Int32(of)
               : round % 4 == 1 ? Int32(Bounds(of))
               : round % 4 == 2 ? Numbers<int64_t>("int64", Bounds(of), true)
                                : Numbers<uint16_t>("uint16", of);
      };
      steps.push_back({lengths, record(lengths)});
      Lengths other = lengths;
      std::rotate(other.begin(), other.end() - 1, other.end());
      swapped.push_back({lengths, record(other)});
    }
    SCOPED_TRACE(testing::Message() << "round " << round << " " << kind << " on " << n);
    const std::string dims = "t[cp:" + kind + ":packed=@cu_seqlens] h";
    const FakeRun one = OneRank(steps), many = Ranks(n, kind, steps);
    const DiffReport same = Compare(one, many, WithDims("attn@output", dims));
    EXPECT_EQ(same.overall, Overall::kSame);
    EXPECT_EQ(same.counts.bits_equal, 2 * steps.size());
    EXPECT_EQ(Compare(many, one, WithDims("attn@output", dims)).overall, Overall::kSame);
    EXPECT_EQ(Compare(one, Ranks(n, kind, steps, dims), {}).overall, Overall::kSame);
    // Lengths of the same sum in another order.
    const DiffReport differs = Compare(one, Ranks(n, kind, swapped), WithDims("attn@output", dims));
    EXPECT_EQ(differs.overall, Overall::kDiffers);
    wrong += differs.counts.unresolved < differs.counts.failing;
  }
  EXPECT_GT(wrong, 30);  // of which the shapes told nothing
}

// Two ranks, of one step, whose recorded lengths are 8 and 4.
std::vector<Step> OneStep(const Tensor& recorded) { return {{{8, 4}, recorded}}; }

std::string WhyNot(const FakeRun& run, const std::string& list = "@cu_seqlens",
                   int64_t tokens = 12) {
  FakeRun one(1);
  one.Pass(0, 0)
      .Module("attn", Tokens({1}, 0), Tokens(Range(tokens), 3))
      .Module("norm", Tokens({1}, 0), Tokens({1, 2}, 0));
  const DiffReport report =
      Compare(one, run, WithDims("attn@output", "t[cp:zigzag:packed=" + list + "] h"));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unresolved, 1u);
  EXPECT_EQ(report.counts.bits_equal, 1u);  // the input of attn: the run goes on
  return report.failing.empty() ? "" : report.failing[0].comparison.notes.back();
}

TEST(RecordNumbers, WhatIsWrongWithARecordIsAnErrorOfItsOperator) {
  const auto recorded = [](const Tensor& tensor) { return Ranks(2, "zigzag", OneStep(tensor)); };
  EXPECT_THAT(WhyNot(recorded(Int32({0, 8, 12})), "@lengths"),
              HasSubstr("'t[cp:zigzag:packed=@lengths] h' (--dims): no record of this step is "
                        "called 'lengths': expected integers, lengths (8, 12, 4)"));
  EXPECT_THAT(WhyNot(recorded(Numbers<float>("float32", {0, 8, 12}))),
              HasSubstr("record data/cu_seqlens@output#: it holds float32: expected integers"));
  EXPECT_THAT(WhyNot(recorded(Int32({0, 8, -12}))), HasSubstr("it holds -12 at [2]"));
  EXPECT_THAT(WhyNot(recorded(Int32({0, 8, 7, 12}))),
              HasSubstr("dimension t: @cu_seqlens (0, 8, 7, 12): expected lengths of sequences "
                        "that add up to the 12 units"));
  EXPECT_THAT(WhyNot(recorded(Int32({8, 5}))), HasSubstr("@cu_seqlens (8, 5): expected lengths"));
  EXPECT_THAT(WhyNot(recorded(Int32({0, 8, 13}))), HasSubstr("from 0 to 12"));
  EXPECT_THAT(WhyNot(recorded(MakeTensor<int32_t>("int32", {2, 2}, {0, 8, 0, 12}))),
              HasSubstr("its shape is [2, 2], expected one dimension"));
  Tensor unkept = Int32({0, 8, 12});
  unkept.record.payload.reset();
  EXPECT_THAT(WhyNot(recorded(unkept)),
              HasSubstr("without its values: capture it with level full"));
}

TEST(RecordNumbers, RanksThatHoldOtherNumbersAreNamed) {
  FakeRun run(3);
  for (const int32_t rank : {0, 1, 2}) {
    PassBuilder pass = run.Pass(rank, 0);
    pass.Tap("data", "cu_seqlens", Int32(rank == 2 ? Lengths{0, 6, 12} : Lengths{0, 8, 12}));
    pass.Module("attn", Tokens({1}, 0), Tokens(Held("zigzag", {8, 4}, 3, rank), 3));
    pass.Module("norm", Tokens({1}, 0), Tokens({1, 2}, 0));
  }
  FakeRun one(1);
  one.Pass(0, 0)
      .Module("attn", Tokens({1}, 0), Tokens(Range(12), 3))
      .Module("norm", Tokens({1}, 0), Tokens({1, 2}, 0));
  const DiffReport report =
      Compare(one, run, WithDims("attn@output", "t[cp:zigzag:packed=@cu_seqlens] h"));
  EXPECT_EQ(report.counts.unresolved, 1u);
  EXPECT_EQ(report.counts.bits_equal, 3u);
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("ranks 0 and 2 hold different numbers, expected those of the "
                                 "whole on every rank")));
  // Some of the ranks are enough, and hashes need not be there.
  FakeRun first(2);
  for (const int32_t rank : {0, 1}) {
    PassBuilder pass = first.Pass(rank, 0);
    if (rank == 0) pass.Tap("data", "cu_seqlens", Int32({8, 4}));
    if (rank == 0) pass.last()->hash.reset();
    pass.Module("attn", Tokens({1}, 0), Tokens(Held("zigzag", {8, 4}, 2, rank), 3));
    pass.Module("norm", Tokens({1}, 0), Tokens({1, 2}, 0));
  }
  EXPECT_EQ(
      Compare(one, first, WithDims("attn@output", "t[cp:zigzag:packed=@cu_seqlens] h")).overall,
      Overall::kSame);
}

// By key, plain name, tap, or the end of an argument's name; of several, those of the tensor's own
// micro-batch.
TEST(RecordNumbers, NamesOfRecords) {
  FakeRun run(2);
  for (const int32_t rank : {0, 1}) {
    PassBuilder pass = run.Pass(rank, 0);
    for (const uint32_t micro : {0u, 1u}) {
      const Lengths lengths = micro == 0 ? Lengths{8, 4} : Lengths{2, 10};
      const uint64_t begin =
          pass.Begin("attn", "", {{"kwargs.packed.cu_q", Int32(Bounds(lengths))}});
      pass.last()->key.micro = micro;
      pass.last()->key.call = 0;
      pass.End(begin, "attn", "", {{"", Tokens(Held("zigzag", lengths, 2, rank), 3)}});
      pass.last()->key.micro = micro;
      pass.last()->key.call = 0;
    }
    pass.Tap("data", "own", Int32({8, 4}));
    pass.Module("table", Tokens({1}, 0), Int32({8, 4}));
    pass.Tap("other", "own2", Int32({1, 11}));
  }
  FakeRun one(1);
  PassBuilder pass = one.Pass(0, 0);
  for (const uint32_t micro : {0u, 1u}) {
    pass.End(pass.Begin("attn", "", {}), "attn", "", {{"", Tokens(Range(12), 3)}});
    pass.last()->key.micro = micro;
    pass.last()->key.call = 0;
  }
  const auto failing = [&](const std::string& list) {
    DiffOptions options = WithDims("attn@output", "t[cp:zigzag:packed=@" + list + "] h");
    options.allow_unpaired = [](const std::string&) { return true; };
    const DiffReport report = DiffOk(one, run, options);
    EXPECT_EQ(report.counts.paired, 2u);
    EXPECT_EQ(report.counts.unresolved, 0u) << list;
    return report.counts.failing;
  };
  for (const char* name : {"cu_q", "attn@input#kwargs.packed.cu_q"}) EXPECT_EQ(failing(name), 0u);
  // Those of the first micro-batch, for both.
  for (const char* name : {"own", "data/own", "data/own@output#", "table", "table@output#"})
    EXPECT_EQ(failing(name), 1u) << name;
  EXPECT_EQ(failing("attn@input#kwargs.packed.cu_q~m1"), 1u);
  EXPECT_EQ(failing("\"other/own2@output#\""), 2u);
}

TEST(RecordNumbers, SeveralOfOneNameThatDifferAskForAKey) {
  FakeRun run(2);
  for (const int32_t rank : {0, 1}) {
    PassBuilder pass = run.Pass(rank, 0);
    pass.Tap("data", "cu_seqlens", Int32({8, 4}));
    pass.Tap("data2", "cu_seqlens", Int32({4, 8}));
    pass.Module("attn", Tokens({1}, 0), Tokens(Held("zigzag", {8, 4}, 2, rank), 3));
  }
  EXPECT_THAT(WhyNot(run),
              HasSubstr("'cu_seqlens' are 2 records, of which data/cu_seqlens@output# and "
                        "data2/cu_seqlens@output# hold different numbers: name one by its key"));
  FakeRun one(1);
  one.Pass(0, 0).Module("attn", Tokens({1}, 0), Tokens(Range(12), 3));
  EXPECT_EQ(
      Compare(one, run, WithDims("attn@output", "t[cp:zigzag:packed=@data/cu_seqlens@output#] h"))
          .overall,
      Overall::kSame);
}

// Tokens of each of eight experts, two on each rank, in buffers that are longer.
TEST(RecordNumbers, TokensOfExpertsAreTheSizes) {
  std::mt19937 random(9);
  for (int round = 0; round < 20; ++round) {
    FakeRun one(1), run(4);
    for (uint64_t step = 0; step < 2; ++step) {
      Lengths counts;
      for (int expert = 0; expert < 8; ++expert)
        counts.push_back(static_cast<int64_t>(random() % 5));
      counts[3] = 7;
      one.Pass(0, step).Module("attn", Tokens({1}, 0), Tokens(Range(Sum(counts)), 3));
      int64_t first = 0;
      for (const int32_t rank : {0, 1, 2, 3}) {
        const auto own = static_cast<size_t>(2 * rank);
        std::vector<int64_t> tokens;
        for (int64_t i = 0; i < counts[own] + counts[own + 1]; ++i) tokens.push_back(first++);
        tokens.resize(14, 9999);  // padding
        PassBuilder pass = run.Pass(rank, step);
        pass.Tap("data", "counts", round % 2 ? Int32(counts) : Int32(Bounds(counts)));
        pass.Module("attn", Tokens({1}, 0), Tokens(tokens, 3));
      }
    }
    EXPECT_EQ(Compare(one, run, WithDims("attn@output", "t[ep:sizes=@counts] h")).overall,
              Overall::kSame);
    EXPECT_EQ(Compare(one, run, WithDims("attn@output", "t[ep] h")).overall, Overall::kDiffers);
  }
}

}  // namespace
}  // namespace tdump::compare
