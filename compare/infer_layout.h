// Inference of layouts that nobody gave: class, role and the shapes of both sides give candidates,
// the likeliest first; the data decides. What comes of it is always marked "inferred".
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compare/rearrange.h"
#include "compare/unshard.h"

namespace tdump::compare {

// What is known of a tensor of which ranks hold shards, and of the whole one on the other side.
struct LayoutQuestion {
  std::string name;  // NameOf: "decoder.layers.0.mlp.fc1.weight"
  std::string cls;   // of the module: "megatron.core...ColumnParallelLinear"
  Role role = Role::kOutput;
  std::vector<Shard> shards;
  std::vector<io::Hash128> hashes;  // of the shards, where all have one; else empty
  Shape whole;                      // of the other side
};

// Shards -> plan -> rearranged and cropped to the shape of the other side.
struct LayoutCandidate {
  Dims dims;
  UnshardPlan plan;
  std::optional<Rearrangement> rearrangement;
  Shape crop;       // empty: nothing is cropped
  std::string how;  // "concatenated on tp, as [d1 d0 d2], 24 units of padding dropped"

  Shape shape() const;  // that comes out
  // One shard as it is.
  bool is_one_shard() const { return plan.is_one_shard && !rearrangement && crop.empty(); }
};
Result<Source> OpenCandidate(const LayoutCandidate& candidate, const OpenShard& open);

// Those whose shape comes out as the other side's, likeliest first, at most 64; none when nothing
// fits. Names of dimensions are d0, d1, ...
std::vector<LayoutCandidate> LayoutCandidates(const LayoutQuestion& question,
                                              const Topology& topology);

struct InferredLayout {
  LayoutCandidate candidate;
  bool verified = false;  // the data agrees
  double error = 0;       // of the candidate; NaN: could not be measured
};

// Relative error of a candidate against the other side: 0 equal, about 1.4 unrelated; NaN: nothing
// to measure.
using CandidateError = std::function<Result<double>(const LayoutCandidate&)>;
// The first candidate with an error of at most `agree`; else the one with by far the least; else
// the likeliest. None of no candidates.
inline constexpr double kAgree = 0.1;
std::optional<InferredLayout> InferLayout(std::vector<LayoutCandidate> candidates,
                                          const CandidateError& error, double agree = kAgree);

// A CandidateError's number for two tensors of one shape: |a - b| / max(|a|, |b|) in the 2-norm
// over a sample of at most `units` units, and of what is not zero (compare/sampled_error.h);
// without what is not finite. NaN: nothing to measure. Units of opaque dtypes are equal or not.
Result<double> SampledError(TensorSource& a, TensorSource& b, uint64_t units = 1 << 16);

// Whether the summands of a sum, as far as SampledError looks, are what ranks hold that keep
// copies: all but one nothing but zeros, as where copies were lost, or one of them twice, as where
// copies were divided once too often. False for what is no sum, and where all are zero.
Result<bool> MayBeCopies(const UnshardPlan& plan, const OpenShard& open);

// Layouts that the data verified, for tensors whose data cannot: of the same name but for numbers,
// class, role and shapes. Not thread-safe.
class LayoutMemory {
 public:
  void Remember(const LayoutQuestion& question, const InferredLayout& layout);
  // The candidate with the remembered dims and rearrangement, moved to the front.
  void Prefer(const LayoutQuestion& question, std::vector<LayoutCandidate>* candidates) const;

 private:
  std::map<std::string, std::string> how_;  // by pattern
};

}  // namespace tdump::compare
