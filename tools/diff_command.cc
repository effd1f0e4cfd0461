#include "tools/diff_command.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "compare/diff.h"
#include "compare/report.h"
#include "tools/diff_reports.h"
#include "tools/diff_source.h"
#include "tools/noise_runs.h"
#include "tools/progress_line.h"
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
    "  tdump-diff RUN/rank0 RUN/rank2              are two replicas still equal?\n"
    "  tdump-diff A B --steps 0-4 --ranks 0-7      only these; --steps 0-4=10-14 when B counts "
    "otherwise\n"
    "  tdump-diff A B --steps auto                 steps that were given the same token ids\n"
    "  tdump-diff golden.npy RUN:3/0/mlp           one file against one operator\n"
    "  tdump-diff runs/one runs/tp4                other numbers of ranks: shards are put "
    "together\n"
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

int DiffCommand::Compare(int argc, char** argv) {
  if (const auto status = options_.Parse(argc, argv)) return *status;
  auto parsed = settings_.ForEngine();
  if (!parsed.ok()) return Fail(kTool, parsed.status().message());
  compare::DiffOptions& diff = *parsed;

  DiffReports reports(settings_.jsonl, settings_.html);
  if (const Status status = reports.Begin(&diff); !status.ok())
    return Fail(kTool, status.message());
  ProgressLine progress(std::string(kTool) + ": step and rank");
  if (::isatty(STDERR_FILENO) == 1 && !options_.common.quiet)
    diff.on_progress = [&](size_t done, size_t all) { progress.Show(done, all); };

  const auto sources = OpenDiffSources(settings_.a, settings_.b);
  if (!sources.ok()) return Fail(kTool, sources.status().message());
  if (settings_.suggest_map) {
    const auto draft =
        compare::DraftMap(*sources->a.side, *sources->b.side, diff.pairing, diff.shipped_maps);
    if (!draft.ok()) return Fail(kTool, draft.status().message());
    Print(*draft);
    return kExitOk;
  }
  if (!settings_.noise.empty()) {
    auto noise = MeasureNoise(*sources->a.side, settings_.noise, diff);
    if (!noise.ok()) return Fail(kTool, noise.status().message());
    diff.pass.noise = std::move(*noise);
  }
  auto report = compare::Diff(*sources->a.side, *sources->b.side, diff);
  if (!report.ok()) return Fail(kTool, report.status().message());
  for (std::string& note : NotesOf(*sources)) report->notes.push_back(std::move(note));
  const compare::SideInfo a = DescribeCompared(sources->a, diff.pairing.ranks);
  const compare::SideInfo b = DescribeCompared(sources->b, diff.pairing.ranks);
  if (const Status status = reports.Finish(*report, a, b, diff.pass.require_bits); !status.ok())
    return Fail(kTool, status.message());
  if (options_.common.json) {
    Print(compare::RenderJson(*report, a, b, diff.pass.require_bits));
  } else if (!options_.common.quiet) {
    Print(compare::RenderText(*report, a, b, diff.pass.require_bits,
                              compare::Style(WantsColour(options_.common))));
  }
  bool forbidden = false;
  for (const DiffSource* source : {&sources->a, &sources->b})
    forbidden |= source->run != nullptr && HasForbiddenHole(*source->run);
  return forbidden ? kExitTrouble : ExitStatus(*report);
}

}  // namespace tdump::tools
