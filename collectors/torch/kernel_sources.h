// KernelSources: which operators of the model a compiled kernel stands for, where Inductor says so.
// Its wrapper source, beside the shared object in the cache and in an AOTInductor package, has it
// in a comment above each launch:
//
//   // Topologically Sorted Source Nodes: [linear], Original ATen: [aten.addmm]
//
// Needs no LibTorch. Thread-safe once made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/call_text.h"

namespace tdump::collectors {

class KernelSources {
 public:
  // Of the model in the shared object at `path`; empty where it has no source, or one that says
  // nothing. The file is read once for each path.
  static std::shared_ptr<const KernelSources> Of(const std::string& path);
  static KernelSources Parse(std::string_view source);

  struct Origin {
    std::string nodes;  // of the graph: "linear, relu"
    std::string aten;   // "aten.addmm, aten.relu"
  };
  // Of the launch of `kernel` whose first argument is `arg`; null where it is not said.
  const Origin* Find(std::string_view kernel, std::string_view arg) const;
  // The same as two texts of the call.
  void AddTo(CallText* text, std::string_view kernel, std::string_view arg) const;

 private:
  std::map<std::string, Origin, std::less<>> origins_;  // by "kernel arg"
};

}  // namespace tdump::collectors
