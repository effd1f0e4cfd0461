#include "compare/layout_odds.h"

#include <algorithm>

#include "compare/names.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

constexpr int kUnlikely = 4;

}  // namespace

LayoutOdds::LayoutOdds(const LayoutQuestion& question) {
  const std::string cls = LowerCase(question.cls), name = LowerCase(question.name);
  column_ = ContainsAny(cls, {"columnparallel", "colwise", "qkvparallel"}) ||
            (!ContainsAny(cls, {"rowparallel"}) &&
             ContainsAny(name, {"qkv", "q_proj", "k_proj", "v_proj", "gate", "up_proj", "fc1"}));
  row_ = ContainsAny(cls, {"rowparallel", "rowwise"}) ||
         (!column_ && ContainsAny(name, {"o_proj", "out_proj", "down_proj", "fc2", "linear_proj"}));
  vocabulary_ = ContainsAny(cls, {"vocabparallel", "embedding", "lmhead"}) ||
                ContainsAny(name, {"lm_head", "output_layer", "word_embeddings", "embed_tokens"});
  weight_ = IsOfParameters(question.role);
  input_ = question.role == Role::kInput || question.role == Role::kBefore ||
           question.role == Role::kGradInput;
}

int LayoutOdds::CostOf(const std::string& axis, Sharing sharing, size_t dim, size_t rank,
                       int equal) const {
  int cost = 0;
  if (equal == 1 && sharing != Sharing::kReplicated) cost += kUnlikely;
  if (equal == 0 && sharing == Sharing::kReplicated) cost += kUnlikely;
  if (axis == "dp" || axis == "fsdp") return cost + DataParallel(sharing, dim);
  if (axis == "cp") return cost + ContextParallel(sharing, dim, rank);
  if (axis == "pp") return cost + (sharing == Sharing::kReplicated ? 0 : 2 * kUnlikely);
  return cost + TensorParallel(sharing, dim, rank);
}

int LayoutOdds::TensorParallel(Sharing sharing, size_t dim, size_t rank) const {
  const bool last = dim + 1 == rank;
  switch (sharing) {
    case Sharing::kReplicated:
      return weight_ && rank > 1 && (column_ || row_ || vocabulary_) ? 2 : 1;
    case Sharing::kPartial:
      return !weight_ && !input_ && (row_ || vocabulary_) ? 1 : 3;
    case Sharing::kZigzag:
      return kUnlikely;
    case Sharing::kSplit:
      break;
  }
  if (weight_) {
    if (row_) return rank > 1 && last ? 0 : 3;
    if (column_ || vocabulary_) return dim == 0 ? 0 : 3;
    return dim == 0 ? 2 : 3;
  }
  if (last && (column_ ? !input_ : row_ && input_)) return 0;
  return last ? 2 : 3;  // the others: parallel over the sequence
}

int LayoutOdds::DataParallel(Sharing sharing, size_t dim) const {
  switch (sharing) {
    case Sharing::kReplicated:
      return weight_ ? 0 : 2;
    case Sharing::kPartial:
      return weight_ ? 3 : 2 * kUnlikely;
    case Sharing::kZigzag:
      return 2 * kUnlikely;
    case Sharing::kSplit:
      return weight_ ? 2 : (dim <= 1 ? 0 : kUnlikely);
  }
  return kUnlikely;
}

int LayoutOdds::ContextParallel(Sharing sharing, size_t dim, size_t rank) const {
  const int place = dim + 1 == rank && rank > 1 ? kUnlikely : 0;  // of the hidden size
  switch (sharing) {
    case Sharing::kReplicated:
      return weight_ ? 0 : 2;
    case Sharing::kPartial:
      return 3;
    case Sharing::kZigzag:
      return weight_ ? kUnlikely : place;
    case Sharing::kSplit:
      return weight_ ? kUnlikely : 1 + place;
  }
  return kUnlikely;
}

}  // namespace tdump::compare
