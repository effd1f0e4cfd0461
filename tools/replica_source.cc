#include "tools/replica_source.h"

#include <memory>
#include <utility>
#include <vector>

#include "compare/across.h"
#include "compare/topology.h"

namespace tdump::tools {
namespace {

// What both sides stand on.
struct Whole {
  std::unique_ptr<compare::RunSide> run;
  compare::Replicas replicas;
};

Result<compare::Topology> TopologyOf(const compare::RunSide& run, const std::string& text) {
  if (!text.empty()) return compare::Topology::Parse(text, run.world());
  std::vector<std::string> coordinates;
  for (int32_t rank = 0; rank < run.world(); ++rank) coordinates.push_back(run.CoordinatesOf(rank));
  return compare::Topology::OfRanks(coordinates);
}

}  // namespace

Result<DiffSources> OpenReplicas(const std::string& text, const std::string& axis,
                                 const std::string& topology_text) {
  DiffSources sources;
  TDUMP_ASSIGN_OR_RETURN(sources.a, OpenDiffSource(text));
  if (sources.a.run == nullptr || sources.a.picked || sources.a.run->ref.rank)
    return InvalidArgument("--across compares the ranks of a whole run of tdump, not '" + text +
                           "'");
  auto whole = std::make_shared<Whole>();
  whole->run = std::move(sources.a.side);
  TDUMP_ASSIGN_OR_RETURN(const compare::Topology topology, TopologyOf(*whole->run, topology_text));
  TDUMP_ASSIGN_OR_RETURN(whole->replicas, compare::Replicas::Along(axis, topology));
  for (const bool first : {true, false}) {
    DiffSource& side = first ? sources.a : sources.b;
    side.side = std::make_unique<compare::ReplicaSide>(*whole->run, whole->replicas, first);
    side.stands_on = whole;
  }
  return sources;
}

}  // namespace tdump::tools
