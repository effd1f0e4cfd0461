// The trees of torch::nn modules that the program announced with
// tdump::watch: names, parameters and buffers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectors/torch/export.h"
#include "collectors/torch/pointer_set.h"
#include "collectors/torch/tied_tensors.h"
#include "core/fork_mutex.h"
#include "core/runtime.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace tdump::collectors {

// One watched tree. Never destroyed: a call may be under way in it.
struct CxxRoot {
  uint64_t number = 0;
  std::string prefix;  // "" or the name given to watch()
  std::weak_ptr<torch::nn::Module> top;
  std::atomic<bool> expected{false};               // the coverage knows which operators to expect
  std::atomic<uint64_t> state_pass{~uint64_t{0}};  // parameters and buffers were recorded in it
  // Of the call that records them. Their memory is kept from pass to pass.
  std::mutex state_mutex;
  TiedTensors recorded;
  PointerSet modules, watched;
  Recorder::CallScope state_scope;
};

struct CxxModule {
  std::weak_ptr<torch::nn::Module> module;
  OperatorId op = kNoOperator;
  CxxRoot* root = nullptr;
  std::string told_as;  // name of an outermost call for the clock
  bool is_root = false;
};

// Modules by address. An entry whose module died is no longer found, so that an address that is
// used again is never taken for the old module. Thread-safe. Nothing here keeps a module alive.
class TDUMP_TORCH_EXPORT CxxModules {
 public:
  static CxxModules& Get();

  // Names the tree below `top`; again: names it anew.
  void Watch(Runtime* runtime, const std::shared_ptr<torch::nn::Module>& top,
             const std::string& prefix);
  std::optional<CxxModule> Find(const torch::nn::Module* module) const;
  // At an outermost call in the tree: what to expect, once; parameters and buffers as
  // they are before the forward, once in each pass. A tensor that several modules
  // share is recorded under its first name. Allocates only while the tree grows.
  void OnOutermostCall(Runtime* runtime, CxxRoot* root) noexcept;
  static bool watching() { return watching_.load(std::memory_order_relaxed); }
  // The module that owns the parameter whose storage begins at `data`, kNoOperator for none. Known
  // from the last outermost call that was recorded: an optimizer may replace a storage.
  OperatorId OwnerOfParameter(const void* data) const;
  // Calls `visit` for each parameter of each watched tree, one that several modules share under its
  // first name. What `visit` throws comes out.
  void ForEachParameter(const std::function<void(OperatorId op, const std::string& name,
                                                 const at::Tensor& parameter)>& visit) const;

 private:
  CxxRoot* RootOf(const std::shared_ptr<torch::nn::Module>& top, const std::string& prefix);
  OperatorId OperatorOf(const torch::nn::Module* module) const;  // kNoOperator: not watched
  void NoteOwner(const torch::nn::Module& module, OperatorId op);

  mutable ForkSafe<std::shared_mutex> mutex_;
  std::unordered_map<const torch::nn::Module*, CxxModule> modules_;
  std::vector<std::unique_ptr<CxxRoot>> roots_;
  std::unordered_map<const void*, OperatorId> parameters_;  // by storage
  static std::atomic<bool> watching_;                       // some tree was given
};

}  // namespace tdump::collectors
