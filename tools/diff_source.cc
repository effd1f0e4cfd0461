#include "tools/diff_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/parse_number.h"
#include "io/node_env.h"
#include "tools/near_names.h"
#include "tools/recorded_elsewhere.h"

namespace tdump::tools {
namespace {

using compare::foreign::ForeignSide;

constexpr size_t kMostNotes = 10;  // of one side

Status Pick(compare::Picked picked, const std::string& text, DiffSource* source) {
  TDUMP_ASSIGN_OR_RETURN(source->side,
                         compare::PickedSide::Make(std::move(source->side), picked, text));
  source->picked = std::move(picked);
  source->picked->rank = source->side->rank();
  return {};
}

Result<io::Address> Resolve(const std::string& text) {
  if (text.find(':') != std::string::npos) return io::ResolveAddress(io::RunEnv(), text);
  io::Address address;
  TDUMP_ASSIGN_OR_RETURN(address.run, io::ResolveRun(io::RunEnv(), text));
  return address;
}

// The number of the step that is asked for: where the run has none of that number, the step that
// the job itself calls so, as in tdump-view (SelectPasses in tools/record_filter.h).
uint64_t StepMeant(const LoadedRun& run, uint64_t step) {
  const std::vector<io::IndexedPass>& passes = run.index.passes;
  if (std::ranges::find(passes, step, &io::IndexedPass::global_step) != passes.end()) return step;
  const auto own = std::ranges::find_if(passes, [&](const io::IndexedPass& place) {
    const io::PassEntry& entry = run.store->processes()[place.process].passes[place.pass];
    return std::cmp_equal(entry.info.job_step, step);
  });
  return own == passes.end() ? step : own->global_step;
}

RecordFilter FilterOf(const io::Address& address, uint64_t step, std::optional<int32_t> rank) {
  RecordFilter filter;
  filter.name = address.name;
  if (auto spec = Spec::Parse(std::to_string(step)); spec.ok()) filter.steps = *std::move(spec);
  if (!rank) return filter;
  if (auto spec = Spec::Parse(std::to_string(*rank)); spec.ok()) filter.ranks = *std::move(spec);
  return filter;
}

Result<DiffSource> OpenRun(const std::string& text) {
  TDUMP_ASSIGN_OR_RETURN(const io::Address address, Resolve(text));
  DiffSource source;
  TDUMP_ASSIGN_OR_RETURN(LoadedRun run, LoadRun(address.run));
  source.run = std::make_unique<LoadedRun>(std::move(run));
  source.side = std::make_unique<compare::CapturedRun>(source.run->store.get(), &source.run->index,
                                                       source.run->ref.rank, source.run->label);
  if (!address.step) return source;
  const std::optional<int32_t> rank = address.rank ? address.rank : source.run->ref.rank;
  const uint64_t step = StepMeant(*source.run, *address.step);
  const Status picked = Pick({step, rank, address.name}, text, &source);
  const bool is_unknown =
      picked.message().find("is named '" + address.name + "'") != std::string::npos;
  if (!picked.ok() && is_unknown) {
    const std::string elsewhere = ElsewhereText(*source.run, FilterOf(address, step, rank));
    return Status(picked.code(), elsewhere.empty()
                                     ? picked.message() + NearText(*source.run, address.name)
                                     : text + ": " + elsewhere);
  }
  TDUMP_RETURN_IF_ERROR(picked);
  return source;
}

Result<DiffSource> OpenForeign(const std::string& path) {
  TDUMP_ASSIGN_OR_RETURN(std::unique_ptr<ForeignSide> side, ForeignSide::Open(Env::Posix(), path));
  DiffSource source;
  source.foreign = side.get();
  source.side = std::move(side);
  return source;
}

// "STEP[/RANK[/NAME]]"; of one file: a name.
compare::Picked ParsePlace(const std::string& text, bool one_file) {
  if (one_file) return {.step = 0, .rank = 0, .name = text};
  compare::Picked picked;
  const size_t slash = text.find('/');
  picked.step = ParseNumber<uint64_t>(text.substr(0, slash)).value_or(~uint64_t{0});
  if (slash == std::string::npos) return picked;
  const size_t second = text.find('/', slash + 1);
  picked.rank = static_cast<int32_t>(
      ParseNumber<uint64_t>(text.substr(slash + 1, second - slash - 1)).value_or(1u << 31) &
      0x7fffffff);
  if (second != std::string::npos) picked.name = text.substr(second + 1);
  return picked;
}

// The part before a colon that is there and is a dump of another tool; "" for none.
std::string DumpBeforeColon(const std::string& text) {
  for (size_t colon = text.find(':'); colon != std::string::npos;
       colon = text.find(':', colon + 1)) {
    const std::string path = text.substr(0, colon);
    if (io::RunEnv()->Stat(path).ok() && compare::foreign::FindDump(Env::Posix(), path).ok())
      return path;
  }
  return "";
}

}  // namespace

Result<DiffSource> OpenDiffSource(const std::string& text) {
  if (io::RunEnv()->Stat(text).ok()) {
    Result<DiffSource> foreign = OpenForeign(text);
    if (foreign.ok() || foreign.status().code() != StatusCode::kNotFound) return foreign;
    Result<DiffSource> run = OpenRun(text);
    if (run.ok()) return run;
    const auto info = io::RunEnv()->Stat(text);
    if (info.ok() && !info->is_directory && !text.ends_with(".tdp") && !text.ends_with(".part"))
      return Status(StatusCode::kNotFound, foreign.status().message() + "; and no run either");
    return Status(run.status().code(),
                  run.status().message() + "; and " + foreign.status().message());
  }
  const std::string path = DumpBeforeColon(text);
  if (path.empty()) return OpenRun(text);
  TDUMP_ASSIGN_OR_RETURN(DiffSource source, OpenForeign(path));
  const auto info = io::RunEnv()->Stat(path);
  const bool one_file = info.ok() && !info->is_directory;
  compare::Picked picked = ParsePlace(text.substr(path.size() + 1), one_file);
  // By its own names, before any tensor takes that of the other side.
  if (!picked.name.empty())
    TDUMP_RETURN_IF_ERROR(source.foreign->KeepOnly(std::exchange(picked.name, "")));
  TDUMP_RETURN_IF_ERROR(Pick(std::move(picked), text, &source));
  return source;
}

namespace {

// Of a whole run, or of all that one rank of it has, what the address on the other side names.
Status PickAlike(const DiffSource& address, const std::string& text, DiffSource* whole) {
  if (!address.picked || whole->picked || address.run == nullptr || whole->run == nullptr)
    return {};
  compare::Picked picked = *address.picked;
  const std::optional<int32_t> rank = whole->side->rank();
  if (!rank && whole->side->world() != address.side->world()) return {};  // refused by the engine
  if (rank) picked.rank = rank;
  std::string same = fmt::format("{}:{}/{}", text, picked.step, *picked.rank);
  if (!picked.name.empty()) same += "/" + picked.name;
  return Pick(std::move(picked), same, whole);
}

// Of a run only what the dump on the other side has too.
Status AskFor(const DiffSource& dump, DiffSource* run) {
  if (dump.foreign == nullptr || run->run == nullptr) return {};
  TDUMP_ASSIGN_OR_RETURN(compare::foreign::Asked asked, dump.foreign->Asks());
  auto side = std::make_unique<compare::foreign::AskedSide>(std::move(run->side), std::move(asked));
  run->asked = side.get();
  run->side = std::move(side);
  return {};
}

std::string LeftOut(char side, const compare::foreign::AskedSide& asked) {
  std::string roles;
  for (const Role role : asked.asked().roles)
    roles += fmt::format("{}{}", roles.empty() ? "" : ", ", ToString(role));
  return fmt::format("{}: {} records are left out: the other side has only {}", side,
                     asked.left_out(), roles.empty() ? "what it names" : roles);
}

}  // namespace

Result<DiffSources> OpenDiffSources(const std::string& a, const std::string& b) {
  DiffSources sources;
  TDUMP_ASSIGN_OR_RETURN(sources.a, OpenDiffSource(a));
  TDUMP_ASSIGN_OR_RETURN(sources.b, OpenDiffSource(b));
  TDUMP_RETURN_IF_ERROR(PickAlike(sources.a, b, &sources.b));
  TDUMP_RETURN_IF_ERROR(PickAlike(sources.b, a, &sources.a));
  const auto take = [](DiffSource* taker, const DiffSource& other) {
    if (taker->foreign == nullptr) return;
    if (other.foreign != nullptr)
      taker->foreign->TakeKeysOf(other.foreign);
    else
      taker->foreign->TakeKeysOf(other.side.get());
  };
  take(&sources.a, sources.b);
  take(&sources.b, sources.a);
  ForeignSide* first = sources.a.foreign != nullptr ? sources.a.foreign : sources.b.foreign;
  if (first != nullptr) first->TakeOnlyKey();
  TDUMP_RETURN_IF_ERROR(AskFor(sources.a, &sources.b));
  TDUMP_RETURN_IF_ERROR(AskFor(sources.b, &sources.a));
  return sources;
}

compare::SideInfo DescribeCompared(const DiffSource& source, const Spec& ranks) {
  compare::SideInfo info = source.side->Describe();
  if (source.run == nullptr || source.picked) return info;
  const LoadedRun& run = *source.run;
  info.holes = run.index.holes;
  if (run.index.complete() || (!run.ref.rank && ranks.is_all())) return info;
  coordinator::MergeOptions options = MergeOptionsHere();
  options.holes_of = [&](int32_t rank) {
    return run.ref.rank ? rank == *run.ref.rank : ranks.Contains(rank, run.index.world);
  };
  info.holes = coordinator::BuildRunIndex(*run.store, run.index.generation, options).holes;
  return info;
}

std::vector<std::string> NotesOf(const DiffSources& sources) {
  std::vector<std::string> notes;
  for (const auto& [side, source] : {std::pair{'A', &sources.a}, {'B', &sources.b}}) {
    if (source->asked != nullptr && source->asked->left_out() > 0)
      notes.push_back(LeftOut(side, *source->asked));
    if (source->foreign == nullptr) continue;
    const compare::foreign::NamePrefix prefix = source->foreign->prefix();
    if (!prefix.dropped.empty())
      notes.push_back(fmt::format("{}: names were taken without '{}'", side, prefix.dropped));
    if (!prefix.added.empty())
      notes.push_back(
          fmt::format("{}: names were taken with '{}' before them", side, prefix.added));
    if (const std::vector<std::string> late = source->foreign->late(); !late.empty())
      notes.push_back(fmt::format("{}: {}: SGLang writes {} with the next pass, put back", side,
                                  fmt::join(late, ", "), late.size() == 1 ? "it" : "them"));
    const std::vector<std::string> skipped = source->foreign->skipped();
    for (size_t i = 0; i < skipped.size() && i < kMostNotes; ++i)
      notes.push_back(fmt::format("{}: {}", side, skipped[i]));
    if (skipped.size() > kMostNotes)
      notes.push_back(fmt::format("{}: {} more are not read", side, skipped.size() - kMostNotes));
  }
  return notes;
}

}  // namespace tdump::tools
