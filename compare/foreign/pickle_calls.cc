#include "compare/foreign/pickle_calls.h"

#include <string_view>

#include "compare/foreign/dtypes.h"

namespace tdump::compare::foreign {
namespace {

using Arguments = std::vector<PickleRef>;

// What a pickle calls, by how its arguments are read.
enum class Form : uint8_t {
  kTensor,    // storage, offset, size, stride, [requires_grad, hooks, [metadata]]
  kTensorV3,  // the same of an untyped storage, dtype behind the hooks
  kFirst,     // the first argument, a tensor
  kParameter,
  kFromType,  // function, type, its arguments, state
  kList,
  kDict,
  kEmptyDict,  // of what takes a factory
};
struct Known {
  std::string_view name;
  Form form;
};
constexpr Known kKnown[] = {
    {"torch._utils._rebuild_tensor", Form::kTensor},
    {"torch._utils._rebuild_tensor_v2", Form::kTensor},
    {"torch._utils._rebuild_tensor_v3", Form::kTensorV3},
    {"torch._utils._rebuild_parameter", Form::kParameter},
    {"torch._utils._rebuild_parameter_with_state", Form::kParameter},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", Form::kFirst},
    {"torch._tensor._rebuild_from_type_v2", Form::kFromType},
    {"torch._tensor._rebuild_from_type", Form::kFromType},
    {"torch.Size", Form::kList},
    {"builtins.list", Form::kList},
    {"builtins.tuple", Form::kList},
    {"builtins.set", Form::kList},
    {"builtins.frozenset", Form::kList},
    {"__builtin__.list", Form::kList},
    {"__builtin__.tuple", Form::kList},
    {"__builtin__.set", Form::kList},
    {"builtins.dict", Form::kDict},
    {"collections.OrderedDict", Form::kDict},
    {"collections.defaultdict", Form::kEmptyDict},
};

constexpr std::string_view kTorch = "torch.";
constexpr size_t kMaxKey = 256;
constexpr size_t kMostArguments = 64;  // of a call; they are copied

const Known* FindKnown(std::string_view name) {
  for (const Known& known : kKnown) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

bool GetInteger(const PickleHeap& heap, PickleRef ref, int64_t* number) {
  *number = heap.at(ref).number;
  return heap.kind(ref) == PickleKind::kInteger;
}

bool GetIntegers(const PickleHeap& heap, PickleRef ref, std::vector<int64_t>* numbers) {
  if (heap.kind(ref) != PickleKind::kList || heap.items(ref).size() > 64) return false;
  for (const PickleRef item : heap.items(ref)) {
    int64_t number = 0;
    if (!GetInteger(heap, item, &number)) return false;
    numbers->push_back(number);
  }
  return true;
}

bool IsTrue(const PickleHeap& heap, PickleRef ref) {
  return heap.kind(ref) == PickleKind::kBool && heap.at(ref).number != 0;
}

// {'conj': True}, {'neg': True}: bits of the view, not of the storage.
bool HasLazySign(const PickleHeap& heap, PickleRef metadata) {
  if (heap.kind(metadata) != PickleKind::kDict) return false;
  const Arguments& items = heap.items(metadata);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (heap.kind(items[i]) != PickleKind::kText) continue;
    const std::string& key = heap.text(items[i]);
    if ((key == "conj" || key == "neg") && IsTrue(heap, items[i + 1])) return true;
  }
  return false;
}

bool GetDType(const PickleHeap& heap, PickleRef ref, DType* dtype) {
  if (heap.kind(ref) != PickleKind::kGlobal || !heap.text(ref).starts_with(kTorch)) return false;
  const auto found = TorchDType(std::string_view(heap.text(ref)).substr(kTorch.size()));
  if (found) *dtype = *found;
  return found.has_value();
}

// False: not arguments of these functions.
bool MakeTensor(const Arguments& arguments, bool v3, const PickleHeap& heap, PickleTensor* tensor) {
  const size_t least = v3 ? 7 : 4;
  if (arguments.size() < least || heap.kind(arguments[0]) != PickleKind::kStorage) return false;
  int64_t first = 0;
  if (!GetInteger(heap, arguments[1], &first) || first < 0 ||
      !GetIntegers(heap, arguments[2], &tensor->sizes) ||
      !GetIntegers(heap, arguments[3], &tensor->strides))
    return false;
  tensor->first = static_cast<uint64_t>(first);
  tensor->storage = static_cast<size_t>(heap.at(arguments[0]).number);
  if (arguments.size() > 4) tensor->requires_grad = IsTrue(heap, arguments[4]);
  const size_t metadata = v3 ? 7 : 6;
  if (arguments.size() > metadata) tensor->lazy_sign = HasLazySign(heap, arguments[metadata]);
  if (v3) return GetDType(heap, arguments[6], &tensor->dtype);
  const std::optional<DType>& dtype = heap.storage(arguments[0]).dtype;
  if (dtype) tensor->dtype = *dtype;
  return dtype.has_value();
}

// list(x) and dict(x) of a list or dictionary that only this pickle knows: x itself.
PickleRef AsContainer(PickleKind kind, PickleRef function, const Arguments& arguments,
                      uint64_t offset, PickleHeap* heap) {
  if (arguments.empty()) return heap->AddList(kind, {}, offset);
  const bool is_one = arguments.size() == 1 && heap->kind(arguments[0]) == kind;
  return is_one ? arguments[0] : heap->AddOpaque(function, offset);
}

PickleRef AsTensor(bool v3, PickleRef function, const Arguments& arguments, uint64_t offset,
                   PickleHeap* heap) {
  PickleTensor tensor;
  if (!MakeTensor(arguments, v3, *heap, &tensor)) return heap->AddOpaque(function, offset);
  return heap->AddTensor(std::move(tensor), offset);
}

// A parameter is its tensor, with a flag.
PickleRef AsParameter(PickleRef function, const Arguments& arguments, uint64_t offset,
                      PickleHeap* heap) {
  if (arguments.empty() || heap->kind(arguments[0]) != PickleKind::kTensor)
    return heap->AddOpaque(function, offset);
  PickleTensor tensor = heap->tensor(arguments[0]);
  tensor.parameter = true;
  tensor.requires_grad = arguments.size() > 1 && IsTrue(*heap, arguments[1]);
  return heap->AddTensor(std::move(tensor), offset);
}

// A subclass whose data is a plain tensor: function(*arguments) is the tensor.
PickleRef AsPlainTensor(PickleRef function, const Arguments& arguments, uint64_t offset,
                        PickleHeap* heap) {
  if (arguments.size() < 3 || heap->kind(arguments[0]) != PickleKind::kGlobal ||
      heap->kind(arguments[2]) != PickleKind::kList)
    return heap->AddOpaque(function, offset);
  const Known* inner = FindKnown(heap->text(arguments[0]));
  if (inner == nullptr || inner->form == Form::kFromType)
    return heap->AddOpaque(arguments[0], offset);
  return CallGlobal(arguments[0], arguments[2], offset, heap);
}

}  // namespace

PickleRef CallGlobal(PickleRef function, PickleRef passed, uint64_t offset, PickleHeap* heap) {
  const Known* known = FindKnown(heap->text(function));
  if (known == nullptr || heap->items(passed).size() > kMostArguments)
    return heap->AddOpaque(function, offset);
  const Arguments arguments = heap->items(passed);  // the heap may move while values are added
  switch (known->form) {
    case Form::kTensor:
    case Form::kTensorV3:
      return AsTensor(known->form == Form::kTensorV3, function, arguments, offset, heap);
    case Form::kFirst:
      if (arguments.empty() || heap->kind(arguments[0]) != PickleKind::kTensor) break;
      return arguments[0];
    case Form::kParameter:
      return AsParameter(function, arguments, offset, heap);
    case Form::kFromType:
      return AsPlainTensor(function, arguments, offset, heap);
    case Form::kList:
      return AsContainer(PickleKind::kList, function, arguments, offset, heap);
    case Form::kDict:
      return AsContainer(PickleKind::kDict, function, arguments, offset, heap);
    case Form::kEmptyDict:
      return heap->AddList(PickleKind::kDict, {}, offset);
  }
  return heap->AddOpaque(function, offset);
}

PickleRef PersistentStorage(PickleRef id, uint64_t offset, PickleHeap* heap) {
  const auto unknown = [&](const char* what) {
    return heap->AddText(PickleKind::kOpaque, what, offset);
  };
  if (heap->kind(id) != PickleKind::kList || heap->items(id).size() < 5)
    return unknown("a persistent id");
  const Arguments& items = heap->items(id);
  const auto is_text = [&](size_t i) { return heap->kind(items[i]) == PickleKind::kText; };
  int64_t units = 0;
  if (!is_text(0) || heap->text(items[0]) != "storage" ||
      heap->kind(items[1]) != PickleKind::kGlobal || !is_text(2) ||
      heap->text(items[2]).size() > kMaxKey || !GetInteger(*heap, items[4], &units) || units < 0)
    return unknown("a persistent id");
  // A view of another storage, of files older than torch 0.4.
  if (items.size() > 5 && heap->kind(items[5]) != PickleKind::kNone)
    return unknown("a view of a storage");
  const std::string_view cls = heap->text(items[1]);
  const std::string_view name = cls.substr(cls.rfind('.') + 1);
  PickleStorage storage{.key = heap->text(items[2]), .units = static_cast<uint64_t>(units)};
  storage.dtype = StorageDType(name);
  const bool untyped = name == "UntypedStorage" || name == "_UntypedStorage";
  if (!cls.starts_with(kTorch) || (!storage.dtype && !untyped))
    return heap->AddOpaque(items[1], offset);
  return heap->AddStorage(std::move(storage), offset);
}

}  // namespace tdump::compare::foreign
