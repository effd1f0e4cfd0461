// What inference of layouts looks at: how well a layout of one side's shards agrees with one of the
// other's, and how the report calls what comes of it.
#pragma once

#include <string>
#include <vector>

#include "compare/infer_layout.h"
#include "compare/resolve_layout.h"
#include "compare/sampled_error.h"

namespace tdump::compare {

OpenShard Opener(const ShardSet& set);
bool SameShapes(const ShardSet& set);
bool SameHashes(const ShardSet& set);  // false where some have none
bool SameBytes(Source x, Source y, Status* status);

// Relative error of a candidate of one side against a layout of the other; NaN: nothing to measure.
// `numbers` and `settled_numbers` are of these two layouts, for callers that ask of one again; may
// be null.
Result<double> ErrorOf(const ShardSet& set, const LayoutCandidate& candidate, const ShardSet& other,
                       const LayoutCandidate& settled, NumberBlocks* numbers = nullptr,
                       NumberBlocks* settled_numbers = nullptr);
inline constexpr double kUnlikely = 2;  // more than the error of unrelated tensors

LayoutQuestion QuestionOf(const ShardSet& set, const Shape& whole);
// Likeliest first, those that are remembered before. `least_cost`: of them all, where there are
// any.
std::vector<LayoutCandidate> CandidatesOf(const ShardSet& set, const LayoutQuestion& question,
                                          bool may_reorder, const LayoutMemory& memory,
                                          int* least_cost = nullptr);

LayoutCandidate Planned(UnshardPlan plan);
// Copies on every rank, where shapes say nothing else; of a tied weight also in several stages of a
// pipeline.
Result<LayoutCandidate> Replicated(const ShardSet& set);
Status NothingFits(const ShardSet& set, const Shape& whole);

Proof ProofOf(const InferredLayout& inferred);
std::string InferredHow(const InferredLayout& inferred);

}  // namespace tdump::compare
