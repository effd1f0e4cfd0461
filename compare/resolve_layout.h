// How what the ranks of two sides hold under one name makes two tensors of one shape: as it is said
// (--dims, the capture's own annotations, a map), else inferred from classes and shapes and
// verified on the data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/infer_layout.h"
#include "compare/job_step.h"
#include "core/status.h"

namespace tdump::compare {

// Dims that somebody gave, and the ranks' places that they speak of.
struct GivenDims {
  Dims dims;
  Topology topology;   // of a mesh, or the side's
  std::string source;  // "--dims", "annotated", "map"
  SizeTable numbers;   // of records that the dims name
  Status lacking;      // of those that could not be read
};

// One side's shards of a name. The step outlives it.
struct ShardSet {
  const JobStep* step = nullptr;
  std::string name, cls;
  Role role = Role::kOutput;
  std::vector<ShardRef> refs;
  std::vector<Shard> shards;  // of refs
  // Of refs, where all have one; else of what all kept instead (ShardDigests); else empty.
  std::vector<io::Hash128> hashes;
  bool has_payload = false;      // all have one
  std::vector<GivenDims> given;  // the first that fits holds; empty: nobody said
  bool padded = false;           // what reaches beyond the other side is padding
  Topology topology;
};

// What speaks for a layout.
enum class Proof : uint8_t {
  kSaid,       // somebody did, or there is one record
  kAgrees,     // inferred, and the data agree
  kDisagrees,  // inferred, and they do not
  kNone,       // inferred without data
};

struct ResolvedLayouts {
  LayoutCandidate a, b;
  std::string how_a, how_b;    // for the report; "" where a tensor is one record
  std::string mean_a, mean_b;  // dims that were not taken, of an inferred layout: FindMean
  Proof proof_a = Proof::kSaid, proof_b = Proof::kSaid;
};

// `may_reorder`: without being told, dimensions may be in another order on the other side (runs of
// other frameworks); else shards are put together and nothing more, and shapes that differ stay so.
// Error: of this name alone; what is missing or contradicts, and what to say.
// `memory_*`: layouts that the data of each side proved so far, for tensors without data.
Result<ResolvedLayouts> ResolveLayouts(const ShardSet& a, const ShardSet& b, bool may_reorder,
                                       LayoutMemory* memory_a, LayoutMemory* memory_b);

// Whether some layout may give both sides one shape: in every dimension what one rank holds is at
// most what the other side's ranks hold together, copies counted once. True where the numbers of
// dimensions differ, for one may be flat.
bool MayHaveOneShape(const ShardSet& a, const ShardSet& b);

// Shards that should equal another one by the plan, and do not: pairs (the one that is used, the
// other), one for each distinct content. By hash where there are hashes, else by their bytes.
struct DifferingReplica {
  size_t first = 0, other = 0;
};
Result<std::vector<DifferingReplica>> DifferingReplicas(const ShardSet& set,
                                                        const UnshardPlan& plan);

}  // namespace tdump::compare
