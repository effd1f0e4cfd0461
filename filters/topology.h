// The keys topology.order and topology.size: the parallel layout as the user gives it.
#pragma once

#include <string>

#include "filters/config.h"
#include "filters/reader.h"

namespace tdump::filters {

void ReadTopologyOrder(Reader& r, const Setting& s, Config* c);
std::string PrintTopologyOrder(const Config& c);
void ReadTopologySize(Reader& r, const Setting& s, Config* c);
std::string PrintTopologySize(const Config& c);

// Sizes without an order, axes that are in one of the two only, a product that is not `world` (0:
// not known).
void CheckTopology(const Config& config, int world, Mistakes* mistakes);

// "tp=1 pp=2 dp=0": the place of a rank, in the order of the axes; "" where the configuration does
// not say, or says it for another number of ranks.
std::string CoordinatesOf(const Config& config, int rank, int world);

// "topology: the sizes make 4 ranks, the job has 2"; "" where they fit, or either is not known.
std::string TopologyMisfit(const Config& config, int world);

}  // namespace tdump::filters
