#include "launch/runtime/active_run.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include <xxhash.h>

#include <fmt/format.h>

#include "coordinator/closing.h"
#include "coordinator/transport_file.h"
#include "filters/topology.h"
#include "io/node_env.h"
#include "io/node_file.h"
#include "launch/config/limits.h"
#include "launch/runtime/farewell.h"
#include "launch/runtime/rule_hints.h"

namespace tdump::launch {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string WorkingDirectory() {
  std::error_code ignored;
  return std::filesystem::current_path(ignored).string();
}

// Where tdump-run was called.
std::string Base() {
  const std::string base = Variable("TDUMP_BASE");
  return base.empty() ? WorkingDirectory() : base;
}

// Relative directories start where tdump-run was called, wherever the job has gone since.
std::string AbsolutePattern(const std::string& pattern, const std::string& base) {
  return pattern.starts_with('/') ? pattern : JoinPath(base, pattern);
}

uint64_t HashOf(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

// Without its section `output`: where it was written makes no other capture.
std::string WithoutOutput(const std::string& yaml) {
  constexpr std::string_view kKey = "output:";
  size_t begin = yaml.starts_with(kKey) ? 0 : yaml.find(fmt::format("\n{}", kKey));
  if (begin == std::string::npos) return yaml;
  begin += begin != 0;  // behind the end of the line before
  size_t end = begin;
  do {
    end = yaml.find('\n', end);
    end = end == std::string::npos ? yaml.size() : end + 1;
  } while (end < yaml.size() && yaml[end] == ' ');
  return yaml.substr(0, begin) + yaml.substr(end);
}

uint64_t WallNs() { return static_cast<uint64_t>(Env::Posix()->WallNs()); }

io::PassFilesOptions FileOptions(const filters::Config& config, uint64_t limit_bytes,
                                 uint64_t world, uint64_t writers) {
  io::PassFilesOptions options;
  using filters::OutputLayout;
  if (config.layout == OutputLayout::kPacked || config.layout == OutputLayout::kNode)
    options.single_files = 0;
  if (config.layout == OutputLayout::kAuto) options.single_files = SingleFiles(world, writers);
  options.durability = static_cast<io::Durability>(config.durability);
  options.direct = config.direct;
  options.ring = config.ring;
  options.ring_bytes = std::max<uint64_t>(limit_bytes / writers, 1);
  return options;
}

uint64_t Writers(const filters::Config& config, int world) {
  return std::max<uint64_t>(SelectedRanks(config, world), 1);
}

// Two nodes of one name, containers among them, do not share a lock.
std::string NodeFileHere(const Identity& identity) {
  const auto boot = ReadFile(Env::Posix(), "/proc/sys/kernel/random/boot_id", 256);
  return io::NodeFileName(identity.host,
                          fmt::format("{:08x}", HashOf(boot.ok() ? *boot : std::string()) >> 32));
}

std::unique_ptr<Env> EnvOfRun(const EffectiveConfig& settings, const Identity& identity) {
  const filters::Config& config = settings.config;
  const bool too_many =
      NeedsNodeFiles(static_cast<uint64_t>(identity.world), Writers(config, identity.world));
  const bool wanted = config.layout == filters::OutputLayout::kNode ||
                      (config.layout == filters::OutputLayout::kAuto && too_many);
  if (!wanted) return io::NewNodeEnv(Env::Posix());
  return io::NewNodeEnv(Env::Posix(),
                        coordinator::ResolveRunPath(RunOptions(settings), identity.job_label),
                        NodeFileHere(identity));
}

}  // namespace

coordinator::RunDirectoryOptions RunOptions(const EffectiveConfig& settings) {
  return {.pattern = AbsolutePattern(settings.config.dir, Base()),
          .error_if_exists = settings.config.error_if_exists,
          .mode = settings.config.mode,
          .config = settings.yaml,
          .start_time = Variable("TDUMP_LAUNCH")};
}

Result<std::unique_ptr<ActiveRun>> ActiveRun::Open(
    const EffectiveConfig& settings, const RankDecision& who,
    std::unique_ptr<coordinator::AgreementTransport> mpi, const OperatorTable* operators) {
  const filters::Config& config = settings.config;
  auto run = std::make_unique<ActiveRun>(EnvOfRun(settings, who.identity));
  run->identity = who.identity;
  run->operators_ = operators;
  run->selected = config.ranks.Contains(who.identity.rank, who.identity.world);
  run->drain_seconds_ = config.drain_seconds;
  run->sync_manifest_ = config.durability != filters::SyncLevel::kNone;

  TDUMP_ASSIGN_OR_RETURN(
      run->directory_,
      coordinator::PrepareRunDirectory(run->run_env.get(), run->identity, RunOptions(settings)));
  run->generation = run->directory_.generation;
  io::FileHeader header;
  header.magic = io::kManifestMagic;
  header.rank = run->identity.rank;
  header.generation = run->generation;
  header.pid = run->identity.pid;
  header.job_hash = HashOf(run->identity.job_key);
  header.created_ns = WallNs();
  TDUMP_ASSIGN_OR_RETURN(
      run->manifest,
      io::ManifestWriter::Create(run->run_env.get(),
                                 JoinPath(run->directory_.rank_directory, "manifest.tdm"), header));
  run->facts = {.identity = run->identity,
                .nodes = who.nodes,
                .run = ShownPath(run->directory_.run, Base()),
                .generation = run->generation,
                .config = config.source,
                .first_step = config.first_step,
                .steps = config.steps,
                .ranks = config.ranks};
  run->config_hash_ = fmt::format("{:016x}", HashOf(WithoutOutput(settings.yaml)));
  run->coordinates_ = filters::CoordinatesOf(config, run->identity.rank, run->identity.world);
  run->started_ns_ = WallNs();
  TDUMP_RETURN_IF_ERROR(run->WriteIdentity());
  for (const std::string& warning : who.warnings) {
    run->Note(warning);
  }
  if (run->selected && config.steps.is_none()) {
    TDUMP_RETURN_IF_ERROR(run->manifest->Append(
        io::NoteSection{0, WallNs(), std::string(coordinator::kNoStepAsked)}));
  }
  run->OpenAgreement(std::move(mpi));
  TDUMP_RETURN_IF_ERROR(run->OpenSink(config, who.local_ranks, operators));
  return run;
}

// A job whose processes talk to each other runs in lockstep: then begin times tell of extra steps.
void ActiveRun::OpenAgreement(std::unique_ptr<coordinator::AgreementTransport> mpi) {
  Env* env = Env::Posix();
  slots = std::make_unique<coordinator::SlotWriter>(
      env, std::move(directory_.slot),
      coordinator::MakeSlotHeader(identity, generation, env->WallNs()));
  std::unique_ptr<coordinator::AgreementTransport> transport = std::move(mpi);
  if (transport == nullptr && identity.world > 1) {
    transport = coordinator::NewFileTransport(
        env, directory_.clock_directory,
        {.rank = identity.rank, .world = identity.world, .generation = generation, .now_ns = [env] {
           return env->MonotonicNs();
         }});
  }
  const bool lockstep = identity.source == "process group" || identity.source == "MPI";
  agreement = std::make_unique<coordinator::Agreement>(
      coordinator::AgreementOptions{
          .rank = identity.rank, .world = identity.world, .lockstep = lockstep},
      std::move(transport), slots.get(), manifest.get());
}

std::string ActiveRun::crumbs() const {
  return JoinPath(directory_.clock_directory, directory_.name + ".crumbs");
}

void ActiveRun::FirstStep(const std::string& rule) noexcept {
  try {
    facts.rule = rule;
    (void)WriteIdentity();
  } catch (...) {  // out of memory: the manifest does not name the rule
  }
}

Status ActiveRun::WriteIdentity() {
  io::IdentitySection entry;
  entry.rank = identity.rank;
  entry.world = identity.world;
  entry.local_rank = identity.local_rank;
  entry.source = identity.source;
  entry.host = identity.host;
  entry.pid = identity.pid;
  entry.start_time = identity.start_time;
  entry.job_key = identity.job_key;
  entry.job_label = identity.job_label;
  entry.program = identity.program;
  entry.generation = generation;
  entry.selected = selected ? 1 : 0;
  entry.started_ns = started_ns_;
  entry.boundary = facts.rule;
  entry.versions = "tdump " TDUMP_VERSION;
  entry.config_hash = config_hash_;
  entry.coordinates = coordinates_;
  if (!coordinates_.empty()) entry.coordinates_source = "config";
  return manifest->Append(entry);
}

Status ActiveRun::OpenSink(const filters::Config& config, int local_ranks,
                           const OperatorTable* operators) {
  const Result<uint64_t> asked = Env::Posix()->FreeBytes(directory_.run);
  const uint64_t free_bytes = asked.ok() ? *asked : 0;
  facts.free_bytes = free_bytes;
  facts.limit_bytes = RunLimitBytes(config.limit_bytes, free_bytes);
  facts.arena_bytes = ArenaBytes(Env::Posix(), config.host_bytes, local_ranks);
  if (!selected) return {};
  const uint64_t writers = Writers(config, identity.world);
  sink = io::CaptureSink::Create(
      run_env.get(), operators, manifest.get(), directory_.rank_directory,
      {.arena_bytes = facts.arena_bytes,
       .at_limit = static_cast<io::AtLimit>(config.full_arena),
       .max_block = static_cast<double>(config.max_block_percent) / 100,
       .thread = config.thread,
       .disk_limit_bytes = std::max<uint64_t>(facts.limit_bytes / writers, 1),
       .files =
           FileOptions(config, facts.limit_bytes, static_cast<uint64_t>(identity.world), writers),
       .report = [rank = identity.rank](const std::string& text) {
         TellUser(fmt::format("rank {}: {}", rank, text));
       }});
  return {};
}

void ActiveRun::Note(const std::string& text) noexcept {
  (void)manifest->Append(io::NoteSection{1, WallNs(), text});
}

void ActiveRun::WriteClose(coordinator::StepClock::Counts counts, std::string how) noexcept {
  (void)manifest->Append(io::CloseSection{WallNs(), counts.steps, counts.passes, std::move(how)});
  if (sync_manifest_) (void)manifest->Sync();
}

void ActiveRun::LeaveMpi(coordinator::StepClock::Counts counts) noexcept {
  if (agreement->transport_name() == "mpi") agreement->LeaveTransport();
  WriteClose(counts, "MPI_Finalize");
}

void ActiveRun::NoteUnmatched(const filters::CompiledPlan& plan) noexcept {
  try {
    for (const std::string& hint : HintsOfUnmatched(plan, *operators_)) Note(hint);
  } catch (...) {  // out of memory: the rules stand as unmatched all the same
  }
}

void ActiveRun::Close(const filters::CompiledPlan& plan,
                      coordinator::StepClock::Counts counts) noexcept {
  if (sink != nullptr)
    sink->Drain(static_cast<int>(std::min(drain_seconds_ * 1000, double{INT_MAX})));
  for (const filters::RuleCount& count : plan.Counts()) {
    (void)manifest->Append(
        io::RuleSection{count.filter_set, count.rule, count.text, count.selector, count.matched});
  }
  if (sink != nullptr && counts.passes != 0) NoteUnmatched(plan);
  if (sink != nullptr && counts.steps != 0 && counts.passes == 0 && !facts.steps.is_none()) {
    (void)manifest->Append(io::NoteSection{
        2, WallNs(),
        fmt::format("no step was written: steps {} are selected, the {} that ran are others",
                    facts.steps.ToString(), counts.steps)});
  }
  const bool open = counts.failed != 0 || counts.undone;
  WriteClose(counts, open ? coordinator::OpenExit(counts.failed) : std::string(coordinator::kExit));
  SayFarewell(io::RunEnv(),
              {.identity = identity,
               .run = directory_.run,
               .clock = directory_.clock_directory,
               .shown = facts.run,
               .generation = generation,
               .steps = counts.steps},
              slots.get());
}

}  // namespace tdump::launch
