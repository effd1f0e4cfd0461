#include "tools/diff_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string_view>

#include "compare/diff.h"
#include "compare/draft_map.h"
#include "compare/nan_search.h"
#include "compare/report.h"
#include "compare/report_lines.h"
#include "core/text.h"
#include "tools/diff_hints.h"
#include "tools/diff_reports.h"
#include "tools/diff_source.h"
#include "tools/mpi_team.h"
#include "tools/near_names.h"
#include "tools/noise_runs.h"
#include "tools/progress_line.h"
#include "tools/replica_source.h"
#include "tools/strict.h"

namespace tdump::tools {
namespace {

constexpr const char* kTool = "tdump-diff";

constexpr int kExitBisectSkip = 125;  // what git bisect run takes for "cannot be tested"

constexpr const char* kAbout =
    "Compare two captured runs, operator by operator, and name the first one whose inputs agree "
    "and\n"
    "outputs do not: which rank, which step, which operator.\n"
    "A and B are runs (a directory, 'latest', RUN@GENERATION), single ranks (RUN/rank0 "
    "RUN/rank2),\n"
    "addresses (RUN:STEP/RANK/NAME), or what other tools dumped (SGLang, phyai, msprobe; .pt, "
    ".npy, "
    ".npz,\n"
    ".safetensors).";

constexpr const char* kTeach =
    "How it judges: records are paired by step, rank and name. Equal hashes are not read. The rest "
    "is\n"
    "read once and given five verdicts that are never merged: shape, dtype, bitwise, tolerance, "
    "special\n"
    "values (NaN, infinity). An element is within tolerance when |a - b| is at most a few "
    "roundings of\n"
    "the coarser dtype; the bound is printed. Parameters known by hash only are reported and "
    "decide\n"
    "only with --require bitwise, or when no operator was compared.\n"
    "\n"
    "Examples:\n"
    "  tdump-diff runs/clean runs/suspect          which rank and operator went wrong first\n"
    "  tdump-diff --require bitwise RUN@0 RUN@1    is the job deterministic from start to start?\n"
    "  tdump-diff RUN --across dp                  are the replicas of all ranks still equal?\n"
    "  tdump-diff RUN/rank0 RUN/rank2              two ranks that were given the same input\n"
    "  tdump-diff A B --steps 0-4 --ranks 0-7      only these; --steps 0-4=10-14 when B counts "
    "otherwise\n"
    "  tdump-diff A B --steps auto                 steps that were given the same token ids\n"
    "  tdump-diff golden.npy RUN:3/0/mlp           one file against one operator\n"
    "  tdump-diff runs/one runs/tp4                other numbers of ranks: shards are put "
    "together\n"
    "  tdump-diff runs/one runs/ddp4 --topology B:dp=4     4 data parallel ranks, where the "
    "capture\n"
    "                                              does not say so\n"
    "  tdump-diff runs/hf runs/mcore --map hf-megatron     other names and layouts as well\n"
    "  tdump-diff A B --dims 'B:mlp.fc1: s b h[tp]'        how ranks share a tensor, where it is "
    "not\n"
    "                                              to be inferred\n"
    "  tdump-diff A B --select 'layers\\.3\\.'       only names that match\n"
    "  tdump-diff A B --html report.html           to look at: map, curve, every operator\n"
    "  tdump-diff A B --jsonl all.jsonl --json     every pair as a line; the verdict as a "
    "document\n"
    "\n"
    "Exit status: 0 same, 1 differs, 2 trouble, damaged files, nothing comparable, or a run with "
    "'strict:\n"
    "true' that is incomplete.\n"
    "See also: tdump-view A, tdump-view A:STEP/RANK/NAME --values 4";

int ExitStatus(const compare::DiffReport& report) {
  switch (report.overall) {
    case compare::Overall::kSame:
      return kExitOk;
    case compare::Overall::kDiffers:
      return kExitDiffers;
    case compare::Overall::kNotComparable:
    case compare::Overall::kDamaged:
      break;
  }
  return kExitTrouble;
}

// Of what is the same on both sides, which hashes alone do not tell; in place of a note about the
// pairs that were read, where those are not all.
void AddNanNote(const DiffSources& sources, const compare::DiffOptions& diff,
                compare::DiffReport* report) {
  const compare::Counts& counts = report->counts;
  // Of ranks that are put together pairs are counted, which the search does not know.
  const bool all_read =
      counts.nan_on_both > 0 && (counts.read == counts.paired || report->job.has_value());
  if (report->overall != compare::Overall::kSame || all_read) return;
  // Where a rule that was used allows NaN, what B has tells nothing of A.
  const auto allows_nan = [](const compare::BoundRule* rule) { return rule->judges_nan(); };
  if (std::any_of(report->rules_used.begin(), report->rules_used.end(), allows_nan)) return;
  const auto found = compare::FindNan(*sources.b.side, *report, diff);
  if (!found || found->records < counts.nan_on_both) return;
  std::erase_if(report->notes, [](const std::string& note) { return compare::IsNanNote(note); });
  const std::string address = compare::AddressOf(sources.b.side->Describe());
  report->notes.push_back(
      compare::NanNote(*found) +
      (address.empty()
           ? ""
           : fmt::format("; where they come from: tdump-view {} --nan", ShellWord(address))));
}

// A run that was asked to be whole and is not. Told whatever else is.
bool HasForbiddenHole(const LoadedRun& run) {
  if (run.index.complete() || !IsStrict(run.store->run())) return false;
  Fail(kTool,
       run.label + " is incomplete and its configuration says strict: " + run.index.holes.front());
  return true;
}

}  // namespace

DiffCommand::DiffCommand() : options_(kTool, kAbout, kTeach) { settings_.AddTo(&options_); }

int DiffCommand::Run(int argc, char** argv) {
  const int status = Compare(argc, argv);
  const bool bisect = std::any_of(argv, argv + argc, [](const char* argument) {
    return std::string_view(argument) == "--bisect";
  });
  return bisect && status == kExitTrouble ? kExitBisectSkip : status;
}

namespace {

// Where ranks are put together the passes of all are open at a time, and 1,024 files are often all
// that a shell allows by default.
void AllowManyFiles() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // else what cannot be opened is told
}

}  // namespace

// What options say against --suggest-map, which compares nothing and prints YAML; or "".
std::string DiffCommand::Contradiction() const {
  if (!settings_.suggest_map) return "";
  for (const auto& [given, option] : {std::pair(options_.common.json, "--json"),
                                      {!settings_.html.empty(), "--html"},
                                      {!settings_.jsonl.empty(), "--jsonl"}}) {
    if (given)
      return fmt::format(
          "--suggest-map and {}: a map is drafted as YAML on standard output, and "
          "nothing is compared; leave out one of them",
          option);
  }
  return "";
}

int DiffCommand::Compare(int argc, char** argv) {
  if (const auto status = options_.Parse(argc, argv)) return *status;
  if (const std::string mistake = Contradiction(); !mistake.empty()) return Fail(kTool, mistake);
  AllowManyFiles();
  (void)std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its write
  auto diff = settings_.ForEngine(&watched_);
  if (!diff.ok()) return Fail(kTool, diff.status().message());
  if (!settings_.mpi) return CompareSides(&*diff);
  const auto team = OpenMpiTeam();
  if (!team.ok()) return Fail(kTool, team.status().message());
  diff->team = team->get();
  const int status = CompareSides(&*diff);
  const Result<int> of_all = (*team)->Largest(IsFirst(*diff) ? status : kExitOk);
  return of_all.ok() ? *of_all : Fail(kTool, of_all.status().message());
}

bool DiffCommand::IsFirst(const compare::DiffOptions& diff) {
  return diff.team == nullptr || diff.team->rank() == 0;
}

// Whether all processes are; where the first is not, only it says why.
bool DiffCommand::AllAreReady(const compare::DiffOptions& diff, const Status& status) {
  const int trouble = status.ok() ? 0 : IsFirst(diff) ? 2 : 1;
  int worst = trouble;
  if (diff.team != nullptr) {
    const Result<int> of_all = diff.team->Largest(trouble);
    worst = of_all.ok() ? *of_all : 2;
  }
  if (trouble != 0 && trouble == worst) Fail(kTool, status.message());
  return worst == 0;
}

std::vector<std::string> DiffCommand::UnusedRules(const compare::DiffOptions& diff,
                                                  const compare::DiffReport& report) {
  std::vector<std::string> unused;
  if (diff.pass.rules == nullptr) return unused;
  int64_t index = 0;
  while (const compare::BoundRule* rule = diff.pass.rules->At(index++)) {
    if (!report.rules_used.contains(rule)) unused.push_back(rule->where);
  }
  return unused;
}

// What was asked for and had nothing to do.
void DiffCommand::NoteUnused(const compare::DiffOptions& diff, const DiffSources& sources,
                             compare::DiffReport* report) const {
  const bool comparable = report->overall != compare::Overall::kNotComparable;
  if (!comparable && !diff.pass.select) return;
  for (const auto& [text, pattern] : watched_.AllUnused()) {
    if (!comparable && !text.starts_with("--select")) continue;
    report->notes.push_back(text + " had nothing to do: it matches no name that it applies to" +
                            NearText({sources.a.run.get(), sources.b.run.get()}, pattern));
  }
  if (!comparable) return;
  for (const std::string& where : UnusedRules(diff, *report))
    report->notes.push_back("rule " + where +
                            " decided nothing: it matches no name, or an earlier rule does");
}

int DiffCommand::SuggestMap(const compare::DiffOptions& diff, const compare::RunSide& a,
                            const compare::RunSide& b) {
  const auto draft = compare::DraftMap(a, b, diff.pairing, diff.shipped_maps());
  if (!draft.ok()) return Fail(kTool, draft.status().message());
  if (IsFirst(diff)) Print(*draft);
  return kExitOk;
}

int DiffCommand::CompareSides(compare::DiffOptions* diff) {
  DiffReports reports(settings_.jsonl, settings_.html, settings_.values);
  DiffSources sources;
  const auto prepare = [&]() -> Status {
    // Every process of a team takes the way on which all rows are found; the first one writes.
    if (IsFirst(*diff))
      TDUMP_RETURN_IF_ERROR(reports.Begin(diff));
    else if (!settings_.jsonl.empty() || !settings_.html.empty())
      diff->on_row = [](const compare::Row&) {};
    if (settings_.across.empty()) {
      TDUMP_ASSIGN_OR_RETURN(sources, OpenDiffSources(settings_.a, settings_.b.front()));
      if (settings_.steps != "all" && (sources.a.picked || sources.b.picked))
        return InvalidArgument("--steps: the address names a step already");
    } else {
      TDUMP_ASSIGN_OR_RETURN(sources, OpenReplicas(settings_.a, settings_.across,
                                                   diff->job ? diff->job->topology_a : ""));
      diff->job.reset();  // rank is compared with rank
      diff->across = settings_.across;
    }
    return {};
  };
  if (!AllAreReady(*diff, prepare())) return kExitTrouble;
  ProgressLine line(std::string(kTool) + ": step and rank", ::isatty(STDERR_FILENO) == 1);
  if (!options_.common.quiet && IsFirst(*diff))
    diff->on_progress = [&](const compare::Progress& progress) {
      const bool comparing = progress.doing == compare::Progress::Doing::kComparing;
      ProgressPart part;
      if (progress.all > 0)
        part = {.what = comparing ? "pairs compared" : "tensors put together",
                .done = progress.done,
                .all = progress.all,
                .last = comparing};
      line.Show(progress.passes_done, progress.passes, part);
    };

  if (settings_.suggest_map) return SuggestMap(*diff, *sources.a.side, *sources.b.side);
  if (!settings_.noise.empty()) {
    auto noise = MeasureNoise(*sources.a.side, settings_.noise, *diff);
    if (!AllAreReady(*diff, noise.status())) return kExitTrouble;
    diff->pass.noise = std::move(*noise);
  }
  auto report = compare::Diff(*sources.a.side, *sources.b.side, *diff);
  if (diff->team != nullptr) {
    const Status shared = watched_.Share(diff->team);
    if (report.ok() && !shared.ok()) report = shared;
  }
  if (!IsFirst(*diff)) return kExitOk;
  if (!report.ok()) return Fail(kTool, report.status().message());
  reports.Complete(&*report);
  AddNanNote(sources, *diff, &*report);
  for (std::string& note : NotesOf(sources)) report->notes.push_back(std::move(note));
  NoteUnused(*diff, sources, &*report);
  for (const std::string& hint :
       {ReplicaHint(sources, *report), StepsHint(sources, diff->pairing, *report),
        RanksHint(sources, diff->pairing, *report), RecomputeHint(*report)})
    if (!hint.empty()) report->notes.push_back(hint);
  const compare::SideInfo a = DescribeCompared(sources.a, diff->pairing.ranks);
  const compare::SideInfo b = DescribeCompared(sources.b, diff->pairing.ranks);
  if (const Status status = reports.Finish(*report, a, b, diff->pass.require_bits); !status.ok())
    return Fail(kTool, status.message());
  bool forbidden = false;
  for (const DiffSource* source : {&sources.a, &sources.b})
    forbidden |= source->run != nullptr && HasForbiddenHole(*source->run);
  const int status = forbidden ? kExitTrouble : ExitStatus(*report);
  if (options_.common.json) {
    compare::WriteJson(*report, a, b, diff->pass.require_bits,
                       [&](std::string_view piece) { Print(piece, status); });
  } else if (!options_.common.quiet) {
    Print(compare::RenderText(
              *report, a, b, diff->pass.require_bits,
              compare::Style(WantsColour(options_.common), ReportColumns(compare::kReportWidth))),
          status);
  }
  return status;
}

}  // namespace tdump::tools
