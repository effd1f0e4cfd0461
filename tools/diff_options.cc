#include "tools/diff_options.h"

#include <algorithm>
#include <thread>

#include "tools/names.h"

namespace tdump::tools {
namespace {

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
    {"--mpi", false, "-j N compares on N threads"},
};

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

unsigned DefaultThreads() {
  return std::min(16u, std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

void DiffSettings::AddTo(Options* options) {
  options->Positional("A", &a, "the run, or the rank, to trust");
  options->Positional("B", &b, "the one to compare with it");
  options->Choice("--require", &require, {"tolerance", "bitwise"},
                  "what 'same' asks for (default tolerance)");
  options->Text("--steps", &steps, "SPEC",
                "steps to compare: 0-9, 3,7, or A=B as 0-4=10-14 (default all); auto: steps that "
                "were given equal integer inputs (token ids)");
  options->Text("--ranks", &ranks, "SPEC", "ranks to compare: 0-7, 0-511:8 (default all)");
  options->List("--select", &select, "RE", "only names in which this is found; may be repeated");
  options->List("--allow-unpaired", &allow_unpaired, "RE",
                "names that one side may lack; may be repeated");
  options->List("--allow-failed", &allow_failed, "RE",
                "names that may differ; listed, not counted; may be repeated");
  options->Flag("--bisect", &bisect, "for git bisect run: trouble is 125, not 2");
  options->Number("--topk", &top, "N", "differing records to list (default 5)");
  options->Flag("--all", &all, "list every one");
  options->Text("--jsonl", &jsonl, "FILE", "write every pair as a JSON line");
  options->Text("--html", &html, "FILE", "write a report to look at in a browser; one file");
  options->Number("-j,--jobs", &jobs, "N", "threads (default: all cores, at most 16)");
  for (const LaterOption& later : kLater)
    options->Later(later.name, later.takes_value, later.instead);
}

Result<compare::DiffOptions> DiffSettings::ForEngine() const {
  compare::DiffOptions diff;
  diff.top = all ? ~size_t{0} : top;
  diff.pass.require_bits = requires_bits();
  diff.pass.threads = jobs != 0 ? jobs : DefaultThreads();
  TDUMP_RETURN_IF_ERROR(ParseSteps(steps, &diff.pairing).Annotate("--steps"));
  auto ranks_asked = Spec::Parse(ranks);
  if (!ranks_asked.ok()) return std::move(ranks_asked).status().Annotate("--ranks");
  diff.pairing.ranks = *ranks_asked;
  TDUMP_ASSIGN_OR_RETURN(diff.pass.select, MatchAny(select));
  TDUMP_ASSIGN_OR_RETURN(diff.pass.allow_failed, MatchAny(allow_failed));
  TDUMP_ASSIGN_OR_RETURN(diff.allow_unpaired, MatchAny(allow_unpaired));
  return diff;
}

}  // namespace tdump::tools
