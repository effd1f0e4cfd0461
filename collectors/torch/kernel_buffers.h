// KernelBuffers: which buffers of a compiled model hold a value when a kernel is about to run. The
// debug printer hands over every argument before the launch, buffers that the kernel only writes
// among them: what is in those is left from something else, and is no `before`.
//
// Nothing says which they are. Known is: Inductor names buffers buf0, buf1, ... and gives each name
// one value in a run of the model, so a name that some launch was given before holds one; weights
// and inputs have other names and always do. Of names that come first in this launch:
//   - the first argument of a kernel whose name ends in _out is what it writes;
//   - the arguments of a fused kernel are in the order written in place, read, written, so a name
//     in front of one that holds a value does too;
//   - a name in front of all, whose memory held a value of this run, is that value, to be
//     overwritten in place.
// Of a buffer that is read, and taken for one that is only written, `after` has the value.
//
// A model runs anew when one of its calls of the printer comes again. Not thread-safe.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>

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
    holds_ = false;
  }
  // `site`: what called the printer; another for each argument of each kernel in the source.
  Verdict Before(const void* site, std::string_view kernel, std::string_view name,
                 const void* storage) {
    if (!sites_.insert(site).second) {
      Clear();
      sites_.insert(site);
    }
    const bool first = position_++ == 0;
    if (!name.starts_with("buf") || names_.contains(std::string(name))) return Hold(name, storage);
    if (first && kernel.ends_with("_out")) return Verdict::kOutput;
    if (!holds_ && storages_.contains(storage)) return Hold(name, storage);
    return Verdict::kLater;
  }
  void After(std::string_view name, const void* storage) {
    names_.emplace(name);
    storages_.insert(storage);
  }

 private:
  Verdict Hold(std::string_view name, const void* storage) {
    holds_ = true;
    After(name, storage);
    return Verdict::kHolds;
  }
  void Clear() {
    sites_.clear();
    names_.clear();
    storages_.clear();
  }

  std::unordered_set<const void*> sites_, storages_;
  std::unordered_set<std::string> names_;
  size_t position_ = 0;  // in the launch
  bool holds_ = false;   // an argument of it so far
};

}  // namespace tdump::collectors
