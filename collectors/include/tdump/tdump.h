// One-liners for C++ programs that use LibTorch. Header only: nothing is linked, and where the
// program is not started under tdump each of them is a test of one pointer.
//
//   tdump::watch(model);                     once: the modules of `model` get their names
//   tdump::scope scope(this, x);             first line of a module's forward(x): a call of it
//   return scope.output(y);                  what it returns
//   tdump::tap(partial, "partial");          this tensor, now, under a name of its own
//   tdump::tap_grad(partial, "partial");     its gradient, when it arrives
//   tdump::step(n);                          the job's step n begins here
//
// A watched model needs no scope for the modules of torch::nn whose forward takes one to four
// tensors and is compiled into LibTorch (Linear, Conv, LayerNorm, Embedding, Dropout, activations,
// losses, ...); those are seen by themselves. Needed for a module class of the program, and for
// what LibTorch defines in its headers (Sequential, BatchNorm, InstanceNorm).
//
// Threads: any. Nothing here throws, keeps a tensor alive or changes one.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tdump/tdump_api.h"

namespace tdump {
namespace detail {

// Null where tdump is not in this process. One that is older than this header has a shorter table,
// of which the first functions can be called.
inline const TdumpApi* Api() {
  static const TdumpApi* const api = [] {
    const void* found = tdump_api != nullptr ? tdump_api(TDUMP_API_VERSION) : nullptr;
    const auto* table = static_cast<const TdumpApi*>(found);
    return table != nullptr && table->bytes >= offsetof(TdumpApi, tap_grad) ? table : nullptr;
  }();
  return api;
}

using Record = void (*)(void* scope, const void* tensor, const char* arg);

inline std::string Part(const std::string& arg, size_t index) {
  return (arg.empty() ? "" : arg + ".") + std::to_string(index);
}

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;

// Records the tensors in a value under their positions; anything else is passed over.
template <class T>
void Visit(Record record, void* scope, const T& value, const std::string& arg) {
  if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {
    const at::Tensor& tensor = value;
    record(scope, &tensor, arg.c_str());
  } else if constexpr (is_optional<T>) {
    if (value) Visit(record, scope, *value, arg);
  } else if constexpr (is_vector<T>) {
    size_t index = 0;
    for (const auto& item : value) Visit(record, scope, item, Part(arg, index++));
  } else if constexpr (is_tuple<T>) {
    std::apply(
        [&](const auto&... items) {
          size_t index = 0;
          (Visit(record, scope, items, Part(arg, index++)), ...);
        },
        value);
  }
}

}  // namespace detail

// Names `module` and all its parts as named_modules() does; `root` distinguishes the models of a
// program that has several ("actor", "critic"). Again after the tree has changed. Kept weakly.
inline void watch(const std::shared_ptr<torch::nn::Module>& module, const std::string& root = "") {
  if (const TdumpApi* api = detail::Api()) api->watch(&module, root.c_str());
}
template <class Contained>
void watch(const torch::nn::ModuleHolder<Contained>& holder, const std::string& root = "") {
  watch(std::shared_ptr<torch::nn::Module>(holder.ptr()), root);
}

// Records `tensor` as it is now under `name`, below the module whose forward is running. Returns
// it, so that a tap fits into an expression.
inline const at::Tensor& tap(const at::Tensor& tensor, const char* name,
                             std::initializer_list<const char*> tags = {}) {
  if (const TdumpApi* api = detail::Api()) api->tap(&tensor, name, tags.begin(), tags.size());
  return tensor;
}

// Records the gradient of `tensor` when it arrives, under `name`, below the module whose forward is
// running: as `grad_output` of a tap of that name. Nothing of a tensor that needs no gradient.
inline const at::Tensor& tap_grad(const at::Tensor& tensor, const char* name,
                                  std::initializer_list<const char*> tags = {}) {
  const TdumpApi* api = detail::Api();
  if (api != nullptr && api->bytes >= sizeof(TdumpApi))
    api->tap_grad(&tensor, name, tags.begin(), tags.size());
  return tensor;
}

// A step of the job begins here; `number` is the job's own count, where it has one.
inline void step(int64_t number = -1) {
  if (const TdumpApi* api = detail::Api()) api->step(number);
}

// One call of a module or of a named part of the program, from construction to the end of the
// block. The arguments after the first are its inputs 0, 1, ...: tensors, also in optional, vector,
// pair or tuple; others count but are not recorded. Lives on the stack of one thread.
class scope {
 public:
  template <class... Inputs>
  explicit scope(const torch::nn::Module* module, const Inputs&... inputs) {
    Begin(module, nullptr, inputs...);
  }
  template <class... Inputs>
  explicit scope(const char* name, const Inputs&... inputs) {
    Begin(nullptr, name, inputs...);
  }
  ~scope() {
    if (token_ == nullptr) return;
    detail::Api()->scope_end(token_, std::uncaught_exceptions() > exceptions_ ? 1 : 0);
  }
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

  // Records what the call returns and hands it on: `return scope.output(y);`
  template <class T>
  T output(T&& value) {
    if (token_ != nullptr) detail::Visit(detail::Api()->scope_output, token_, value, "");
    return std::forward<T>(value);
  }

 private:
  template <class... Inputs>
  void Begin(const torch::nn::Module* module, const char* name, const Inputs&... inputs) {
    const TdumpApi* api = detail::Api();
    if (api == nullptr) return;
    exceptions_ = std::uncaught_exceptions();
    token_ = api->scope_begin(module, name);
    if (token_ == nullptr) return;
    size_t index = 0;
    (detail::Visit(api->scope_input, token_, inputs, std::to_string(index++)), ...);
  }

  void* token_ = nullptr;
  int exceptions_ = 0;
};

}  // namespace tdump
