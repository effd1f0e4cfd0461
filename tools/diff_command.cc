#include "tools/diff_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "compare/diff.h"
#include "compare/report.h"
#include "tools/run_source.h"
#include "tools/strict.h"

namespace tdump::tools {
namespace {

constexpr const char* kTool = "tdump-diff";

constexpr int kExitBisectSkip = 125;  // what git bisect run takes for "cannot be tested"

constexpr const char* kAbout =
    "Compare two captured runs, operator by operator, and name the first one whose inputs agree "
    "and\n"
    "outputs do not: which rank, which step, which operator.\n"
    "A and B are runs (a directory, 'latest', RUN@GENERATION) or single ranks (RUN/rank0 "
    "RUN/rank2).";

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
    "  tdump-diff A B --select 'layers\\.3\\.'       only names that match\n"
    "  tdump-diff A B --jsonl all.jsonl --json     every pair as a line; the verdict as a "
    "document\n"
    "\n"
    "Exit status: 0 same, 1 differs, 2 trouble, damaged files, nothing comparable, or a run with "
    "'strict:\n"
    "true' that is incomplete.\n"
    "See also: tdump-view A, tdump-view A:STEP/RANK/NAME --values 4";

// One JSON line a pair, to a file.
class JsonLines {
 public:
  Status Open(const std::string& path) {
    path_ = path;
    file_.open(path, std::ios::trunc);
    return file_ ? Status::Ok() : ErrnoStatus(errno, "cannot write", path);
  }
  void Add(const std::string& line) { file_ << line << '\n'; }
  Status Close() {
    file_.close();
    return file_ ? Status::Ok() : ErrnoStatus(errno, "cannot write", path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
};

void ShowProgress(size_t done, size_t all) {
  std::fprintf(stderr, done == all ? "\r\033[K" : "\r%s: step and rank %zu of %zu", kTool, done,
               all);
}

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

// What is missing of the ranks that are compared.
std::vector<std::string> HolesOfCompared(const LoadedRun& run, const Spec& ranks) {
  if (run.index.complete() || (!run.ref.rank && ranks.is_all())) return run.index.holes;
  coordinator::MergeOptions options = MergeOptionsHere();
  options.holes_of = [&](int32_t rank) {
    return run.ref.rank ? rank == *run.ref.rank : ranks.Contains(rank, run.index.world);
  };
  return coordinator::BuildRunIndex(*run.store, run.index.generation, options).holes;
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

  JsonLines lines;
  if (!settings_.jsonl.empty()) {
    if (const Status status = lines.Open(settings_.jsonl); !status.ok())
      return Fail(kTool, status.message());
    diff.on_row = [&](const compare::Row& row) { lines.Add(compare::RowToJson(row)); };
    diff.on_unpaired = [&](const compare::Unpaired& unpaired) {
      lines.Add(compare::UnpairedToJson(unpaired));
    };
  }
  if (::isatty(STDERR_FILENO) == 1 && !options_.common.quiet) diff.on_progress = ShowProgress;

  std::vector<LoadedRun> runs;
  std::vector<compare::CapturedRun> sides;
  for (const std::string& text : {settings_.a, settings_.b}) {
    auto run = LoadRun(text);
    if (!run.ok()) return Fail(kTool, run.status().message());
    runs.push_back(std::move(*run));
  }
  for (const LoadedRun& run : runs)
    sides.emplace_back(run.store.get(), &run.index, run.ref.rank, run.label);

  const auto report = compare::Diff(sides[0], sides[1], diff);
  if (!report.ok()) return Fail(kTool, report.status().message());
  if (!settings_.jsonl.empty()) {
    if (const Status status = lines.Close(); !status.ok()) return Fail(kTool, status.message());
  }
  compare::SideInfo a = sides[0].Describe(), b = sides[1].Describe();
  a.holes = HolesOfCompared(runs[0], diff.pairing.ranks);
  b.holes = HolesOfCompared(runs[1], diff.pairing.ranks);
  if (options_.common.json) {
    Print(compare::RenderJson(*report, a, b, diff.pass.require_bits));
  } else if (!options_.common.quiet) {
    Print(compare::RenderText(*report, a, b, diff.pass.require_bits,
                              compare::Style(WantsColour(options_.common))));
  }
  bool forbidden = false;
  for (const LoadedRun& run : runs) forbidden |= HasForbiddenHole(run);
  return forbidden ? kExitTrouble : ExitStatus(*report);
}

}  // namespace tdump::tools
