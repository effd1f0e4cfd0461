#include "tools/diff_hints.h"

#include <fmt/format.h>

#include <vector>

#include "compare/topology.h"

namespace tdump::tools {
namespace {

constexpr std::string_view kAxis = "dp";

// Whether both are single ranks of one generation of one run.
bool AreOfOneRun(const DiffSources& sources) {
  const LoadedRun *a = sources.a.run.get(), *b = sources.b.run.get();
  return a != nullptr && b != nullptr && a->ref.rank && b->ref.rank && a->ref.rank != b->ref.rank &&
         a->index.run == b->index.run && a->index.generation == b->index.generation;
}

// " --topology dp=2" where the run does not say where its ranks lie, "" where it does; none: its
// ranks are no copies.
std::optional<std::string> TopologyOption(const compare::RunSide& side) {
  std::vector<std::string> coordinates;
  for (int32_t rank = 0; rank < side.world(); ++rank)
    coordinates.push_back(side.CoordinatesOf(rank));
  const auto topology = compare::Topology::OfRanks(coordinates);
  if (!topology.ok() || topology->is_unknown() || topology->axes().empty())
    return fmt::format(" --topology {}={}", kAxis, side.world());
  return topology->Find(kAxis) ? std::optional<std::string>("") : std::nullopt;
}

}  // namespace

std::string ReplicaHint(const DiffSources& sources, const compare::DiffReport& report) {
  if (!report.inputs.first_differing_step || !AreOfOneRun(sources)) return "";
  const auto topology = TopologyOption(*sources.a.side);
  if (!topology) return "";
  const LoadedRun& run = *sources.a.run;
  const std::string generation =
      run.ref.generation ? fmt::format("@{}", *run.ref.generation) : std::string();
  return fmt::format(
      "A and B are ranks of one run; where each has its own part of the batch, what they hold as "
      "copies (weights, at every step) is compared by: tdump-diff {}{} --across {}{}",
      run.index.run, generation, kAxis, *topology);
}

}  // namespace tdump::tools
