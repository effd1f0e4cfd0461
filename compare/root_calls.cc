#include "compare/root_calls.h"

#include <algorithm>

#include "compare/element.h"
#include "compare/roles.h"

namespace tdump::compare {

void RootCalls::Add(OperatorKind kind, const std::string& root, uint64_t begin) {
  if (kind != OperatorKind::kModule) return;
  if (first_ == kNever) first_root_ = root;
  if (root == first_root_) {
    first_ = std::min(first_, begin);
  } else if (begin < first_) {
    first_of_others_ = first_;
    first_root_ = root;
    first_ = begin;
  } else {
    first_of_others_ = std::min(first_of_others_, begin);
  }
}

bool RootCalls::IsAnotherBefore(const std::string& root, uint64_t begin) const {
  return (root == first_root_ ? first_of_others_ : first_) < begin;
}

bool RootCalls::IsData(const io::Record& input) const {
  if (!IsRootInput(input.key)) return false;
  const bool is_first = input.key.root.empty();  // the model: given data in every part of a batch
  return is_first || FormatOf(input.dtype).kind == NumberKind::kInteger ||
         !IsAnotherBefore(input.key.root, input.call_begin);
}

}  // namespace tdump::compare
