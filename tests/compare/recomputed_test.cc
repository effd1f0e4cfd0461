// E20: a job with checkpoints against one without.
#include "compare/recomputed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Tensor kOther = Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 9});

void Forward(PassBuilder* pass, const Tensor& out, bool anew, uint32_t micro = 0,
             uint64_t call = 0) {
  pass->Module("fc", kInput, out);
  for (size_t i = pass->records()->size() - 2; i < pass->records()->size(); ++i) {
    Key& key = (*pass->records())[i].key;
    key.recompute = anew;
    key.micro = micro;
    key.call = call;
  }
  pass->records()->back().strides = out.record.strides;
  pass->last_call()->call.recompute = anew;
}

// A layer, and what a checkpoint computes of it anew.
FakeRun JobRun(const std::optional<Tensor>& anew, const Tensor& first = kWhole, int32_t ranks = 1) {
  FakeRun run(ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = run.Pass(rank, step);
      Forward(&pass, first, false);
      if (anew) Forward(&pass, *anew, true);
    }
  }
  return run;
}

Tensor WithoutHash(Tensor tensor) {
  tensor.record.hash.reset();
  return tensor;
}

TEST(Recomputed, WhatEqualsItsFirstForwardIsLeftOutCountedAndTold) {
  for (const int32_t ranks : {1, 2}) {
    const FakeRun plain = JobRun({}, kWhole, ranks), with = JobRun(kWhole, kWhole, ranks);
    const DiffReport report = DiffOk(plain, with), turned = DiffOk(with, plain);
    for (const DiffReport* one : {&report, &turned}) {
      EXPECT_EQ(one->overall, Overall::kSame) << Text(*one);
      EXPECT_EQ(one->counts.unpaired_a + one->counts.unpaired_b, 0u);
      EXPECT_EQ(one->counts.paired, 4u * static_cast<uint64_t>(ranks));
    }
    // The input and the output, at two steps.
    const std::string how =
        "computed anew by a checkpoint, and left out as equal to the first forward, which is "
        "compared, in ";
    const std::string records = std::to_string(4 * ranks) + " records";
    EXPECT_THAT(report.notes, Contains(how + "B: " + records));
    EXPECT_THAT(turned.notes, Contains(how + "A: " + records));
  }
}

TEST(Recomputed, WhatIsComputedOtherwiseFailsAndIsTold) {
  const Tensor whole = WithoutHash(kWhole);
  for (const auto& [first, anew] : {std::pair(kWhole, kOther),
                                    {kWhole, kInput},
                                    {WithHashAlone(kWhole), WithHashAlone(kOther)},
                                    {whole, WithoutHash(kOther)}}) {
    const DiffReport report = DiffOk(JobRun({}, first), JobRun(anew, first));
    EXPECT_EQ(report.overall, Overall::kDiffers) << Text(report);
    EXPECT_EQ(report.counts.unpaired_b, 2u);
    EXPECT_THAT(report.notes,
                Contains("computed anew by a checkpoint otherwise than the first forward, in B: "
                         "2 records, first fc@output#~r"));
  }
}

// The hash of an expanded tensor is of what it stores: not of which dimension it repeats.
TEST(Recomputed, OneThatRepeatsAnotherDimensionStays) {
  Tensor down = WithHashAlone(Matrix(2, 2, {1, 2, 1, 2}));
  Tensor across = down;
  down.record.strides = {0, 1};
  across.record.strides = {1, 0};
  EXPECT_EQ(DiffOk(JobRun({}, down), JobRun(down, down)).overall, Overall::kSame);
  const DiffReport report = DiffOk(JobRun({}, down), JobRun(across, down));
  EXPECT_EQ(report.overall, Overall::kDiffers) << Text(report);
  EXPECT_EQ(report.counts.unpaired_b, 2u);
}

TEST(Recomputed, WithoutAHashTheValuesTell) {
  const Tensor whole = WithoutHash(kWhole);
  EXPECT_EQ(DiffOk(JobRun({}, whole), JobRun(whole, whole)).overall, Overall::kSame);
}

TEST(Recomputed, WhereNeitherTellsItStays) {
  const Tensor unread = WithStatisticsAlone(kWhole);
  const DiffReport report = DiffOk(JobRun({}, unread), JobRun(unread, unread));
  EXPECT_EQ(report.overall, Overall::kDiffers) << Text(report);
  EXPECT_EQ(report.counts.unpaired_b, 2u);
  EXPECT_THAT(report.notes, Not(Contains(HasSubstr("otherwise"))));
}

// F: a first forward, R: one computed anew.
DiffReport Order(const std::string& order, const std::vector<uint32_t>& micros) {
  FakeRun plain(1), with(1);
  PassBuilder a = plain.Pass(0, 0), b = with.Pass(0, 0);
  uint64_t first = 0, anew = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool again = order[i] == 'R';
    const uint64_t call = again ? anew++ : first++;
    if (!again) Forward(&a, kWhole, false, micros[i], call);
    Forward(&b, kWhole, again, micros[i], call);
  }
  return DiffOk(plain, with);
}

TEST(Recomputed, WhereItMayBeOneOfSeveralFirstForwardsItStays) {
  const auto stays = [](const DiffReport& report, uint64_t records) {
    EXPECT_EQ(report.overall, Overall::kDiffers) << Text(report);
    EXPECT_EQ(report.counts.unpaired_b, records);
    EXPECT_THAT(report.notes, Not(Contains(HasSubstr("computed anew"))));
  };
  stays(Order("FFRR", {0, 0, 0, 0}), 4);  // a loop
  stays(Order("FFRR", {0, 1, 1, 1}), 4);  // micro-batches of a pipeline
  stays(Order("FRR", {0, 0, 0}), 4);      // computed anew twice
  stays(Order("RF", {0, 0}), 2);          // its own is not there
  stays(Order("FR", {0, 1}), 2);
  EXPECT_EQ(Order("FRFR", {0, 0, 1, 1}).overall, Overall::kSame);
}

TEST(Recomputed, AFirstForwardWithoutAPartnerTellsNothing) {
  FakeRun plain(1), with(1);
  plain.Pass(0, 0).Module("head", kInput, kWhole);
  PassBuilder pass = with.Pass(0, 0);
  pass.Module("head", kInput, kWhole);
  Forward(&pass, kWhole, false);
  Forward(&pass, kWhole, true);
  EXPECT_EQ(DiffOk(plain, with).counts.unpaired_b, 4u);
}

TEST(Recomputed, ThoseOfBothSidesAreComparedAndMissed) {
  const DiffReport equal = DiffOk(JobRun(kWhole), JobRun(kWhole));
  EXPECT_EQ(equal.overall, Overall::kSame);
  EXPECT_EQ(equal.counts.paired, 8u);
  EXPECT_THAT(equal.notes, IsEmpty());
  EXPECT_EQ(DiffOk(JobRun(kWhole), JobRun(kOther)).counts.failing, 2u);
  // One that a side with checkpoints lacks.
  FakeRun lacks(1);
  for (const uint64_t step : {0, 1}) {
    PassBuilder pass = lacks.Pass(0, step);
    Forward(&pass, kWhole, false);
    Forward(&pass, kWhole, true);
    pass.records()->pop_back();
  }
  EXPECT_EQ(DiffOk(JobRun(kWhole), lacks).counts.unpaired_a, 2u);
}

TEST(Recomputed, AnUnfinishedPassMissesThem) {
  FakeRun plain = JobRun({});
  plain.MakePart(0);
  EXPECT_EQ(DiffOk(plain, JobRun(kWhole)).counts.unpaired_b, 2u);
}

TEST(Recomputed, RanksThatArePutTogetherMissThem) {
  const DiffReport report = DiffOk(JobRun({}), JobRun(kWhole, kWhole, 2));
  EXPECT_GT(report.counts.unpaired_b, 0u) << Text(report);
}

}  // namespace
}  // namespace tdump::compare
