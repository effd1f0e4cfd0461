// A second observer of a job's operators, sharing nothing with tdump: it copies what the outermost
// ones take and return, at that moment, element by element. Loaded by the job itself. Only for jobs
// that call operators from one thread.
//
// The file is a sequence of: 'C' and a name, for a call; 'T' with role, place and bytes, for each
// of its tensors. Texts and bytes have their length (8 bytes) before them.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace {

std::string copied;
bool observing = false;
int depth = 0;  // of operators that have a kernel of their own

void Add(std::string_view bytes) {
  const uint64_t size = bytes.size();
  copied.append(reinterpret_cast<const char*>(&size), sizeof size);
  copied.append(bytes);
}

void AddElements(const at::Tensor& tensor) {
  const size_t item = tensor.itemsize();
  const auto* base = static_cast<const char*>(tensor.const_data_ptr());
  const uint64_t size = tensor.numel() * item;
  copied.append(reinterpret_cast<const char*>(&size), sizeof size);
  if (tensor.is_contiguous()) return void(copied.append(base, size));
  const size_t start = copied.size();
  copied.resize(start + size);
  std::vector<int64_t> at(tensor.dim(), 0);
  for (int64_t n = 0; n < tensor.numel(); ++n) {
    int64_t offset = 0;
    for (int64_t d = 0; d < tensor.dim(); ++d) offset += at[d] * tensor.stride(d);
    std::memcpy(copied.data() + start + n * item, base + offset * item, item);
    for (int64_t d = tensor.dim() - 1; d >= 0 && ++at[d] == tensor.size(d); --d) at[d] = 0;
  }
}

void AddTensors(const c10::IValue& value, std::string_view role, const std::string& place) {
  if (value.isTensor() && value.toTensor().defined()) {
    copied.push_back('T');
    Add(role);
    Add(place);
    AddElements(value.toTensor());
  } else if (value.isList()) {
    const auto items = value.toListRef();
    for (size_t i = 0; i < items.size(); ++i)
      AddTensors(items[i], role, place + (place.empty() ? "" : ".") + std::to_string(i));
  }
}

struct Operator : at::ObserverContext {
  ~Operator() override { --depth; }
  bool outermost = false;
  std::vector<std::pair<std::string, c10::IValue>> written;
};

std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& fn) {
  if (!observing || !fn.operator_name()) return nullptr;
  const auto handle = c10::Dispatcher::singleton().findSchema(*fn.operator_name());
  if (!handle || handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))
    return nullptr;
  auto op = std::make_unique<Operator>();
  op->outermost = depth++ == 0;
  if (!op->outermost) return op;
  copied.push_back('C');
  Add(fn.name());
  const auto& arguments = handle->schema().arguments();
  const auto inputs = fn.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    const std::string place =
        arguments[i].kwarg_only() ? "kwargs." + arguments[i].name() : std::to_string(i);
    AddTensors(inputs[i], written ? "before" : "input", place);
    if (written) op->written.emplace_back(place, inputs[i]);
  }
  return op;
}

void OnEnd(const at::RecordFunction& fn, at::ObserverContext* context) {
  auto* op = static_cast<Operator*>(context);
  if (op == nullptr || !op->outermost) return;
  const auto& outputs = fn.outputs();
  for (size_t i = 0; i < outputs.size(); ++i)
    AddTensors(outputs[i], "output", outputs.size() == 1 ? "" : std::to_string(i));
  for (const auto& [place, value] : op->written) AddTensors(value, "after", place);
}

// Writes that LibTorch cannot know of: one says that it writes, the other not even that.
at::Tensor& Negate(at::Tensor& x) {
  auto* values = static_cast<float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) values[i] = -values[i];
  return x;
}

void AddOneUnsaid(const at::Tensor& x) {
  auto* values = static_cast<float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) values[i] += 1;
}

}  // namespace

TORCH_LIBRARY(opaque, library) {
  library.def("negate_(Tensor(a!) x) -> Tensor(a!)");
  library.def("add_one(Tensor x) -> ()");
}

TORCH_LIBRARY_IMPL(opaque, CPU, library) {
  library.impl("negate_", Negate);
  library.impl("add_one", AddOneUnsaid);
}

extern "C" void copy_operators_begin() {
  static const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(OnStart, OnEnd)
                                                       .needsInputs(true)
                                                       .needsOutputs(true)
                                                       .scopes({at::RecordScope::FUNCTION}));
  (void)handle;
  observing = true;
}

extern "C" void copy_operators_end(const char* file) {
  observing = false;
  std::ofstream(file, std::ios::binary).write(copied.data(), copied.size());
  copied.clear();
}
