#include "compare/across.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "compare/dtensor.h"
#include "compare/forwarding_view.h"
#include "compare/roles.h"
#include "compare/root_calls.h"
#include "compare/skipped_ranks.h"
#include "core/key.h"
#include "core/text.h"
#include "settings/dims.h"

namespace tdump::compare {
namespace {

bool IsIn(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What says nothing, or nothing that can be read, may be a copy.
Result<Dims> DimsOf(const io::Record& record, int32_t world) {
  if (!record.dims.empty()) return Dims::Parse(record.dims);
  if (record.placements.empty()) return NotFound("no layout");
  TDUMP_ASSIGN_OR_RETURN(const Mesh mesh, ParseMesh(record.mesh, world));
  return DimsOfPlacements(record.placements, mesh.axes, record.global_shape);
}

bool IsCopy(const io::Record& record, std::string_view axis, int32_t world) {
  const Result<Dims> dims = DimsOf(record, world);
  return !dims.ok() || (!IsIn(dims->SplitAxes(), axis) && !IsIn(dims->partial, axis));
}

// Hashes of the inputs that the roots were given, by key.
Result<std::map<std::string, io::Hash128>> InputsOf(const StepView& view) {
  RootCalls roots;
  TDUMP_RETURN_IF_ERROR(view.ForEachCall([&](const io::CallRecord& record) {
    roots.Add(record.kind, record.root, record.call.begin);
    return true;
  }));
  std::map<std::string, io::Hash128> inputs;
  TDUMP_RETURN_IF_ERROR(view.ForEachTensor([&](const io::Record& record) {
    if (roots.IsData(record) && record.hash) inputs.emplace(ToText(record.key), *record.hash);
    return true;
  }));
  return inputs;
}

// Of a step, what its group holds as copies.
class ReplicaView : public WrappedView {
 public:
  // Of what is no parameter or buffer: what the other rank skipped.
  using Skips = std::function<bool(const io::Record&)>;

  // `model_only`: parameters and buffers, and what `skips` says; else everything.
  ReplicaView(std::unique_ptr<StepView> view, std::string axis, int32_t world, bool model_only,
              Skips skips)
      : WrappedView(std::move(view)),
        axis_(std::move(axis)),
        world_(world),
        model_only_(model_only),
        skips_(std::move(skips)) {}

  Status ForEachTensor(const VisitTensor& visit) const override {
    return view().ForEachTensor([&](const io::Record& record) {
      if (model_only_ && !IsWeight(record.key.role)) return !skips_(record) || visit(record);
      return !IsCopy(record, axis_, world_) || visit(record);
    });
  }

 private:
  const std::string axis_;
  const int32_t world_;
  const bool model_only_;
  const Skips skips_;
};

// Of as many ranks as the run has: all of them copies, and two by two of another axis.
std::string ExampleSizes(std::string_view axis, int32_t world) {
  std::string text = fmt::format("--topology {}={}", axis, world);
  if (world < 4 || world % 2 != 0) return text;
  return text + (axis == "tp" ? fmt::format(", or tp=2,dp={}", world / 2)
                              : fmt::format(", or tp={},{}=2", world / 2, axis));
}

}  // namespace

Result<Replicas> Replicas::Along(std::string_view axis, const Topology& topology) {
  if (topology.world() < 2)
    return InvalidArgument(fmt::format("--across {}: the run has one rank only", axis));
  if (topology.is_unknown() || topology.axes().empty())
    return InvalidArgument(
        fmt::format("--across {}: the run does not say where its {} lie; give the sizes of its "
                    "axes, fastest first: {}",
                    axis, Plural(static_cast<uint64_t>(topology.world()), "rank"),
                    ExampleSizes(axis, topology.world())));
  const std::optional<size_t> index = topology.Find(axis);
  if (!index) {
    std::vector<std::string> names;
    for (const Axis& known : topology.axes()) names.push_back(known.name);
    return InvalidArgument(fmt::format("--across {}: the run has no such axis; it has {}", axis,
                                       fmt::join(names, ", ")));
  }
  if (axis == "pp")
    return InvalidArgument("--across pp: its ranks hold different layers, not copies");
  if (topology.axes()[*index].size < 2)
    return InvalidArgument(fmt::format("--across {}: the axis has one rank only", axis));
  Replicas replicas;
  replicas.axis_ = axis;
  replicas.world_ = topology.world();
  for (int32_t rank = 0; rank < topology.world(); ++rank) {
    replicas.first_.push_back(-1);
    if (!topology.HasPlace(rank)) continue;
    Coordinates at = topology.Of(rank);
    at[std::string(axis)] = 0;
    const std::vector<int32_t> first = topology.RanksAt(at);
    if (!first.empty()) replicas.first_.back() = first.front();
  }
  return replicas;
}

std::optional<int32_t> Replicas::FirstOf(int32_t rank) const {
  const auto index = static_cast<size_t>(rank);
  if (rank < 0 || index >= first_.size() || first_[index] < 0) return std::nullopt;
  return first_[index];
}

ReplicaSide::ReplicaSide(const RunSide& run, const Replicas& replicas, bool first)
    : run_(run),
      replicas_(replicas),
      first_(first),
      label_(fmt::format("{}, {} of each {} group", run.label(),
                         first ? "the first rank" : "the other ranks", replicas.axis())),
      run_passes_(run.passes()) {
  std::map<int32_t, std::vector<int32_t>> others;  // of each first rank
  for (int32_t rank = 0; rank < replicas.world(); ++rank) {
    const std::optional<int32_t> of_group = replicas.FirstOf(rank);
    if (of_group && *of_group != rank) others[*of_group].push_back(rank);
  }
  const auto add = [&](size_t index, int32_t rank) {
    PassRef& pass = passes_.emplace_back(run_passes_[index]);
    pass.rank = rank;
    if (run_passes_[index].rank != rank) pass.behind = run_passes_[index].rank;
    pass.index = index;
  };
  for (size_t i = 0; i < run_passes_.size(); ++i) {
    const int32_t rank = run_passes_[i].rank;
    places_.emplace(KeyOf(run_passes_[i], rank), i);
    if (first) {
      for (const int32_t other : others[rank]) add(i, other);
    } else if (const auto of_group = replicas.FirstOf(rank); of_group && *of_group != rank) {
      add(i, rank);
    }
  }
}

SideInfo ReplicaSide::Describe() const {
  SideInfo info = run_.Describe();
  info.label = label_;
  return info;
}

int32_t ReplicaSide::RankBehind(int32_t rank) const {
  return first_ ? replicas_.FirstOf(rank).value_or(rank) : rank;
}

bool ReplicaSide::SameInputs(const PassRef& pass) const {
  const auto inputs_of = [&](int32_t rank) -> Result<std::map<std::string, io::Hash128>> {
    const auto found = places_.find(KeyOf(pass, rank));
    if (found == places_.end()) return NotFound("no such pass");
    TDUMP_ASSIGN_OR_RETURN(const auto view, run_.Open(run_passes_[found->second]));
    return InputsOf(*view);
  };
  const auto own = inputs_of(pass.rank);
  const auto firsts = inputs_of(replicas_.FirstOf(pass.rank).value_or(pass.rank));
  return own.ok() && firsts.ok() && !own->empty() && *own == *firsts;
}

std::function<bool(const io::Record&)> ReplicaSide::SkippedBeside(const PassRef& pass) const {
  const auto nothing = [](const io::Record&) { return false; };
  const int32_t rank = first_ ? pass.rank : replicas_.FirstOf(pass.rank).value_or(pass.rank);
  const auto found = places_.find(KeyOf(pass, rank));
  if (found == places_.end() || pass.extra || pass.part) return nothing;
  const PassRef& other = run_passes_[found->second];
  const auto view = run_.Open(other);
  if (!view.ok() || other.part || !(*view)->damage().empty()) return nothing;
  return [this, other, calls = CallsOfPass(**view)](const io::Record& record) {
    // Other data may be fewer micro-batches.
    const bool is_due = SharesData(replicas_.axis()) || calls.HasMicroBatch(record.key.micro);
    return MayBeSkipped(record) && is_due && calls.Lacks(record) &&
           MayHaveSkipped(run_.UseOf(other, record.key), calls);
  };
}

Result<std::unique_ptr<StepView>> ReplicaSide::Open(const PassRef& pass) const {
  TDUMP_ASSIGN_OR_RETURN(auto view, run_.Open(run_passes_[pass.index]));
  const bool model_only = !SameInputs(pass);
  return std::unique_ptr<StepView>(new ReplicaView(std::move(view), replicas_.axis(),
                                                   replicas_.world(), model_only,
                                                   model_only ? SkippedBeside(pass) : nullptr));
}

Result<io::PassDigest> ReplicaSide::DigestOf(const PassRef& pass) const {
  return run_.DigestOf(run_passes_[pass.index]);
}

std::vector<io::Damage> ReplicaSide::DamageOf(int32_t rank) const {
  return run_.DamageOf(rank == kAllRanks ? rank : RankBehind(rank));
}

std::string ReplicaSide::CoordinatesOf(int32_t rank) const {
  return run_.CoordinatesOf(RankBehind(rank));
}

std::string ReplicaSide::WhyMissing(int32_t rank) const {
  return run_.WhyMissing(RankBehind(rank));
}

}  // namespace tdump::compare
