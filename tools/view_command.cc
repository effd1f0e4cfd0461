#include "tools/view_command.h"

#include <fmt/format.h>

#include <utility>

#include "core/parse_number.h"
#include "io/node_env.h"
#include "tools/names.h"

namespace tdump::tools {
namespace {

constexpr const char* kAbout =
    "Look into a captured run: what is there, what is missing, and the tensors themselves.\n"
    "Works at any time: while the job runs, after a kill, on a copy, with or without tdump-merge.";

constexpr const char* kTeach =
    "RUN is a directory, 'latest', RUN@GENERATION or RUN/rankN; without it the newest run in "
    "outputs/.\n"
    "ADDRESS is RUN:STEP/RANK/NAME, NAME as --names or --records print it, with ::callN, @ROLE and "
    "#ARG\n"
    "left out at will. STEP is the number all ranks agreed on.\n"
    "\n"
    "Examples:\n"
    "  tdump-view                                    is the newest run complete, what is in it?\n"
    "  tdump-view latest --names 'layer\\.3\\.'        operators, how often called and kept\n"
    "  tdump-view latest --records --step 0 --rank 2 --role output\n"
    "  tdump-view latest --nan                       where NaN came up first in time\n"
    "  tdump-view latest --log --step 0 --rank 0     every call in its place: what ran in what\n"
    "  tdump-view latest --crash                     which kernel each rank was in when it ended\n"
    "  tdump-view latest --records --sort nan        the records with most NaN first\n"
    "  tdump-view latest:0/2/encoder.layer.3.attention.self.query --values 8\n"
    "  tdump-view latest:0/2/encoder.layer.3.attention.self.query --at 3,21,0    beside an "
    "element\n"
    "  tdump-view latest:0/2/encoder.layer.3@input#0 --txt x.txt    exact text, reads back as the "
    "same bits\n"
    "  tdump-view latest --records --rank 2 --txt dir/              one file a record\n"
    "  tdump-view latest --coverage --rank 2         one rank at length: passes, gaps, notes\n"
    "  tdump-view latest --verify                    read everything; exit 1 when damaged\n"
    "\n"
    "Exit status: 0, 1 damaged (--verify; a pass that a kill cut is none), 2 trouble or nothing "
    "there.\n"
    "See also: tdump-diff A B; in Python: tdump.open(\"latest\")[STEP, RANK][\"NAME\"]";

// Nothing that was not said restricts.
Status ParseSpec(const std::string& option, const std::string& text, std::optional<Spec>* spec) {
  if (text.empty()) return {};
  auto parsed = Spec::Parse(text);
  if (!parsed.ok()) return std::move(parsed).status().Annotate(option);
  *spec = std::move(*parsed);
  return {};
}

// "3,23,0".
Result<std::vector<uint64_t>> ParsePosition(std::string_view text) {
  std::vector<uint64_t> position;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const auto index = ParseNumber<uint64_t>(text.substr(0, comma));
    if (!index) return InvalidArgument("--at: expected an index for each dimension, e.g. 3,23,0");
    position.push_back(*index);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return position;
}

}  // namespace

ViewCommand::ViewCommand() : options_(kViewTool, kAbout, kTeach) {
  options_.Positional("RUN|ADDRESS", &what_, 0, 1, "a run, or a step, rank or record of it");
  options_.Flag("--coverage", &coverage_, "what is there and what is missing, by rank");
  options_.OptionalText("--names", &names_, &names_pattern_, "[RE]",
                        "operators; those whose name matches");
  options_.Flag("--records", &records_, "a table of records");
  options_.Flag("--log", &log_, "the calls of each step as a tree, with shapes");
  options_.Text("--step,--steps", &steps_, "SPEC", "of these steps: 0-9, 3,7, 0-100:10");
  options_.Text("--rank,--ranks", &ranks_, "SPEC", "of these ranks: 0-7, -1");
  options_.Text("--role", &roles_, "ROLES", "input, output, grad_output, param, ...");
  options_.List("--arg", &arg_, "RE", "argument names that match");
  options_.List("--select", &select_, "RE", "operator names that match");
  options_.Choice(
      "--sort", &sort_, {"none", "absmax", "rms", "nan", "bytes"},
      "largest first; absmax, rms and nan read the values where there are no statistics");
  options_.Number("--top", &top_, "N", "rows to show; default 40, or all as JSON");
  options_.Flag("--all", &all_, "all rows");
  options_.Integer("--values", &values_, "N", "first values of each record; default 4");
  options_.Text("--at", &at_, "I,J,...",
                "with an address: the element there, and --values N beside it in its row");
  options_.Flag("--exponents", &exponents_,
                "of the records of an address: how many values have which exponent; of those with "
                "statistics alone in bins of eight");
  options_.Text("--txt", &txt_, "FILE",
                "write exact text; DIR/ for one file a record, - for stdout");
  options_.Flag("--nan", &nan_, "where NaN came up first, and what that operator was given");
  options_.Flag("--crash", &crash_,
                "which kernel each rank was in when it ended, from its breadcrumbs");
  options_.Flag("--verify", &verify_, "read every byte and check it; exit 1 when damaged");
  options_.Number("-j,--jobs", &jobs_, "N", "threads; default: one a core, at most 16");
  options_.Later("--stage", true, "name the ranks: --rank SPEC");
}

// Without a name the newest run, of those that tdump named.
Result<io::Address> ViewCommand::ResolveWhat() const {
  if (!what_.empty()) return io::ResolveAddress(io::RunEnv(), what_[0]);
  Result<io::Address> newest = io::ResolveAddress(io::RunEnv(), "latest");
  const bool has_others = newest.status().message().find("runs here: ") != std::string::npos;
  if (newest.ok() || has_others) return newest;
  return NotFound(
      "no run was named, and there is no newest one in outputs/ here. A run that was made "
      "with -o DIR is named by it: tdump-view DIR; a new one is made by: "
      "tdump-run --dump -- COMMAND");
}

Status ViewCommand::Read() {
  RecordFilter& filter = request_.filter;
  TDUMP_RETURN_IF_ERROR(ParseSpec("--step", steps_, &filter.steps));
  TDUMP_RETURN_IF_ERROR(ParseSpec("--rank", ranks_, &filter.ranks));
  TDUMP_ASSIGN_OR_RETURN(filter.roles, ParseRoles(roles_));
  TDUMP_ASSIGN_OR_RETURN(filter.arg, MatchAny(arg_));
  TDUMP_ASSIGN_OR_RETURN(filter.select, MatchAny(select_, true));
  TDUMP_ASSIGN_OR_RETURN(const io::Address address, ResolveWhat());
  if (address.step) {
    if (filter.steps) return InvalidArgument("--step: the address names a step already");
    TDUMP_ASSIGN_OR_RETURN(filter.steps, Spec::Parse(fmt::format("{}", *address.step)));
  }
  if (address.rank) {
    if (filter.ranks) return InvalidArgument("--rank: the address names a rank already");
    TDUMP_ASSIGN_OR_RETURN(filter.ranks, Spec::Parse(fmt::format("{}", *address.rank)));
  }
  filter.name = address.name;
  TDUMP_ASSIGN_OR_RETURN(request_.run, LoadRun(address.run));
  request_.shown = address.run.text;
  request_.common = options_.common;
  request_.sort = sort_;
  if (all_ || (options_.common.json && top_ == 0))
    request_.top = ~uint64_t{0};
  else if (top_ != 0)
    request_.top = top_;
  if (!at_.empty()) {
    TDUMP_ASSIGN_OR_RETURN(request_.at, ParsePosition(at_));
    if (filter.name.empty())
      return InvalidArgument("--at: of which record? tdump-view RUN:STEP/RANK/NAME");
  }
  if (values_ >= 0 && filter.name.empty())
    return InvalidArgument("--values: of which records? tdump-view RUN:STEP/RANK/NAME");
  if (values_ >= 0) request_.values = static_cast<uint64_t>(values_);
  request_.exponents = exponents_;
  request_.jobs = jobs_;
  request_.name_pattern = names_pattern_;
  request_.select = select_;
  return {};
}

// What options say against each other, or "".
std::string ViewCommand::Contradiction() const {
  if (coverage_ + names_ + records_ + verify_ + nan_ + crash_ + log_ > 1)
    return "--coverage, --names, --records, --log, --nan, --crash and --verify: one at a time";
  if (txt_.empty()) return "";
  for (const auto& [given, option] : {std::pair(coverage_, "--coverage"),
                                      {names_, "--names"},
                                      {log_, "--log"},
                                      {nan_, "--nan"},
                                      {crash_, "--crash"},
                                      {verify_, "--verify"},
                                      {exponents_, "--exponents"}}) {
    if (given) return fmt::format("--txt and {}: one at a time", option);
  }
  if (options_.common.json && (txt_ == "-" || txt_ == "/dev/stdout"))
    return fmt::format("--txt {} and --json: both write to standard output; give --txt a FILE",
                       txt_);
  return "";
}

int ViewCommand::Run(int argc, char** argv) {
  if (const auto status = options_.Parse(argc, argv)) return *status;
  if (const std::string mistake = Contradiction(); !mistake.empty())
    return Fail(kViewTool, mistake);
  if (const Status status = Read(); !status.ok()) return Fail(kViewTool, status.message());
  if (exponents_ && (request_.filter.name.empty() || records_))
    return Fail(kViewTool, "--exponents: of which records? tdump-view RUN:STEP/RANK/NAME");
  if (!txt_.empty()) return ViewText(request_, txt_);
  if (log_) return ViewLog(request_);
  if (nan_) return ViewNan(request_);
  if (crash_) return ViewCrash(request_);
  if (verify_) return ViewVerify(request_);
  if (names_) return ViewNames(request_);
  if (coverage_) return ViewCoverage(request_);
  const bool narrowed = sort_ != "none" || request_.filter.steps || request_.filter.arg ||
                        request_.filter.select || !request_.filter.roles.empty();
  if (!request_.filter.name.empty() && !records_) return ViewTensors(request_);
  if (records_ || narrowed) return ViewRecords(request_);
  // "RUN/rank2" is about that rank.
  const bool one_of_several = request_.run.ref.rank && request_.run.index.world > 1;
  return one_of_several || request_.filter.ranks ? ViewCoverage(request_) : ViewRun(request_);
}

}  // namespace tdump::tools
