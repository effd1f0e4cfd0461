#include "coordinator/identity.h"

#include <algorithm>
#include <optional>

#include "coordinator/job_key.h"
#include "core/parse_number.h"

namespace tdump::coordinator {
namespace {

// Variables of one launcher. Sizes: the first that is set counts.
struct Family {
  const char* source;
  const char* rank;
  std::vector<const char*> sizes;
  std::vector<const char*> local_ranks;
};

const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      {"torchrun", "RANK", {"WORLD_SIZE"}, {"LOCAL_RANK"}},
      {"PMIx", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_LOCAL_RANK"}},
      {"PMIx",
       "PMIX_RANK",
       {"PMIX_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       {"PMIX_LOCAL_RANK", "SLURM_LOCALID"}},
      {"PMI", "PMI_RANK", {"PMI_SIZE"}, {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"}},
      {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {"SLURM_LOCALID"}},
  };
  return families;
}

const std::string* Find(const Environment& environment, const char* name) {
  auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

// Decimal digits only, the whole text, in range.
std::optional<int32_t> ParseCount(const std::string& text) {
  return text.starts_with('-') ? std::nullopt : ParseNumber<int32_t>(text);
}

struct Named {
  const char* name = nullptr;
  const std::string* text = nullptr;
};

Named FirstSet(const Environment& environment, const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (const std::string* text = Find(environment, name)) return {name, text};
  }
  return {};
}

// Values of variables may be anything: what is long is cut, what cannot be printed becomes `?`.
std::string Quoted(const char* name, const std::string& text) {
  constexpr size_t kShown = 80;
  std::string shown = text.substr(0, kShown);
  for (char& c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) c = '?';
  }
  return std::string(name) + "='" + shown + (text.size() > kShown ? "...'" : "'");
}

// A batch script of Slurm sees the variables of its first task, but is no task of a step.
bool IsBatchScript(const Environment& environment, const Family& family) {
  return std::string_view(family.rank) == "SLURM_PROCID" &&
         Find(environment, "SLURM_JOB_ID") != nullptr &&
         FirstSet(environment, {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"}).name ==
             nullptr;
}

int32_t LocalRank(const Environment& environment, const Family& family, int32_t world,
                  std::vector<std::string>* warnings) {
  const Named local = FirstSet(environment, family.local_ranks);
  if (local.name == nullptr) return 0;
  const std::optional<int32_t> value = ParseCount(*local.text);
  if (value && *value < world) return *value;
  warnings->push_back(Quoted(local.name, *local.text) + " is not a local rank (0 to " +
                      std::to_string(world - 1) + "); ignored");
  return 0;
}

std::optional<LauncherRank> Read(const Environment& environment, const Family& family,
                                 std::vector<std::string>* warnings) {
  const std::string* rank_text = Find(environment, family.rank);
  if (rank_text == nullptr || IsBatchScript(environment, family)) return {};
  const Named size = FirstSet(environment, family.sizes);
  const std::string instead = "; these variables are not used for the rank";
  const std::optional<int32_t> rank = ParseCount(*rank_text);
  if (!rank) {
    warnings->push_back(Quoted(family.rank, *rank_text) + " is not a rank (expected 0, 1, 2, ...)" +
                        instead);
    return {};
  }
  if (size.name == nullptr) {
    warnings->push_back(Quoted(family.rank, *rank_text) + " is set, but not " +
                        family.sizes.front() + instead);
    return {};
  }
  const std::optional<int32_t> world = ParseCount(*size.text);
  if (!world || *world == 0) {
    warnings->push_back(Quoted(size.name, *size.text) +
                        " is not a number of ranks (expected 1, 2, 3, ...)" + instead);
    return {};
  }
  if (*rank >= *world) {
    warnings->push_back(Quoted(family.rank, *rank_text) + " contradicts " +
                        Quoted(size.name, *size.text) + instead);
    return {};
  }
  return LauncherRank{*rank, *world, LocalRank(environment, family, *world, warnings),
                      family.source};
}

std::string Describe(int32_t rank, int32_t world) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(world);
}

// Contradictions worth a line: MPI found only itself although the scheduler started several tasks;
// RANK by hand under mpirun says otherwise than mpirun.
void WarnOfContradictions(const Environment& environment, const Identity& identity,
                          std::vector<std::string>* warnings) {
  std::vector<std::string> silent;
  for (const Family& family : Families()) {
    const std::optional<LauncherRank> other = Read(environment, family, &silent);
    if (!other) continue;
    const bool same = other->rank == identity.rank && other->world == identity.world;
    const bool mpi_alone = identity.source == "MPI" && identity.world == 1 && other->world > 1;
    const bool by_hand = identity.source == "torchrun" && other->source == "PMIx" &&
                         Find(environment, "TORCHELASTIC_RUN_ID") == nullptr;
    if (same || !(mpi_alone || by_hand)) continue;
    warnings->push_back(identity.source + " says " + Describe(identity.rank, identity.world) +
                        " but " + other->source + " says " + Describe(other->rank, other->world) +
                        "; using " + identity.source +
                        (mpi_alone ? ": is the MPI library the one the launcher supports?" : ""));
    return;
  }
}

void ApplyOverride(const Environment& environment, LauncherRank* rank,
                   std::vector<std::string>* warnings) {
  const std::string* text = Find(environment, "TDUMP_RANK");
  if (text == nullptr) return;
  const std::optional<int32_t> value = ParseCount(*text);
  if (!value) {
    warnings->push_back(Quoted("TDUMP_RANK", *text) +
                        " is not a rank (expected 0, 1, 2, ...); ignored");
    return;
  }
  rank->rank = *value;
  rank->world = std::max(rank->world, *value + 1);
  rank->source = "TDUMP_RANK";
}

}  // namespace

IdentityHooks HooksFrom(const Boundary& boundary) {
  IdentityHooks hooks;
  if (boundary.kind == BoundaryKind::kProcessGroup)
    hooks.process_group = {boundary.rank, boundary.world};
  if (boundary.kind == BoundaryKind::kMpiInit) hooks.mpi = {boundary.rank, boundary.world};
  return hooks;
}

LauncherRank RankFromEnvironment(const Environment& environment,
                                 std::vector<std::string>* warnings) {
  LauncherRank result;
  for (const Family& family : Families()) {
    if (std::optional<LauncherRank> found = Read(environment, family, warnings)) {
      result = *found;
      break;
    }
  }
  return result;
}

DetectedIdentity DetectIdentity(const Environment& environment, const ProcessFacts& facts,
                                const IdentityHooks& hooks) {
  DetectedIdentity result;
  LauncherRank rank = RankFromEnvironment(environment, &result.warnings);
  const auto use = [&rank](const LibraryRank& library, const char* source) {
    if (library.rank < 0 || library.world <= library.rank) return false;
    rank.rank = library.rank;
    rank.world = library.world;
    rank.source = source;
    return true;
  };
  if (!use(hooks.process_group, "process group")) use(hooks.mpi, "MPI");
  ApplyOverride(environment, &rank, &result.warnings);

  Identity& identity = result.identity;
  identity.rank = rank.rank;
  identity.world = rank.world;
  identity.local_rank = rank.local_rank;
  identity.source = rank.source;
  identity.host = facts.host;
  identity.pid = facts.self.pid;
  identity.start_time = facts.self.start;
  identity.program = facts.program;
  WarnOfContradictions(environment, identity, &result.warnings);
  const JobKey job = FindJobKey(environment, facts, identity.world, &result.warnings);
  identity.job_key = job.key;
  identity.job_label = job.label;
  return result;
}

}  // namespace tdump::coordinator
