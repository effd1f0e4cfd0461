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

enum class Checkpoint { kNone, kKeepsGraph, kReentrant };

struct Job {
  Checkpoint checkpoint = Checkpoint::kNone;
  bool has_first = true;        // the first forward of the layer that is computed anew
  bool lacks_gradient = false;  // that of its output
  Tensor gradient = kWhole;
};

void Anew(PassBuilder* pass) {
  for (size_t i = pass->records()->size() - 2; i < pass->records()->size(); ++i) {
    (*pass->records())[i].key.recompute = true;
    (*pass->records())[i].key.call = 0;
  }
  pass->last_call()->call.recompute = true;
}

void Gradient(PassBuilder* pass, Role role, const Tensor& value, bool anew) {
  pass->End(pass->Begin("fc", "", {{"0", value}}), "fc", "", {});
  io::Record* record = pass->last();
  record->key.role = role;
  record->key.arg = role == Role::kGradInput ? "0" : "";
  record->key.phase = Phase::kBackward;
  record->key.recompute = anew;
  record->key.call = 0;
}

FakeRun JobRun(int32_t ranks, const Job& job) {
  FakeRun run(ranks);
  const bool reentrant = job.checkpoint == Checkpoint::kReentrant;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    PassBuilder pass = run.Pass(rank, 0);
    if (job.has_first) pass.Module("fc", kInput, kWhole);
    pass.Module("head", kWhole, kWhole);
    if (job.checkpoint != Checkpoint::kNone) {
      pass.Module("fc", kInput, kWhole);
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
      EXPECT_THAT(report.notes, Contains("what a checkpoint computed anew in B alone is left out: "
                                         "its first forward is compared"));
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

}  // namespace
}  // namespace tdump::compare
