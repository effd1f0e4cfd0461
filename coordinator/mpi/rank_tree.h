// RankTree: a tree over the ranks that have not left, by which every rank has few neighbours. The
// lowest rank is the root. A rank's parent is always lower than itself, so that ranks which know
// different things about who left never send a message in a circle.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace tdump::coordinator {

class RankTree {
 public:
  RankTree(int32_t rank, int32_t world, int32_t fan_out);
  void Leave(int32_t rank);

  bool is_root() const { return parent_ < 0; }
  int32_t parent() const { return parent_; }  // -1 for the root
  const std::vector<int32_t>& children() const { return children_; }

 private:
  int32_t ParentOf(int32_t rank) const;
  void Rebuild();

  const int32_t rank_;
  const int32_t world_;
  const int32_t fan_out_;
  std::set<int32_t> left_;
  int32_t parent_ = -1;
  std::vector<int32_t> children_;
};

}  // namespace tdump::coordinator
