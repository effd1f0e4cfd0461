// Where one side alone did some work, and that explains what differs later.
#include "compare/missing_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/statistics.h"
#include "tests/compare/counting_view.h"
#include "tests/compare/diff_chain.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;

constexpr uint32_t kMost = 2;  // micro-batches

struct Step {
  uint32_t micro_batches = kMost;
  bool same_state = true;
  bool same_output = true;  // of the first micro-batch
  uint64_t step = 0;
};

// A forward of `second` in each micro-batch, and what the optimizer keeps.
void AddStep(FakeRun* run, const Step& of, int32_t rank = 0) {
  PassBuilder pass = run->Pass(rank, of.step);
  for (uint32_t micro = 0; micro < of.micro_batches; ++micro) {
    const size_t before = pass.records()->size();
    pass.Module("second", kInput, micro == 0 && !of.same_output ? kBad : kGood);
    for (size_t i = before; i < pass.records()->size(); ++i) {
      Key& key = (*pass.records())[i].key;
      key.micro = micro;
      key.call = 0;
    }
  }
  pass.Param("second", "weight.exp_avg", of.same_state ? kGood : kBad);
  pass.last()->key.role = Role::kState;
  pass.last()->payload = kGood.record.payload;
}

DiffReport DiffSteps(const Step& a, const Step& b, const DiffOptions& options = {}) {
  FakeRun of_a(1), of_b(1);
  AddStep(&of_a, a);
  AddStep(&of_b, b);
  return DiffOk(of_a, of_b, options);
}

RecordPatterns OfMicroBatch1() {
  return {NameFilter(),
          [](const std::string& key) { return key.find("~m1") != std::string::npos; }};
}

TEST(MissingWork, AMicroBatchLessIsTheOriginOfTheStatesThatFollow) {
  const DiffReport report = DiffSteps({}, {.micro_batches = 1, .same_state = false});
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kMissing);
  EXPECT_EQ(report.origin->missing->side, 'A');
  EXPECT_EQ(report.origin->missing->records, 2);
  EXPECT_EQ(ToText(report.origin->missing->key), "second@input#0~m1");
  EXPECT_THAT(
      Joined(Text(report)),
      HasSubstr("ORIGIN rank 0, step 0, micro-batch 1, only in A step 0 has 2 micro-batches in A "
                "and 1 in B: 2 records only in A, the first second@input#0~m1; what differs next "
                "is second, state weight.exp_avg"));
}

TEST(MissingWork, AMicroBatchMoreIsToo) {
  const DiffReport report = DiffSteps({.micro_batches = 1}, {.same_state = false});
  ASSERT_TRUE(report.origin);
  EXPECT_THAT(Joined(Text(report)), HasSubstr("step 0 has 1 micro-batch in A and 2 in B: 2 records "
                                              "only in B, the first second@input#0~m1"));
}

TEST(MissingWork, WhatDiffersInAnEarlierMicroBatchStaysTheOrigin) {
  const DiffReport report =
      DiffSteps({}, {.micro_batches = 1, .same_state = false, .same_output = false});
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
  EXPECT_EQ(report.origin->name, "second");
}

TEST(MissingWork, RecordsThatNeedNoPartnerAreNone) {
  DiffOptions options;
  options.allow_unpaired = OfMicroBatch1();
  const DiffReport report = DiffSteps({}, {.micro_batches = 1, .same_state = false}, options);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
  EXPECT_EQ(report.origin->row->key.arg, "weight.exp_avg");
  EXPECT_FALSE(DiffSteps({}, {.micro_batches = 1}, options).origin);
}

TEST(MissingWork, ItIsTheOriginOfALaterStepToo) {
  FakeRun a(1), b(1);
  AddStep(&a, {});
  AddStep(&b, {.micro_batches = 1});
  AddStep(&a, {.step = 1});
  AddStep(&b, {.same_output = false, .step = 1});
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kMissing);
  EXPECT_EQ(report.origin->step, 0);
  EXPECT_THAT(Joined(Text(report)), HasSubstr("what differs next is second, output, of step 1"));
}

TEST(MissingWork, NotOfAnEarlierStep) {
  FakeRun a(1), b(1);
  AddStep(&a, {});
  AddStep(&b, {.same_output = false});
  AddStep(&a, {.step = 1});
  AddStep(&b, {.micro_batches = 1, .step = 1});
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->step, 0);
  EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
}

TEST(MissingWork, TheRankThatLacksItIsNamed) {
  FakeRun a(2), b(2);
  for (const int32_t rank : {0, 1}) {
    AddStep(&a, {}, rank);
    AddStep(&b, {.micro_batches = rank == 1 ? 1u : kMost, .same_state = false}, rank);
  }
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kMissing);
  EXPECT_THAT(Text(report, 2, 2), HasSubstr("rank 1, step 0, micro-batch 1, only in A"));
}

TEST(MissingWork, RulesThatDifferAndUnfinishedPassesTellNothing) {
  const auto origin_of = [](bool other_rules, bool unfinished) {
    FakeRun a(1), b(1);
    AddStep(&a, {});
    AddStep(&b, {.micro_batches = 1, .same_state = false});
    a.identity(0)->config_hash = "1";
    b.identity(0)->config_hash = other_rules ? "2" : "1";
    if (unfinished) b.MakePart(0);
    return DiffOk(a, b).origin->kind;
  };
  EXPECT_EQ(origin_of(false, false), OriginKind::kMissing);
  EXPECT_EQ(origin_of(true, false), OriginKind::kOperator);
  EXPECT_EQ(origin_of(false, true), OriginKind::kOperator);
}

// Modules in a row; one that B leaves out.
struct Row3 {
  enum class Kept { kAll, kValues, kStatistics };
  Tensor out = kGood;  // of the module that B does not run
  bool runs = true;
  bool by_function = false;  // which does the same
  bool late = false;         // another module runs after it that agrees
  Tensor last = kGood;
  Kept kept = Kept::kAll;  // of each record

  Tensor Keep(Tensor tensor) const {
    io::Record& record = tensor.record;
    if (kept != Kept::kAll) record.hash.reset();
    if (kept != Kept::kStatistics) return tensor;
    record.statistics = io::StatisticsOf(record.dtype, tensor.payload);
    record.payload.reset();
    return tensor;
  }
};

FakeRun InARow(const Row3& of) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  const auto run_module = [&](const std::string& name, const Tensor& in, const Tensor& out) {
    pass.Module(name, of.Keep(in), of.Keep(out));
  };
  run_module("first", kInput, kNear);
  if (of.runs) run_module("second", kNear, of.out);
  if (of.late) run_module("other", kInput, kGood);
  run_module("third", of.runs || of.by_function ? of.out : kBad, of.last);
  return run;
}

TEST(MissingWork, AModuleThatOneSideLeavesOutIsTheOriginOfWhatComesNext) {
  const DiffReport report = DiffOk(InARow({}), InARow({.runs = false, .last = kBad}));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kMissing);
  EXPECT_THAT(Joined(Text(report)),
              HasSubstr("ORIGIN rank 0, step 0, second, only in A B does not run it: its records "
                        "are only in A, the first second@input#0; what differs next is third, "
                        "input 0"));
  const DiffReport reverse = DiffOk(InARow({.runs = false, .last = kBad}), InARow({}));
  ASSERT_TRUE(reverse.origin);
  EXPECT_THAT(Text(reverse), HasSubstr("second, only in B"));
}

TEST(MissingWork, OneThatChangesNothingExplainsNothing) {
  const DiffReport report = DiffOk(InARow({.out = kNear}), InARow({.runs = false, .last = kBad}));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "third");
}

// Without hashes: of values that were put together, or where statistics alone were kept.
TEST(MissingWork, NorDoesItWithoutHashes) {
  for (const auto kept : {Row3::Kept::kValues, Row3::Kept::kStatistics}) {
    const auto name_of = [&](const Tensor& out) {
      const DiffReport report = DiffOk(InARow({.out = out, .kept = kept}),
                                       InARow({.runs = false, .last = kBad, .kept = kept}));
      return report.origin ? report.origin->name : "";
    };
    EXPECT_EQ(name_of(kGood), "second");
    EXPECT_EQ(name_of(kNear), "third");
  }
}

TEST(MissingWork, NorDoesOneAfterWhichOthersAgree) {
  const DiffReport report =
      DiffOk(InARow({.late = true}), InARow({.runs = false, .late = true, .last = kBad}));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "third");
}

TEST(MissingWork, NorOneOfWhichAFunctionDoesTheWork) {
  const DiffReport report =
      DiffOk(InARow({}), InARow({.runs = false, .by_function = true, .last = kBad}));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "third");
}

TEST(MissingWork, NorOneUnderAnotherName) {
  FakeRun a = InARow({}), b(1);
  PassBuilder pass = b.Pass(0, 0);
  pass.Module("first", kInput, kNear).Module("renamed", kNear, kGood).Module("third", kBad, kBad);
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "third");
}

// Of 200 modules, one without a partner; the last one may return something else.
size_t ReadsOf(bool differs) {
  const auto run = [&](bool more, const Tensor& last) {
    FakeRun made(1);
    PassBuilder pass = made.Pass(0, 0);
    if (more) pass.Module("more", kInput, kGood);
    for (int i = 0; i < 200; ++i) pass.Module("layers." + std::to_string(i), kInput, kGood);
    pass.Module("last", kInput, last);
    return made;
  };
  size_t reads = 0;
  DiffOptions options;
  options.on_pass = [&](const PassDiff& pass, const PassPair& pair) {
    std::optional<FirstDifference> first;
    for (size_t i = 0; i < pass.outcomes.size() && !first; ++i) {
      if (pass.outcomes[i].fails) first = FirstDifference{.outcome = i};
    }
    EXPECT_EQ(first.has_value(), differs);
    const RecordPatterns allowed;
    MissingWorkFinder(&allowed, true).AddPass(Counted(pass, &reads), pair, first);
  };
  DiffOk(run(true, kGood), run(false, differs ? kBad : kGood), options);
  return reads;
}

// Its own two, one that has its micro-batch; the first difference, of both sides for either, and
// one before it that agrees.
TEST(MissingWork, ARecordWithoutAPartnerDoesNotMakeItReadAllOthers) {
  EXPECT_EQ(ReadsOf(false), 3);
  EXPECT_LE(ReadsOf(true), 8);
}

}  // namespace
}  // namespace tdump::compare
