#include "coordinator/mpi/rank_tree.h"

namespace tdump::coordinator {

RankTree::RankTree(int32_t rank, int32_t world, int32_t fan_out)
    : rank_(rank), world_(world), fan_out_(fan_out) {
  Rebuild();
}

void RankTree::Leave(int32_t rank) {
  if (rank != rank_ && left_.insert(rank).second) Rebuild();
}

// The nearest ancestor in the full tree that is still there, else the lowest rank that is.
int32_t RankTree::ParentOf(int32_t rank) const {
  for (int32_t up = rank; up > 0;) {
    up = (up - 1) / fan_out_;
    if (!left_.contains(up)) return up;
  }
  for (int32_t lowest = 0; lowest < rank; ++lowest) {
    if (!left_.contains(lowest)) return lowest;
  }
  return -1;
}

void RankTree::Rebuild() {
  parent_ = ParentOf(rank_);
  children_.clear();
  for (int32_t other = rank_ + 1; other < world_; ++other) {
    if (!left_.contains(other) && ParentOf(other) == rank_) children_.push_back(other);
  }
}

}  // namespace tdump::coordinator
