#include "compare/foreign/pickle_heap.h"

namespace tdump::compare::foreign {

PickleRef PickleHeap::Add(PickleKind kind, int64_t number, uint64_t offset) {
  Charge(sizeof(PickleValue));
  values_.push_back({kind, number, offset});
  return static_cast<PickleRef>(values_.size() - 1);
}

PickleRef PickleHeap::AddText(PickleKind kind, std::string text, uint64_t offset) {
  Charge(sizeof text + text.size());
  texts_.push_back(std::move(text));
  return Add(kind, static_cast<int64_t>(texts_.size() - 1), offset);
}

PickleRef PickleHeap::AddList(PickleKind kind, std::vector<PickleRef> items, uint64_t offset) {
  Charge(sizeof items + items.size() * sizeof(PickleRef));
  lists_.push_back(std::move(items));
  return Add(kind, static_cast<int64_t>(lists_.size() - 1), offset);
}

PickleRef PickleHeap::AddStorage(PickleStorage storage, uint64_t offset) {
  Charge(sizeof storage + storage.key.size());
  storages_.push_back(std::move(storage));
  return Add(PickleKind::kStorage, static_cast<int64_t>(storages_.size() - 1), offset);
}

PickleRef PickleHeap::AddTensor(PickleTensor tensor, uint64_t offset) {
  Charge(sizeof tensor + 8 * (tensor.sizes.size() + tensor.strides.size()));
  tensors_.push_back(std::move(tensor));
  return Add(PickleKind::kTensor, static_cast<int64_t>(tensors_.size() - 1), offset);
}

PickleRef PickleHeap::AddOpaque(PickleRef named, uint64_t offset) {
  return Add(PickleKind::kOpaque, values_[named].number, offset);
}

void PickleHeap::AppendItems(PickleRef ref, std::span<const PickleRef> items) {
  Charge(items.size_bytes());
  std::vector<PickleRef>& list = lists_[Index(ref)];
  list.insert(list.end(), items.begin(), items.end());
}

}  // namespace tdump::compare::foreign
