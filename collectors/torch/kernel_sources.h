// KernelSources: which operators of the model a compiled kernel stands for, where Inductor says so.
// Its wrapper source, beside the shared object in the cache and in an AOTInductor package, has it
// in a comment above each launch:
//
//   // Topologically Sorted Source Nodes: [linear], Original ATen: [aten.addmm]
//
// It also says which buffers a library kernel makes by itself, of which the printer does not hear:
//
//   AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_convolution(buf0, buf1, ..., &buf3_handle));
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
  enum class Made {
    kUnknown,
    kByKernel,     // &buf3_handle: no variable of that name is there before
    kInItsMemory,  // auto buf4 = std::move(buf3), to be overwritten, maybe in place
  };
  Made MadeOf(std::string_view name) const;
  // What Find() says as two texts of the call.
  void AddTo(CallText* text, std::string_view kernel, std::string_view arg) const;

 private:
  void ReadLaunched(std::string_view line);
  void ReadMoved(std::string_view line);

  std::map<std::string, Origin, std::less<>> origins_;  // by "kernel arg"
  std::map<std::string, Made, std::less<>> made_;
};

}  // namespace tdump::collectors
