#include "coordinator/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::coordinator {
namespace {

using testing::HasSubstr;

const Environment kOpenMpi3of4 = {{"OMPI_COMM_WORLD_RANK", "3"},
                                  {"OMPI_COMM_WORLD_SIZE", "4"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};

Environment Join(Environment a, const Environment& b) {
  a.insert(b.begin(), b.end());
  return a;
}

struct Row {
  const char* what;
  Environment environment;
  int rank, world, local;
  const char* source;
  const char* warning;  // "" = none
};

// The documented order, and what is not a rank.
const Row kRows[] = {
    {"nothing", {}, 0, 1, 0, "none", ""},
    {"torchrun",
     {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}},
     5,
     8,
     1,
     "torchrun",
     ""},
    {"mpirun", kOpenMpi3of4, 3, 4, 1, "PMIx", ""},
    {"srun --mpi=pmix",
     {{"PMIX_RANK", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "2"}},
     2,
     4,
     2,
     "PMIx",
     ""},
    {"mpiexec.hydra",
     {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}},
     1,
     2,
     1,
     "PMI",
     ""},
    {"srun",
     {{"SLURM_PROCID", "6"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "2"}},
     6,
     8,
     2,
     "Slurm",
     ""},
    {"srun in a larger allocation",
     {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}},
     1,
     2,
     0,
     "Slurm",
     ""},
    {"batch script",
     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}},
     0,
     1,
     0,
     "none",
     ""},
    {"mpirun inside an allocation",
     Join(kOpenMpi3of4, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}}), 3,
     4, 1, "PMIx", ""},
    {"Slurm around torchrun",
     {{"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"LOCAL_RANK", "1"},
      {"TORCHELASTIC_RUN_ID", "x"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "1"},
      {"SLURM_STEP_ID", "0"}},
     1,
     2,
     1,
     "torchrun",
     ""},
    {"torchrun under mpirun -n 1",
     {{"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"TORCHELASTIC_RUN_ID", "x"},
      {"OMPI_COMM_WORLD_RANK", "0"},
      {"OMPI_COMM_WORLD_SIZE", "1"}},
     1,
     2,
     0,
     "torchrun",
     ""},
    {"RANK by hand against mpirun", Join(kOpenMpi3of4, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), 0, 1,
     0, "torchrun", "torchrun says rank 0 of 1 but PMIx says rank 3 of 4"},
    {"empty", {{"RANK", ""}, {"WORLD_SIZE", "2"}}, 0, 1, 0, "none", "RANK='' is not a rank"},
    {"negative", {{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, 0, 1, 0, "none", "RANK='-1' is not a rank"},
    {"not a number",
     {{"PMI_RANK", "one"}, {"PMI_SIZE", "2"}},
     0,
     1,
     0,
     "none",
     "PMI_RANK='one' is not a rank"},
    {"half a number",
     {{"PMI_RANK", "1x"}, {"PMI_SIZE", "2"}},
     0,
     1,
     0,
     "none",
     "PMI_RANK='1x' is not a rank"},
    {"sign", {{"RANK", "+1"}, {"WORLD_SIZE", "2"}}, 0, 1, 0, "none", "RANK='+1' is not a rank"},
    {"blank", {{"RANK", " 1"}, {"WORLD_SIZE", "2"}}, 0, 1, 0, "none", "RANK=' 1' is not a rank"},
    {"too large",
     {{"RANK", "4294967296"}, {"WORLD_SIZE", "2"}},
     0,
     1,
     0,
     "none",
     "RANK='4294967296' is not a rank"},
    {"size missing", {{"RANK", "1"}}, 0, 1, 0, "none", "RANK='1' is set, but not WORLD_SIZE"},
    {"size of nothing",
     {{"RANK", "0"}, {"WORLD_SIZE", "0"}},
     0,
     1,
     0,
     "none",
     "WORLD_SIZE='0' is not a number of ranks"},
    {"size bad",
     {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "two"}},
     0,
     1,
     0,
     "none",
     "SLURM_NTASKS='two' is not a number of ranks"},
    {"contradictory",
     {{"RANK", "4"}, {"WORLD_SIZE", "4"}},
     0,
     1,
     0,
     "none",
     "RANK='4' contradicts WORLD_SIZE='4'"},
    {"bad inner, good outer", Join(kOpenMpi3of4, {{"RANK", "x"}, {"WORLD_SIZE", "4"}}), 3, 4, 1,
     "PMIx", "RANK='x' is not a rank"},
    {"local rank bad",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "7"}},
     1,
     2,
     0,
     "torchrun",
     "LOCAL_RANK='7' is not a local rank"},
    {"said by hand", {{"TDUMP_RANK", "2"}}, 2, 3, 0, "TDUMP_RANK", ""},
    {"said by hand, badly",
     {{"TDUMP_RANK", "two"}},
     0,
     1,
     0,
     "none",
     "TDUMP_RANK='two' is not a rank"},
};

TEST(Identity, NonsenseIsQuotedShortAndPrintable) {
  const DetectedIdentity detected =
      DetectIdentity({{"TDUMP_RANK", "\xff\n" + std::string(65536, 'x')}}, {}, {});
  ASSERT_FALSE(detected.warnings.empty());
  EXPECT_THAT(detected.warnings.front(),
              HasSubstr("TDUMP_RANK='??" + std::string(78, 'x') + "...' is not a rank"));
}

TEST(Identity, Environment) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    const DetectedIdentity detected = DetectIdentity(row.environment, {}, {});
    EXPECT_EQ(detected.identity.rank, row.rank);
    EXPECT_EQ(detected.identity.world, row.world);
    EXPECT_EQ(detected.identity.local_rank, row.local);
    EXPECT_EQ(detected.identity.source, row.source);
    const std::string warning = detected.warnings.empty() ? "" : detected.warnings.front();
    if (*row.warning == '\0') {
      EXPECT_EQ(warning, "");
    } else {
      EXPECT_THAT(warning, HasSubstr(row.warning));
    }
  }
}

TEST(Identity, LibrariesSayMoreThanVariables) {
  IdentityHooks hooks;
  hooks.mpi = {1, 2};
  EXPECT_EQ(DetectIdentity(kOpenMpi3of4, {}, hooks).identity.source, "MPI");
  EXPECT_EQ(DetectIdentity(kOpenMpi3of4, {}, hooks).identity.rank, 1);
  hooks.process_group = {5, 8};
  const Identity identity = DetectIdentity(kOpenMpi3of4, {}, hooks).identity;
  EXPECT_EQ(identity.source, "process group");
  EXPECT_EQ(identity.rank, 5);
  EXPECT_EQ(identity.world, 8);
  hooks.process_group = {9, 8};  // nonsense
  EXPECT_EQ(DetectIdentity(kOpenMpi3of4, {}, hooks).identity.source, "MPI");
}

// MPI does not know the launcher, every process believes it is alone.
TEST(Identity, MpiAloneUnderAScheduler) {
  IdentityHooks hooks;
  hooks.mpi = {0, 1};
  const DetectedIdentity detected = DetectIdentity(
      {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}}, {}, hooks);
  EXPECT_EQ(detected.identity.rank, 0);
  EXPECT_EQ(detected.identity.world, 1);
  ASSERT_EQ(detected.warnings.size(), 1u);
  EXPECT_THAT(detected.warnings[0], HasSubstr("MPI says rank 0 of 1 but Slurm says rank 1 of 2"));
}

TEST(Identity, FactsOfTheProcess) {
  ProcessFacts facts;
  facts.host = "node7";
  facts.self = {42, 777};
  facts.program = "python train.py";
  const Identity identity = DetectIdentity({}, facts, {}).identity;
  EXPECT_EQ(identity.host, "node7");
  EXPECT_EQ(identity.pid, 42);
  EXPECT_EQ(identity.start_time, 777u);
  EXPECT_EQ(identity.program, "python train.py");
}

TEST(ProcessFacts, OfThisProcess) {
  const ProcessFacts facts = CurrentFacts();
  EXPECT_EQ(facts.self.pid, ::getpid());
  EXPECT_GT(facts.self.start, 0u);
  EXPECT_TRUE(IsAlive(facts.self));
  EXPECT_TRUE(IsAlive(facts.parent));
  EXPECT_FALSE(IsAlive({facts.self.pid, facts.self.start + 1}));  // a reused pid
  EXPECT_THAT(facts.program, HasSubstr("coordinator_test"));
}

}  // namespace
}  // namespace tdump::coordinator
