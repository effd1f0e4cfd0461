// E20: a job with checkpoints against one without.
#include "compare/recomputed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

enum class Checkpoint { kNone, kKeepsGraph, kReentrant };

struct Job {
  Checkpoint checkpoint = Checkpoint::kNone;
  bool has_first = true;        // the first forward of the layer that is computed anew
  bool lacks_gradient = false;  // that of its output
  Tensor gradient = kWhole;
  // Of the layer.
  Tensor first = kWhole, anew = kWhole;
};

void Anew(PassBuilder* pass) {
  for (size_t i = pass->records()->size() - 2; i < pass->records()->size(); ++i) {
    (*pass->records())[i].key.recompute = true;
    (*pass->records())[i].key.call = 0;
  }
  pass->last_call()->call.recompute = true;
}

void Gradient(PassBuilder* pass, Role role, const Tensor& value, bool anew, uint64_t call = 0) {
  pass->End(pass->Begin("fc", "", {{"0", value}}), "fc", "", {});
  pass->last_call()->call.phase = Phase::kBackward;
  io::Record* record = pass->last();
  record->key.role = role;
  record->key.arg = role == Role::kGradInput ? "0" : "";
  record->key.phase = Phase::kBackward;
  record->key.recompute = anew;
  record->key.call = call;
}

FakeRun JobRun(int32_t ranks, const Job& job) {
  FakeRun run(ranks);
  const bool reentrant = job.checkpoint == Checkpoint::kReentrant;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    PassBuilder pass = run.Pass(rank, 0);
    if (job.has_first) pass.Module("fc", kInput, job.first);
    pass.Module("head", kWhole, kWhole);
    if (job.checkpoint != Checkpoint::kNone) {
      pass.Module("fc", kInput, job.anew);
      Anew(&pass);
    }
    if (!job.lacks_gradient) Gradient(&pass, Role::kGradOutput, job.gradient, reentrant);
    Gradient(&pass, Role::kGradInput, kInput, false);
    // What comes into a checkpoint of this kind is watched in both forwards.
    if (reentrant) Gradient(&pass, Role::kGradInput, kInput, true);
  }
  return run;
}

TEST(Recomputed, AForwardAndItsGradientsMeetThoseOfAJobWithoutCheckpoints) {
  for (const Checkpoint checkpoint : {Checkpoint::kKeepsGraph, Checkpoint::kReentrant}) {
    for (const int32_t ranks : {1, 2}) {
      const FakeRun plain = JobRun(ranks, {}), other = JobRun(1, {.checkpoint = checkpoint});
      const DiffReport report = DiffOk(plain, other), turned = DiffOk(other, plain);
      for (const DiffReport* one : {&report, &turned}) {
        EXPECT_EQ(one->overall, Overall::kSame) << Text(*one);
        EXPECT_EQ(one->counts.paired, 6u) << Text(*one);
        EXPECT_EQ(one->counts.unpaired_a + one->counts.unpaired_b, 0u);
      }
      EXPECT_THAT(report.notes,
                  Contains("what a checkpoint computed anew in B alone is left out: "
                           "it equals a first forward of its name, which is compared"));
      const auto gradients = Contains(HasSubstr("gradients of inputs that came in B alone"));
      if (checkpoint == Checkpoint::kReentrant)
        EXPECT_THAT(report.notes, gradients);
      else
        EXPECT_THAT(report.notes, Not(gradients));
      EXPECT_THAT(turned.notes, Contains(HasSubstr("anew in A alone")));
    }
  }
}

TEST(Recomputed, ThoseOfBothSidesAreCompared) {
  const Job job = {.checkpoint = Checkpoint::kReentrant};
  const DiffReport report = DiffOk(JobRun(1, job), JobRun(1, job));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 9u);
  EXPECT_THAT(report.notes, IsEmpty());
}

TEST(Recomputed, AnotherKindOfCheckpointIsNoDifference) {
  const DiffReport report = DiffOk(JobRun(1, {.checkpoint = Checkpoint::kKeepsGraph}),
                                   JobRun(1, {.checkpoint = Checkpoint::kReentrant}));
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  EXPECT_EQ(report.counts.paired, 8u);
}

TEST(Recomputed, WithoutAFirstForwardItHasNoPartner) {
  const DiffReport report =
      DiffOk(JobRun(1, {.has_first = false}),
             JobRun(1, {.checkpoint = Checkpoint::kKeepsGraph, .has_first = false}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_b, 2u);
}

TEST(Recomputed, GradientsThatDifferOrAreMissingAreFound) {
  const Job wrong = {.checkpoint = Checkpoint::kReentrant, .gradient = kInput};
  EXPECT_EQ(DiffOk(JobRun(1, {}), JobRun(1, wrong)).overall, Overall::kDiffers);
  const Job missing = {.checkpoint = Checkpoint::kReentrant, .lacks_gradient = true};
  const DiffReport report = DiffOk(JobRun(1, {}), JobRun(1, missing));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_a, 1u);
  // Also where both were computed anew.
  const DiffReport both =
      DiffOk(JobRun(1, {.checkpoint = Checkpoint::kReentrant}), JobRun(1, missing));
  EXPECT_EQ(both.overall, Overall::kDiffers);
  EXPECT_EQ(both.counts.unpaired_a, 1u);
}

Tensor WithoutHash(Tensor tensor) {
  tensor.record.hash.reset();
  return tensor;
}

Tensor WithoutValues(Tensor tensor) {
  tensor.record.hash.reset();
  tensor.record.payload.reset();
  tensor.record.parts_kept = kPartMeta;
  return tensor;
}

DiffReport AgainstPlain(const Tensor& first, const Tensor& anew) {
  const Job job = {.checkpoint = Checkpoint::kKeepsGraph, .first = first, .anew = anew};
  return DiffOk(JobRun(1, {.first = first}), JobRun(1, job));
}

// As of a dropout whose random state nobody kept.
TEST(Recomputed, WhatIsComputedOtherwiseThanTheFirstTimeStays) {
  const Tensor other = Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 9});
  const auto without_hash = WithoutHash(kWhole);
  for (const auto& [first, anew] : {std::pair(kWhole, other),
                                    {kWhole, kInput},
                                    {WithHashAlone(kWhole), WithHashAlone(other)},
                                    {without_hash, WithoutHash(other)},
                                    {WithStatisticsAlone(kWhole), WithStatisticsAlone(other)}}) {
    const DiffReport report = AgainstPlain(first, anew);
    EXPECT_EQ(report.overall, Overall::kDiffers) << Text(report);
    EXPECT_EQ(report.counts.unpaired_b, 1u);
    EXPECT_THAT(report.notes,
                Contains("computed otherwise than its first forward in B, or of a forward of "
                         "another step: fc@output#~r"));
  }
  for (const Tensor& equal : {WithHashAlone(kWhole), without_hash}) {
    const DiffReport report = AgainstPlain(equal, equal);
    EXPECT_EQ(report.counts.unpaired_b, 0u) << Text(report);
    EXPECT_THAT(report.notes, Not(Contains(HasSubstr("neither a hash nor values"))));
  }
}

TEST(Recomputed, WhereNoValuesTellThatIsSaid) {
  for (const Tensor& unread : {WithoutValues(kWhole), WithStatisticsAlone(kWhole)}) {
    const DiffReport report = AgainstPlain(unread, unread);
    EXPECT_EQ(report.counts.unpaired_b, 0u) << Text(report);
    EXPECT_THAT(report.notes, Contains(HasSubstr("1 of 2 records have neither a hash nor values")));
  }
}

// A gradient that the other side lost, beside that of another call.
TEST(Recomputed, AGradientOfAnotherCallIsNoReasonToLeaveOneOut) {
  for (const Role role : {Role::kGradOutput, Role::kGradInput}) {
    const auto job = [&](bool reentrant) {
      FakeRun run(1);
      PassBuilder pass = run.Pass(0, 0);
      pass.Module("fc", kInput, kWhole).Module("fc", kWhole, kInput);
      if (reentrant) {
        pass.Module("fc", kWhole, kInput);
        Anew(&pass);
      }
      Gradient(&pass, role, kInput, false);
      if (reentrant) Gradient(&pass, role, kWhole, true);
      return run;
    };
    const DiffReport report = DiffOk(job(false), job(true));
    EXPECT_EQ(report.overall, Overall::kDiffers) << Text(report);
    EXPECT_EQ(report.counts.unpaired_b, 1u) << Text(report);
  }
}

Tensor Value(size_t i) { return Matrix(1, 1, {static_cast<float>(i)}); }

// A layer that is called three times, each in a checkpoint: backward begins with the last one.
void Loop(bool reentrant, bool forwards_tell, PassBuilder pass) {
  const auto forward = [&](size_t i) {
    const size_t value = forwards_tell ? i : 0;
    pass.Module("fc", Value(value), Value(value + 10));
  };
  for (size_t i = 0; i < 3; ++i) forward(i);
  for (size_t i = 3; i-- > 0;) {
    if (reentrant) {
      forward(i);
      Anew(&pass);
      for (size_t k = pass.records()->size() - 2; k < pass.records()->size(); ++k)
        (*pass.records())[k].key.call = 2 - i;
      pass.last_call()->call.index = 2 - i;
    }
    Gradient(&pass, Role::kGradOutput, Value(20 + i), reentrant, reentrant ? 2 - i : i);
    Gradient(&pass, Role::kGradInput, Value(30 + i), false, i);
    if (reentrant) Gradient(&pass, Role::kGradInput, Value(40 + i), true, 2 - i);
  }
}

FakeRun LoopRun(bool reentrant, bool forwards_tell, int32_t ranks = 1) {
  FakeRun run(ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) Loop(reentrant, forwards_tell, run.Pass(rank, 0));
  return run;
}

TEST(Recomputed, GradientsOfALoopMeetThoseOfTheirCall) {
  for (const int32_t ranks : {1, 2}) {
    const FakeRun plain = LoopRun(false, true), reentrant = LoopRun(true, true, ranks);
    for (const DiffReport& report : {DiffOk(plain, reentrant), DiffOk(reentrant, plain)}) {
      EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
      EXPECT_EQ(report.counts.paired, 12u);
      EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u);
    }
  }
  // Where it cannot be told which call one is of, it meets none.
  const DiffReport unknown = DiffOk(LoopRun(false, false), LoopRun(true, false));
  EXPECT_EQ(unknown.overall, Overall::kDiffers);
  EXPECT_EQ(unknown.counts.paired, 9u) << Text(unknown);
  EXPECT_EQ(unknown.counts.failing, 0u) << Text(unknown);
  EXPECT_EQ(unknown.counts.unpaired_a, 3u);
  EXPECT_EQ(unknown.counts.unpaired_b, 6u);
}

// Of which no tensor is recorded.
void Forward(PassBuilder* pass, uint32_t micro, uint64_t index, bool anew) {
  pass->End(pass->Begin("fc", "", {}), "fc", "", {});
  Call& call = pass->last_call()->call;
  call.micro = micro;
  call.index = index;
  call.recompute = anew;
}

FakeRun GradientsRun(bool reentrant, uint64_t calls) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  for (const uint32_t micro : {0, 1}) {
    for (uint64_t i = 0; i < calls; ++i) Forward(&pass, micro, i, false);
    if (reentrant) Forward(&pass, micro, 0, true);
    const auto gradient = [&](Role role, const Tensor& value, bool anew) {
      Gradient(&pass, role, value, anew);
      pass.last()->key.micro = micro;
    };
    gradient(Role::kGradOutput, Value(micro), reentrant);
    gradient(Role::kGradInput, Value(10 + micro), false);
    if (reentrant) gradient(Role::kGradInput, Value(20 + micro), true);
  }
  return run;
}

TEST(Recomputed, GradientsAloneAreOfTheOnlyCallOfTheirMicroBatch) {
  const DiffReport report = DiffOk(GradientsRun(false, 1), GradientsRun(true, 1));
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  EXPECT_EQ(report.counts.paired, 4u) << Text(report);
  // Of two calls it may be either.
  const DiffReport two = DiffOk(GradientsRun(false, 2), GradientsRun(true, 2));
  EXPECT_EQ(two.overall, Overall::kDiffers) << Text(two);
  EXPECT_EQ(two.counts.unpaired_b, 2u) << Text(two);
}

}  // namespace
}  // namespace tdump::compare
