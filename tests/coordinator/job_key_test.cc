#include "coordinator/job_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::coordinator {
namespace {

ProcessFacts Facts() {
  ProcessFacts facts;
  facts.host = "n1";
  facts.self = {50, 500};
  facts.parent = {40, 400};
  facts.agent = {30, 300};
  return facts;
}

struct Row {
  const char* what;
  Environment environment;
  int world;
  const char* key;
  const char* label;
};

const Row kRows[] = {
    {"alone", {}, 1, "process n1 50:500", ""},
    {"named",
     {{"TDUMP_JOB", "port"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}},
     4,
     "job port",
     "port"},
    {"mpirun",
     {{"OMPI_COMM_WORLD_RANK", "0"},
      {"OMPI_MCA_orte_precondition_transports", "8cd3-d0cc"},
      {"PMIX_NAMESPACE", "1450"}},
     4,
     "openmpi 8cd3-d0cc",
     "1450"},
    {"mpirun in an allocation",
     {{"OMPI_COMM_WORLD_RANK", "0"},
      {"OMPI_MCA_orte_precondition_transports", "8cd3-d0cc"},
      {"PMIX_NAMESPACE", "1450"},
      {"SLURM_JOB_ID", "8123456"},
      {"SLURM_STEP_ID", "0"}},
     4,
     "openmpi 8cd3-d0cc",
     "8123456"},
    {"srun",
     {{"SLURM_JOB_ID", "8123456"}, {"SLURM_STEP_ID", "0"}},
     4,
     "slurm 8123456.0",
     "8123456.0"},
    {"srun, requeued",
     {{"SLURM_JOB_ID", "8"}, {"SLURM_STEPID", "1"}, {"SLURM_RESTART_COUNT", "2"}},
     4,
     "slurm 8.1.2",
     "8.1"},
    {"another PMIx launcher",
     {{"PMIX_RANK", "1"},
      {"PMIX_NAMESPACE", "prte-7"},
      {"PMIX_SERVER_URI2", "prte-0.1;tcp4://10.0.0.2:99"}},
     4,
     "pmix prte-7 server prte-0",
     "prte-7"},
    {"torchrun",
     {{"TORCHELASTIC_RUN_ID", "r12"}, {"TORCHELASTIC_RESTART_COUNT", "0"}},
     4,
     "torchrun r12 restart 0",
     "r12"},
    {"torchrun, restarted",
     {{"TORCHELASTIC_RUN_ID", "r12"}, {"TORCHELASTIC_RESTART_COUNT", "1"}},
     4,
     "torchrun r12 restart 1",
     "r12"},
    {"torchrun without an id",
     {{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
     2,
     "torchrun none n1 30:300",
     "torchrun-30"},
    {"restart of a named torchrun",
     {{"TDUMP_JOB", "x"}, {"TORCHELASTIC_RESTART_COUNT", "3"}},
     2,
     "job x restart 3",
     "x"},
    {"mp.spawn", {}, 4, "parent n1 40:400", "pid40"},
    {"tdump-run alone",
     {{"TDUMP_LAUNCH", "20261127-1-9"}},
     1,
     "tdump-run 20261127-1-9",
     "20261127-1-9"},
};

TEST(JobKey, Table) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    std::vector<std::string> warnings;
    const JobKey job = FindJobKey(row.environment, Facts(), row.world, &warnings);
    EXPECT_EQ(job.key, row.key);
    EXPECT_EQ(job.label, row.label);
    EXPECT_TRUE(warnings.empty());
  }
}

TEST(JobKey, TorchrunOnSeveralNodesMustBeNamed) {
  std::vector<std::string> warnings;
  const JobKey job = FindJobKey({{"TORCHELASTIC_RUN_ID", "none"},
                                 {"WORLD_SIZE", "8"},
                                 {"LOCAL_WORLD_SIZE", "4"},
                                 {"MASTER_ADDR", "n1"},
                                 {"MASTER_PORT", "29500"}},
                                Facts(), 8, &warnings);
  EXPECT_EQ(job.key, "torchrun none n1:29500");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], testing::HasSubstr("TDUMP_JOB"));
}

TEST(JobKey, SiblingsFromAnInteractiveShellAreNotOneJob) {
  ProcessFacts facts = Facts();
  facts.parent_is_interactive_shell = true;
  std::vector<std::string> warnings;
  EXPECT_EQ(FindJobKey({}, facts, 2, &warnings).key, "process n1 50:500");
}

}  // namespace
}  // namespace tdump::coordinator
