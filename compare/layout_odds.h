// LayoutOdds: how likely it is that an axis shares a tensor in some way, from what the module is
// called and does. Costs add up over axes; the least is the likeliest.
#pragma once

#include <string>
#include <vector>

#include "compare/infer_layout.h"

namespace tdump::compare {

enum class Sharing : uint8_t { kReplicated, kPartial, kSplit, kZigzag };

class LayoutOdds {
 public:
  explicit LayoutOdds(const LayoutQuestion& question);

  // `dim`: that is split, of `rank`. `equal`: shards along the axis are equal (0 no, 1 yes, -1 not
  // known).
  int CostOf(const std::string& axis, Sharing sharing, size_t dim, size_t rank, int equal) const;
  bool IsVocabulary() const { return vocabulary_; }

 private:
  int TensorParallel(Sharing sharing, size_t dim, size_t rank) const;
  int DataParallel(Sharing sharing, size_t dim) const;
  int ContextParallel(Sharing sharing, size_t dim, size_t rank) const;

  bool column_ = false, row_ = false, vocabulary_ = false;
  bool weight_ = false;  // a parameter, its gradient, a buffer
  bool input_ = false;
};

struct LikelyLayout {
  LayoutCandidate layout;
  int cost = 0;  // the larger, the less likely
};
// LayoutCandidates with what they cost.
std::vector<LikelyLayout> LikelyLayouts(const LayoutQuestion& question, const Topology& topology);

}  // namespace tdump::compare
