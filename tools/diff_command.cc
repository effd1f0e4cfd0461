#include "tools/diff_command.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "compare/diff.h"
#include "compare/report.h"
#include "tools/names.h"
#include "tools/run_source.h"
#include "tools/strict.h"

namespace tdump::tools {
namespace {

constexpr const char* kTool = "tdump-diff";

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
    "  tdump-diff A B --select 'layers\\.3\\.'       only names that match\n"
    "  tdump-diff A B --jsonl all.jsonl --json     every pair as a line; the verdict as a "
    "document\n"
    "\n"
    "Exit status: 0 same, 1 differs, 2 trouble, damaged files, nothing comparable, or a run with "
    "'strict:\n"
    "true' that is incomplete.\n"
    "See also: tdump-view A, tdump-view A:STEP/RANK/NAME --values 4";

// Of the interface, but not of this version.
struct LaterOption {
  const char* name;
  bool takes_value;
  const char* instead;
};
constexpr LaterOption kLater[] = {
    {"--across", true, "compare single ranks: tdump-diff RUN/rank0 RUN/rank1"},
    {"--map", true, "records pair by equal names"},
    {"--suggest-map", false, "records pair by equal names"},
    {"--dims", true, "both runs need the same parallel layout"},
    {"--compute", true, "the bound follows the dtypes that were recorded"},
    {"--noise", true, "the bound follows the dtypes and the lengths of the sums"},
    {"--bounds", true, "--allow-failed RE takes names out of the verdict"},
    {"--html", true, "--jsonl FILE has every pair"},
    {"--bisect", false, "the exit status is 2 in trouble"},
    {"--mpi", false, "-j N compares on N threads"},
};

// "0-4", or "0-4=10-14": the steps of A, and how far B's are ahead.
Status ParseSteps(const std::string& text, compare::PairOptions* options) {
  if (text == "auto")
    return InvalidArgument("auto is not in this version; say A=B, e.g. 0-4=10-14");
  const size_t equals = text.find('=');
  TDUMP_ASSIGN_OR_RETURN(options->steps, Spec::Parse(text.substr(0, equals)));
  if (equals == std::string::npos) return {};
  TDUMP_ASSIGN_OR_RETURN(const Spec other, Spec::Parse(text.substr(equals + 1)));
  if (options->steps.is_all() || other.is_all() || options->steps.is_none() || other.is_none()) {
    return InvalidArgument("steps A=B need numbers on both sides, e.g. 0-4=10-14");
  }
  const uint64_t first = options->steps.Min(), shifted = other.Min();
  if (options->steps.Max() - first != other.Max() - shifted) {
    return InvalidArgument("the two sides of '" + text + "' do not span the same number of steps");
  }
  options->step_shift = static_cast<int64_t>(shifted) - static_cast<int64_t>(first);
  return {};
}

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

DiffCommand::DiffCommand() : options_(kTool, kAbout, kTeach) {
  options_.Positional("A", &a_, "the run, or the rank, to trust");
  options_.Positional("B", &b_, "the one to compare with it");
  options_.Choice("--require", &require_, {"tolerance", "bitwise"},
                  "what 'same' asks for (default tolerance)");
  options_.Text("--steps", &steps_, "SPEC",
                "steps to compare: 0-9, 3,7, or A=B as 0-4=10-14 (default all)");
  options_.Text("--ranks", &ranks_, "SPEC", "ranks to compare: 0-7, 0-511:8 (default all)");
  options_.List("--select", &select_, "RE", "only names in which this is found; may be repeated");
  options_.List("--allow-unpaired", &allow_unpaired_, "RE",
                "names that one side may lack; may be repeated");
  options_.List("--allow-failed", &allow_failed_, "RE",
                "names that may differ; listed, not counted; may be repeated");
  options_.Number("--topk", &top_, "N", "differing records to list (default 5)");
  options_.Flag("--all", &all_, "list every one");
  options_.Text("--jsonl", &jsonl_, "FILE", "write every pair as a JSON line");
  options_.Number("-j,--jobs", &jobs_, "N", "threads (default: all cores, at most 16)");
  for (const LaterOption& later : kLater)
    options_.Later(later.name, later.takes_value, later.instead);
}

int DiffCommand::Run(int argc, char** argv) {
  if (const auto status = options_.Parse(argc, argv)) return *status;
  compare::DiffOptions diff;
  diff.top = all_ ? ~size_t{0} : top_;
  diff.pass.require_bits = require_ == "bitwise";
  diff.pass.threads =
      jobs_ != 0 ? jobs_ : std::min(16u, std::max(1u, std::thread::hardware_concurrency()));
  const auto parse = [&]() -> Status {
    TDUMP_RETURN_IF_ERROR(ParseSteps(steps_, &diff.pairing).Annotate("--steps"));
    auto ranks = Spec::Parse(ranks_);
    if (!ranks.ok()) return std::move(ranks).status().Annotate("--ranks");
    diff.pairing.ranks = *ranks;
    TDUMP_ASSIGN_OR_RETURN(diff.pass.select, MatchAny(select_));
    TDUMP_ASSIGN_OR_RETURN(diff.pass.allow_failed, MatchAny(allow_failed_));
    TDUMP_ASSIGN_OR_RETURN(diff.allow_unpaired, MatchAny(allow_unpaired_));
    return {};
  };
  if (const Status status = parse(); !status.ok()) return Fail(kTool, status.message());

  JsonLines lines;
  if (!jsonl_.empty()) {
    if (const Status status = lines.Open(jsonl_); !status.ok())
      return Fail(kTool, status.message());
    diff.on_row = [&](const compare::Row& row) { lines.Add(compare::RowToJson(row)); };
    diff.on_unpaired = [&](const compare::Unpaired& unpaired) {
      lines.Add(compare::UnpairedToJson(unpaired));
    };
  }
  if (::isatty(STDERR_FILENO) == 1 && !options_.common.quiet) diff.on_progress = ShowProgress;

  std::vector<LoadedRun> runs;
  std::vector<compare::RunSide> sides;
  for (const std::string& text : {a_, b_}) {
    auto run = LoadRun(text);
    if (!run.ok()) return Fail(kTool, run.status().message());
    runs.push_back(std::move(*run));
  }
  for (const LoadedRun& run : runs)
    sides.push_back({run.store.get(), &run.index, run.ref.rank, run.label});

  const auto report = compare::Diff(sides[0], sides[1], diff);
  if (!report.ok()) return Fail(kTool, report.status().message());
  if (!jsonl_.empty()) {
    if (const Status status = lines.Close(); !status.ok()) return Fail(kTool, status.message());
  }
  compare::SideInfo a = compare::DescribeSide(sides[0]), b = compare::DescribeSide(sides[1]);
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
