// KernelBuffers: which buffers of a compiled model hold a value when a kernel is about to run. The
// debug printer hands over every argument before the launch, buffers that the kernel only writes
// among them: what is in those is left from something else, and is no `before`.
//
// Nothing says which they are. Known is: Inductor names buffers buf0, buf1, ... and gives each name
// one value in a run of the model, so a name that some launch was given before holds one; weights
// and inputs have other names and always do. So does what a library kernel made by itself, which
// the printer never hands over behind it; the source names it (kernel_sources.h). Of names that
// come first in this launch:
//   - the first argument of a kernel whose name ends in _out is what it writes;
//   - the arguments of a fused kernel are in the order written in place, read, written, so a name
//     in front of one that holds a value does too;
//   - a name in front of all, whose memory held a value of this run, is that value, to be
//     overwritten in place. Memory that was given back since is any buffer's.
// Of a buffer that is read, and taken for one that is only written, `after` has the value.
//
// A model runs anew when one of its calls of the printer comes again. Not thread-safe.
#pragma once

#include <c10/core/Storage.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "collectors/torch/kernel_sources.h"

namespace tdump::collectors {

class KernelBuffers {
 public:
  enum class Verdict {
    kHolds,   // a value
    kOutput,  // none
    kLater,   // a value if an argument behind it in this launch holds one
  };

  void BeginLaunch() {
    position_ = 0;
    later_ = holds_ = false;
  }
  // `site`: what called the printer; another for each argument of each kernel in the source.
  // `made`: what the source says of the name.
  Verdict Before(const void* site, std::string_view kernel, std::string_view name,
                 const c10::Storage* storage,
                 KernelSources::Made made = KernelSources::Made::kUnknown) {
    if (!sites_.insert(site).second) {
      Clear();
      sites_.insert(site);
    }
    const bool first = position_++ == 0;
    const bool known = !name.starts_with("buf") || names_.contains(std::string(name));
    if (known || made == KernelSources::Made::kByKernel) return Hold(name, storage);
    if (first && kernel.ends_with("_out")) return Verdict::kOutput;
    const bool memory = made == KernelSources::Made::kInItsMemory || Knows(storage);
    if (!holds_ && !later_ && memory) return Hold(name, storage);
    later_ = true;
    return Verdict::kLater;
  }
  void After(std::string_view name, const c10::Storage* storage) {
    names_.emplace(name);
    if (storage == nullptr) return;
    c10::StorageImpl* const impl = storage->unsafeGetStorageImpl();
    if (!storages_.contains(impl)) storages_.emplace(impl, storage->getWeakStorageImpl());
  }

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  Verdict Hold(std::string_view name, const c10::Storage* storage) {
    holds_ = true;
    After(name, storage);
    return Verdict::kHolds;
  }
  // Memory with a value of this run that was not given back. What is kept here keeps no memory of
  // a tensor alive, and no other storage comes to lie where an expired one does.
  bool Knows(const c10::Storage* storage) const {
    if (storage == nullptr) return false;
    const auto found = storages_.find(storage->unsafeGetStorageImpl());
    return found != storages_.end() && !found->second.expired();
  }
  void Clear() {
    sites_.clear();
    names_.clear();
    storages_.clear();
  }

  std::unordered_set<const void*> sites_;
  std::unordered_set<std::string> names_;
  std::unordered_map<const c10::StorageImpl*, WeakStorage> storages_;
  size_t position_ = 0;  // in the launch
  bool later_ = false;   // an argument of it so far may hold none
  bool holds_ = false;   // an argument of it so far holds one
};

}  // namespace tdump::collectors
