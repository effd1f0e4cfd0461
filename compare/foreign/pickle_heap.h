// PickleHeap: the values a pickle made, as plain data. Nothing of it is code: a global is its name,
// an object of a class that is not known is opaque, and stays so whatever the pickle does to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"

namespace tdump::compare::foreign {

using PickleRef = uint32_t;  // of a value in its heap

enum class PickleKind : uint8_t {
  kNone,
  kBool,     // number
  kInteger,  // number
  kFloat,
  kText,
  kBytes,    // not kept
  kList,     // also tuples and sets: items
  kDict,     // items: key, value, key, value
  kGlobal,   // text: "torch._utils._rebuild_tensor_v2"
  kStorage,  // number: which of the storages
  kTensor,   // number: which of the tensors
  kOpaque,   // text: the global it was made by
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t number = 0;   // or where what the kind says lies in the heap
  uint64_t offset = 0;  // of the opcode, for messages
};

// Of torch.save: the bytes lie elsewhere in the file, under `key`.
struct PickleStorage {
  std::string key;
  std::optional<DType> dtype;  // none: untyped, counted in bytes
  uint64_t units = 0;
};

struct PickleTensor {
  size_t storage = 0;
  uint64_t first = 0;
  std::vector<int64_t> sizes, strides;
  DType dtype;
  bool parameter = false, requires_grad = false;
  bool lazy_sign = false;  // a conjugate or negative view, whose storage has the other sign
};

// Not thread-safe. Counts its memory, so that a small pickle that repeats what it remembered cannot
// ask for much.
class PickleHeap {
 public:
  static constexpr uint64_t kMaxBytes = 256ull << 20;

  bool full() const { return bytes_ > kMaxBytes; }
  void Charge(uint64_t bytes) { bytes_ += bytes; }

  PickleRef Add(PickleKind kind, int64_t number, uint64_t offset);
  PickleRef AddText(PickleKind kind, std::string text, uint64_t offset);
  PickleRef AddList(PickleKind kind, std::vector<PickleRef> items, uint64_t offset);
  PickleRef AddStorage(PickleStorage storage, uint64_t offset);
  PickleRef AddTensor(PickleTensor tensor, uint64_t offset);
  // An opaque value with the text of another value.
  PickleRef AddOpaque(PickleRef named, uint64_t offset);

  const PickleValue& at(PickleRef ref) const { return values_[ref]; }
  PickleKind kind(PickleRef ref) const { return values_[ref].kind; }
  const std::string& text(PickleRef ref) const { return texts_[Index(ref)]; }
  bool has_items(PickleRef ref) const {
    return kind(ref) == PickleKind::kList || kind(ref) == PickleKind::kDict;
  }
  const std::vector<PickleRef>& items(PickleRef ref) const { return lists_[Index(ref)]; }
  void AppendItems(PickleRef ref, std::span<const PickleRef> items);
  const PickleStorage& storage(PickleRef ref) const { return storages_[Index(ref)]; }
  const PickleTensor& tensor(PickleRef ref) const { return tensors_[Index(ref)]; }

  const std::vector<PickleStorage>& storages() const { return storages_; }

 private:
  size_t Index(PickleRef ref) const { return static_cast<size_t>(values_[ref].number); }

  std::vector<PickleValue> values_;
  std::vector<std::string> texts_;
  std::vector<std::vector<PickleRef>> lists_;
  std::vector<PickleStorage> storages_;
  std::vector<PickleTensor> tensors_;
  uint64_t bytes_ = 0;
};

}  // namespace tdump::compare::foreign
