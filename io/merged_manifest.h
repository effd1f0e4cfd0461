// The merged manifest, `manifest.tdm` at the root of a run: what tdump-merge found, kept. Frames:
//
//   kMerged (MergedHead), then for each process directory: kMerged (MergedSource) and the frames of
//   its manifest, copied as they are, whatever they hold; then for each generation: kMerged
//   (MergedRun and its companions).
//
// It is a copy that can be made again at any time: tools read it when it is fresh, else
// they merge in memory. Staleness is told by size and modification time of every
// manifest and directory it was made from.
#pragma once

#include <string>
#include <vector>

#include "core/env.h"
#include "core/status.h"
#include "io/merged_sections.h"
#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::io {

inline constexpr std::string_view kMergedManifestName = "manifest.tdm";

struct MergedManifest {
  MergedHeadSection head;
  // In the order of PassStore::processes() when it was made.
  std::vector<MergedSourceSection> sources;
  std::vector<RunIndex> generations;
  std::vector<Damage> damage;
};

// Writes all generations under the run's directory; appears by rename. `store` is what
// `generations` were built from.
Status WriteMergedManifest(Env* env, const PassStore& store,
                           const std::vector<RunIndex>& generations);

// kNotFound when the run has none. Indices in it that point outside its own lists are kCorrupt.
Result<MergedManifest> ReadMergedManifest(Env* env, const std::string& run);

// Nothing it was made from has changed, and `store` lists the same processes in the same order.
bool IsFresh(Env* env, const PassStore& store, const MergedManifest& merged);

}  // namespace tdump::io
