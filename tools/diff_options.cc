#include "tools/diff_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "settings/dims.h"
#include "tools/bounds_file.h"
#include "tools/map_source.h"
#include "tools/names.h"

namespace tdump::tools {
namespace {

// "0-4", or "0-4=10-14": the steps of A, and how far B's are ahead.
Status ParseSteps(const std::string& text, compare::PairOptions* options) {
  if (text == "auto") {
    options->align_steps = true;
    return {};
  }
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

// "A:" or "B:" before a rule.
char TakeSide(std::string* text) {
  if (text->size() < 2 || (*text)[1] != ':' || ((*text)[0] != 'A' && (*text)[0] != 'B')) return 0;
  const char side = text->front();
  text->erase(0, 2);
  return side;
}

// "REGEX: dims": up to the first colon with a blank behind it.
Result<compare::DimsRule> ParseDimsRule(std::string text, WatchedPatterns* watched) {
  const std::string whole = text;
  compare::DimsRule rule;
  rule.side = TakeSide(&text);
  const size_t colon = text.find(": ");
  if (colon == std::string::npos || colon == 0) {
    return InvalidArgument(
        fmt::format("'{}': expected 'REGEX: dims', e.g. 'mlp.fc1: s b h[tp]'", text));
  }
  TDUMP_ASSIGN_OR_RETURN(rule.matches, MatchAny({text.substr(0, colon)}));
  rule.matches =
      watched->Watch("--dims '" + whole + "'", text.substr(0, colon), std::move(rule.matches));
  TDUMP_ASSIGN_OR_RETURN(rule.dims, Dims::Parse(text.substr(colon + 2)));
  return rule;
}

Result<std::optional<compare::JobOptions>> ParseJob(const DiffSettings& settings,
                                                    WatchedPatterns* watched) {
  if (settings.map.empty() && settings.dims.empty() && settings.topology.empty())
    return std::optional<compare::JobOptions>();
  compare::JobOptions job;
  for (const std::string& text : settings.dims) {
    auto rule = ParseDimsRule(text, watched);
    if (!rule.ok()) return std::move(rule).status().Annotate("--dims");
    job.dims.push_back(std::move(*rule));
  }
  for (std::string text : settings.topology) {
    const char side = TakeSide(&text);
    if (side != 'B') job.topology_a = text;
    if (side != 'A') job.topology_b = text;
  }
  if (!settings.map.empty()) {
    TDUMP_ASSIGN_OR_RETURN(auto map, LoadMap(settings.map));
    TDUMP_ASSIGN_OR_RETURN(job.map, compare::NameMap::Parse(map.first, map.second));
  }
  return std::optional<compare::JobOptions>(std::move(job));
}

// Patterns of what is printed of single records are known by the mark of a role, "@" in a key and
// ", " in tables; the others are of names, so that "output" is no role.
Result<compare::RecordPatterns> MatchRecords(const std::string& option,
                                             const std::vector<std::string>& patterns,
                                             WatchedPatterns* watched) {
  std::vector<std::string> of_names, of_records;
  for (const std::string& pattern : patterns) {
    if (pattern.empty())
      return InvalidArgument(option +
                             ": an empty pattern allows all there is: give . if that is "
                             "meant");
    const bool of_record =
        pattern.find('@') != std::string::npos || pattern.find(", ") != std::string::npos;
    (of_record ? of_records : of_names).push_back(pattern);
  }
  TDUMP_ASSIGN_OR_RETURN(auto names, watched->MatchAny(option, of_names));
  TDUMP_ASSIGN_OR_RETURN(auto records, watched->MatchAny(option, of_records));
  return compare::RecordPatterns(std::move(names), std::move(records));
}

unsigned DefaultThreads() {
  return std::min(16u, std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

void DiffSettings::AddTo(Options* options) {
  options->Positional("A", &a, "the run, or the rank, to trust");
  options->Positional("B", &b, 0, 1, "the one to compare with it");
  options->Text("--across", &across, "AXIS",
                "compare the ranks of A along this axis of its layout: dp, cp, tp");
  options->Choice("--require", &require, {"tolerance", "bitwise"},
                  "what 'same' asks for (default tolerance)");
  options->Text("--steps,--step", &steps, "SPEC",
                "steps to compare: 0-9, 3,7, or A=B as 0-4=10-14 (default all); auto: steps that "
                "were given equal integer inputs (token ids), as where no number is in common");
  options->Text("--ranks,--rank", &ranks, "SPEC", "ranks to compare: 0-7, 0-511:8 (default all)");
  options->List("--select", &select, "RE", "only names in which this is found; may be repeated");
  options->List(
      "--allow-unpaired", &allow_unpaired, "RE",
      "names, or records as printed ('fc@output#'), that one side may lack; may be repeated");
  options->List(
      "--allow-failed", &allow_failed, "RE",
      "names, or records as printed ('@grad_output'), that may differ; listed, not counted; "
      "may be repeated");
  options->Text("--map", &map, "NAME|FILE",
                "how the two sides' names and layouts correspond: a shipped map (hf-megatron, "
                "hf-vllm, ...) or a YAML file");
  options->Flag("--suggest-map", &suggest_map, "draft a map from A and B, and compare nothing");
  options->List(
      "--dims", &dims, "RULE",
      "'REGEX: dims' as 'qkv: s b h[tp]': what the dimensions of these tensors are called "
      "and how ranks share them; 'A:' or 'B:' before it for one side; may be repeated");
  options->List("--topology", &topology, "AXES",
                "how many ranks each axis has, fastest first, where the capture does not say: "
                "tp=4,dp=2 is 8 ranks, ranks 0-3 the first tensor-parallel group; B:dp=4 for one "
                "side; may be repeated");
  options->List(
      "--align", &align, "RE",
      "names of which only the part that both sides have is compared, where one is padded; "
      "may be repeated");
  options->Flag("--bisect", &bisect, "for git bisect run: trouble is 125, not 2");
  options->Text("--compute", &compute, "PRECISION",
                "what B's operators computed in: bf16, fp16, tf32, fp8, fp8_e5m2, int8, fp4, ...; "
                "sets the bounds");
  for (const char* const other : {"--rtol", "--atol", "--tol", "--tolerance"})
    options->Unknown(other,
                     "how far values may be apart is said by --compute PRECISION, or for names of "
                     "your choice by --bounds FILE");
  options->Text("--bounds", &bounds, "FILE", "YAML rules: what to ask of which operators");
  options->List("--noise", &noise, "RUN",
                "a repeat of A: what differs there is no difference; may be repeated");
  options->Number("--topk", &top, "N", "differing records to list (default 5)");
  options->Flag("--all", &all, "list every one");
  options->Number("--values", &values, "N",
                  "elements to list of where the runs part, the worst first (default 1)");
  options->Text("--jsonl", &jsonl, "FILE", "write every pair as a JSON line");
  options->Text("--html", &html, "FILE", "write a report to look at in a browser; one file");
  options->Flag("--mpi", &mpi,
                "as one process of an MPI program: mpirun -n K tdump-diff --mpi A B");
  options->Flag("--verify", &verify, "read also the values whose hashes are equal");
  options->Number("-j,--jobs", &jobs, "N", "threads (default: all cores, at most 16)");
}

Result<compare::DiffOptions> DiffSettings::ForEngine(WatchedPatterns* watched) const {
  if (across.empty() && b.empty())
    return InvalidArgument("B is missing: the run to compare with A, or --across AXIS");
  if (!across.empty() && !b.empty())
    return InvalidArgument("--across compares the ranks of one run: leave out '" + b.front() + "'");
  compare::DiffOptions diff;
  diff.top = all ? ~size_t{0} : top;
  diff.pass.require_bits = requires_bits();
  diff.pass.verify = verify;
  diff.pass.threads = jobs != 0 ? jobs : DefaultThreads();
  TDUMP_RETURN_IF_ERROR(ParseSteps(steps, &diff.pairing).Annotate("--steps"));
  auto ranks_asked = Spec::Parse(ranks);
  if (!ranks_asked.ok()) return std::move(ranks_asked).status().Annotate("--ranks");
  diff.pairing.ranks = *ranks_asked;
  if (!compute.empty()) {
    auto precision = compare::ParsePrecision(compute);
    if (!precision.ok()) return std::move(precision).status().Annotate("--compute");
    diff.pass.compute = std::move(*precision);
  }
  if (!bounds.empty()) {
    TDUMP_ASSIGN_OR_RETURN(compare::BoundRules rules, ReadBoundsFile(bounds));
    diff.pass.rules = std::make_shared<const compare::BoundRules>(std::move(rules));
  }
  TDUMP_ASSIGN_OR_RETURN(diff.pass.select, watched->MatchAny("--select", select, true));
  TDUMP_ASSIGN_OR_RETURN(diff.pass.align, watched->MatchAny("--align", align));
  TDUMP_ASSIGN_OR_RETURN(diff.job, ParseJob(*this, watched));
  diff.shipped_maps = ShippedMaps;
  TDUMP_ASSIGN_OR_RETURN(diff.pass.allow_failed,
                         MatchRecords("--allow-failed", allow_failed, watched));
  TDUMP_ASSIGN_OR_RETURN(diff.allow_unpaired,
                         MatchRecords("--allow-unpaired", allow_unpaired, watched));
  return diff;
}

}  // namespace tdump::tools
